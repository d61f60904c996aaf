//! `voxtral pack`: the files of a model in one image, for flash.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use voxtral_core::format::image::{self, Part, PartKind};

use super::console::Console;
use super::new_file::{NewFile, unwritten};
use super::options::{SessionOptions, ThreadOptions};
use super::prime::primed;
use crate::error::Error;
use crate::interrupt;
use crate::map::{Bytes, Mapper};
use crate::model::{FILES, Model};
use crate::recognise::is_image;

/// Bytes between two looks at whether Ctrl-C was pressed.
const PIECE: usize = 1 << 20;

/// Pack the files of a model into one image, for a board's flash: parts at multiples of 64 bytes, behind a small header
/// with checksums. The weights stay as they are
#[derive(Args, Debug)]
pub(super) struct Pack {
    /// Directory with consolidated.safetensors, params.json and tekken.json
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The image; it is there once it is whole, and takes the place of an image, but of no other file
    #[arg(value_name = "OUT.bin")]
    out: PathBuf,
    /// Also put in the start that all utterances share, as `voxtral prime` computes it, for the options below and
    /// processors of this class
    #[arg(long)]
    prime: bool,
    #[command(flatten)]
    session: SessionOptions,
    #[command(flatten)]
    threads: ThreadOptions,
}

pub(super) fn run(args: &Pack) -> Result<ExitCode, Error> {
    let console = Console::new(false);
    // What cannot be opened is not packed.
    let model = Model::open(&args.directory)?;
    let vocabulary = model.vocabulary();
    vocabulary.index(model.tekken(), &mut vec![0; vocabulary.index_len()])?;
    let start = if args.prime {
        start(args, &model, &console)?
    } else {
        Vec::new()
    };
    let open = |name: &str| {
        let path = args.directory.join(name);
        Bytes::open(&path, Mapper::default()).map_err(|source| Error::File { path, source })
    };
    let [weights, params, tekken] = FILES;
    let (weights, params, tekken) = (open(weights)?, open(params)?, open(tekken)?);
    // The small parts first, so that a board that looks at them touches the beginning of its flash only.
    let mut parts = vec![
        (PartKind::Params, &params[..]),
        (PartKind::Tekken, &tekken[..]),
        (PartKind::Weights, &weights[..]),
    ];
    if args.prime {
        parts.insert(2, (PartKind::Start, &start[..]));
    }
    let inputs = FILES.map(|name| args.directory.join(name));
    let there = fs::metadata(&args.out).is_ok_and(|there| there.is_file() && there.len() > 0);
    if there && !is_image(&args.out) {
        return Err(Error::Exists { path: args.out.clone() });
    }
    let mut file = NewFile::create(&args.out, &inputs, false)?;
    let len = write(&parts, &args.out, &mut file)?;
    file.keep().map_err(unwritten(&args.out))?;
    console.note(format_args!(
        "{}: {} parts, {len} bytes{}",
        args.out.display(),
        parts.len(),
        if there {
            ", in place of the image that was there"
        } else {
            ""
        }
    ));
    Ok(ExitCode::SUCCESS)
}

/// The start of every utterance.
fn start(args: &Pack, model: &Model, console: &Console) -> Result<Vec<u8>, Error> {
    let options = args.session.of(model, console)?;
    let pool = args.threads.pool();
    Ok(primed(model, &options, &pool)?.start().unwrap_or_default().to_vec())
}

/// Writes header and parts, and says how many bytes that were.
fn write(parts: &[(PartKind, &[u8])], path: &Path, out: &mut dyn Write) -> Result<u64, Error> {
    let refuse = unwritten(path);
    let mut entries: Vec<_> = parts
        .iter()
        .map(|&(kind, bytes)| Part {
            kind,
            offset: 0,
            len: bytes.len() as u64,
            checksum: image::checksum(bytes),
        })
        .collect();
    let mut header = vec![0; image::header_len(parts.len())];
    let len = image::write_header(&mut entries, &mut header)
        .map_err(|error| refuse(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    out.write_all(&header).map_err(&refuse)?;
    let mut at = header.len() as u64;
    for (entry, (_, bytes)) in entries.iter().zip(parts) {
        // As flash is where nothing was programmed.
        let gap = vec![0xFF; (entry.offset - at) as usize];
        out.write_all(&gap).map_err(&refuse)?;
        for piece in bytes.chunks(PIECE) {
            if interrupt::flag().load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            out.write_all(piece).map_err(&refuse)?;
        }
        at = entry.offset + entry.len;
    }
    Ok(len)
}
