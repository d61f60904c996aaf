//! `voxtral inspect`: what is in a safetensors file or a packed model, and whether it is as it should be.
//!
//! Headers are read; tensors only by `--stats`, and then through the mapping, so memory does not grow with the file.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::Tensor;
use voxtral_core::model::{BindError, Binding, Role};

use crate::error::Error;
use crate::map::{Bytes, Mapper};
use crate::model::{FILES, Model, is_hugging_face};
use crate::recognise::{Kind, is_image};
use crate::shards::Checkpoint;
use crate::weights::WeightsFile;

mod list;
mod packed;
mod stats;
mod stored;
mod summary;

/// Show what is in a safetensors file or a packed model, and whether it is as it should be
#[derive(Args, Debug)]
pub(super) struct Inspect {
    /// Safetensors file, index of a sharded checkpoint, directory with either, or packed model
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,
    /// Only tensors whose name begins so
    #[arg(long, value_name = "P", conflicts_with_all = ["check", "stats", "model"])]
    prefix: Option<String>,
    /// Sizes, and the tensors counted by group and by dtype, instead of each tensor
    #[arg(long, group = "what")]
    summary: bool,
    /// Only tell whether the files are well-formed: the first fault, where it is and what to do
    #[arg(long, group = "what")]
    check: bool,
    /// Read one tensor (BF16, F16, F32, or weights in blocks): extremes, mean, rms, NaN, infinities, histogram
    #[arg(long, value_name = "NAME", group = "what")]
    stats: Option<String>,
    /// List everything that is not as params.json beside the file has it
    #[arg(long, group = "what")]
    model: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Inspect) -> Result<ExitCode, Error> {
    super::stdout::tell_if_nowhere();
    let mut out = BufWriter::new(super::stdout::Stdout);
    let verdict = inspect(args, &mut out)?;
    out.flush().map_err(Error::Output)?;
    verdict.map(|()| ExitCode::SUCCESS)
}

/// The outer error ends the work, the inner one is told after the output is out.
fn inspect(args: &Inspect, out: &mut dyn Write) -> Result<Result<(), Error>, Error> {
    if is_image(&args.path) {
        return packed::run(args, out);
    }
    let open = || {
        let checkpoint = Checkpoint::at(&args.path)?;
        let files = checkpoint.open()?;
        checkpoint.check(&files)?;
        Ok::<_, Error>(files)
    };
    if args.check {
        let mut result = open().and_then(|files| whole_model(&args.path).map(|()| files));
        if let Err(Error::Safetensors { source, explained, .. }) = &mut result {
            *explained = format!("fault at byte {}: {explained}", source.offset());
        }
        check(args, &result, out).map_err(Error::Output)?;
        return Ok(result.map(|_| ()));
    }
    let files = open()?;
    if let Some(name) = &args.stats {
        stats::run(args, &files, name, out)?;
    } else if args.model {
        return model(args, &files, out);
    } else if args.summary {
        summary::run(args, &files, out).map_err(Error::Output)?;
    } else if args.json {
        list::json(args, &files, out).map_err(Error::Output)?;
    } else {
        list::table(args, &files, out).map_err(Error::Output)?;
    }
    Ok(Ok(()))
}

/// If a directory is there to be a model, whether all of it is one.
fn whole_model(path: &Path) -> Result<(), Error> {
    if is_hugging_face(path) && path.join(FILES[1]).exists() {
        return Err(Error::HuggingFaceDirectory { directory: path.into() });
    }
    if path.join(FILES[0]).exists() {
        let model = Model::open(path)?;
        let vocabulary = model.vocabulary();
        vocabulary
            .index(model.tekken(), &mut vec![0; vocabulary.index_len()])
            .map_err(|source| Error::Tekken {
                path: path.join(FILES[2]),
                source: source.into(),
            })?;
    }
    Ok(())
}

impl Inspect {
    /// Whether a tensor is among those asked for.
    fn wants(&self, tensor: &Tensor<'_>) -> bool {
        match &self.prefix {
            None => true,
            Some(prefix) => {
                let mut name = tensor.name().bytes();
                prefix.bytes().all(|byte| name.next() == Some(byte))
            }
        }
    }
}

fn check(args: &Inspect, result: &Result<Vec<WeightsFile>, Error>, out: &mut dyn Write) -> io::Result<()> {
    match result {
        Ok(files) if args.json => {
            let files = files.iter().map(|file| {
                json!({"path": file.path().to_string_lossy(), "bytes": file.len(), "tensors": file.header().len()})
            });
            writeln!(out, "{}", json!({"ok": true, "files": files.collect::<Vec<_>>()}))
        }
        Ok(files) => files.iter().try_for_each(|file| {
            let (tensors, bytes) = (file.header().len(), file.len());
            writeln!(
                out,
                "{}: well-formed, {tensors} tensors, {bytes} bytes",
                file.path().display()
            )
        }),
        // The fault itself goes to standard error, in one line like any other.
        Err(_) if !args.json => Ok(()),
        Err(error) => {
            let (path, offset, fault, hint) = match error {
                Error::Safetensors {
                    path,
                    source,
                    explained,
                    hint,
                } => (path, Some(source.offset()), explained.clone(), hint.clone()),
                Error::NotWeights { path, found } => {
                    let hint = found.advice(path);
                    (path, Some(0), format!("this is {found}"), Some(hint))
                }
                Error::Shards { path, what } => (path, None, what.clone(), None),
                Error::File { path, source } => (path, None, source.to_string(), None),
                other => (&args.path, None, other.to_string(), None),
            };
            let path = path.to_string_lossy();
            let value = json!({"ok": false, "path": path, "offset": offset, "fault": fault, "hint": hint});
            writeln!(out, "{value}")
        }
    }
}

fn model(args: &Inspect, files: &[WeightsFile], out: &mut dyn Write) -> Result<Result<(), Error>, Error> {
    let [file] = files else {
        let what = format!(
            "has {} files of weights, the engine reads one, {}",
            files.len(),
            FILES[0]
        );
        return Err(Error::Shards {
            path: args.path.clone(),
            what,
        });
    };
    let path = file.path().with_file_name(FILES[1]);
    let json = Bytes::open(&path, Mapper::default()).map_err(|source| Error::File {
        path: path.clone(),
        source,
    })?;
    let params = Params::parse(&json).map_err(|source| match Kind::of(&json) {
        None | Some(Kind::Json) => Error::Params {
            path: path.clone(),
            source: source.into(),
        },
        Some(found) => Error::NotWeights {
            path: path.clone(),
            found,
        },
    })?;

    let header = file.header();
    let mut faults = vec![];
    Binding::faults(&header, &params, |fault| faults.push(fault));
    let mut known: HashSet<String> = Role::all(&params).map(|role| role.to_string()).collect();
    known.extend(faults.iter().filter_map(subject));
    let ignored = header.iter().filter(|tensor| {
        let name = tensor.name();
        !known.contains(name.to_string().as_str())
    });

    if args.json {
        let faults = faults.iter().map(|fault| {
            let (kind, expected, found) = match fault {
                BindError::Missing { .. } => ("missing", None, None),
                BindError::WrongShape { expected, found, .. } => {
                    ("shape", Some(expected.to_string()), Some(found.to_string()))
                }
                BindError::WrongDtype { found, .. } => ("dtype", None, Some(found.to_string())),
                BindError::Unexpected { .. } | BindError::OutputHead => ("unexpected", None, None),
                BindError::HuggingFaceLayout => ("layout", None, None),
                BindError::InvalidBlocks { .. } | BindError::NoBlocksHere { .. } => ("storage", None, None),
                BindError::UnknownBlocks { found, .. } => ("storage", None, Some(found.to_string())),
                BindError::BlocksDtype { found, .. } => ("storage", None, Some(found.to_string())),
                BindError::BlocksSize { expected, found, .. } => {
                    ("storage", Some(expected.to_string()), Some(found.to_string()))
                }
                _ => ("other", None, None),
            };
            json!({"kind": kind, "name": subject(fault), "expected": expected, "found": found,
                   "message": fault.to_string()})
        });
        let faults = faults.collect::<Vec<_>>();
        let ignored = ignored.map(|tensor| tensor.name().to_string()).collect::<Vec<_>>();
        let value = json!({"ok": faults.is_empty(), "path": file.path().to_string_lossy(),
                           "faults": faults, "ignored": ignored});
        writeln!(out, "{value}").map_err(Error::Output)?;
    } else {
        let roles = Role::all(&params).count();
        let print = |out: &mut dyn Write| {
            for fault in &faults {
                writeln!(out, "{fault}")?;
            }
            for tensor in ignored {
                let name = list::Name(tensor.name());
                writeln!(out, "tensor {name} is not part of the model and is ignored")?;
            }
            if faults.is_empty() {
                writeln!(
                    out,
                    "{}: all {roles} tensors are as params.json has them",
                    file.path().display()
                )?;
            }
            Ok(())
        };
        print(out).map_err(Error::Output)?;
    }
    Ok(if faults.is_empty() {
        Ok(())
    } else {
        Err(Error::NotTheModel {
            path: file.path().into(),
            faults: faults.len(),
        })
    })
}

/// The tensor that a fault is about.
fn subject(fault: &BindError) -> Option<String> {
    match fault {
        BindError::Missing { role }
        | BindError::Unexpected { role }
        | BindError::WrongShape { role, .. }
        | BindError::WrongDtype { role, .. }
        | BindError::InvalidBlocks { role }
        | BindError::UnknownBlocks { role, .. }
        | BindError::NoBlocksHere { role }
        | BindError::BlocksDtype { role, .. }
        | BindError::BlocksSize { role, .. } => Some(role.to_string()),
        BindError::OutputHead => Some("output.weight".into()),
        _ => None,
    }
}
