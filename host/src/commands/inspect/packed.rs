//! What is in a packed model.

use std::io::Write;
use std::path::Path;

use serde_json::json;
use voxtral_core::format::image::Image;
use voxtral_core::format::params::Params;
use voxtral_core::format::safetensors::{self, Entry};
use voxtral_core::format::tekken::Vocabulary;
use voxtral_core::model::{Binding, Slot};

use super::Inspect;
use crate::error::Error;
use crate::map::{Bytes, Mapper};

/// The outer error ends the work, the inner one is told after the output is out.
pub(super) fn run(args: &Inspect, out: &mut dyn Write) -> Result<Result<(), Error>, Error> {
    if args.prefix.is_some() || args.summary || args.stats.is_some() || args.model {
        return Err(Error::Usage(format!(
            "{} is a packed model: its parts are shown, and checked by --check; for tensors give the file of weights",
            args.path.display()
        )));
    }
    let path = &args.path;
    let bytes = Bytes::open(path, Mapper::default()).map_err(|source| Error::File {
        path: path.clone(),
        source,
    })?;
    let opened = Image::open(&bytes).map_err(|source| Error::Image {
        path: path.clone(),
        source,
    });
    let result = opened.and_then(|image| {
        if args.check {
            check(path, &image)?;
        }
        Ok(image)
    });
    let written = match &result {
        Ok(image) if args.json => {
            let parts = image.parts().map(|part| {
                json!({"kind": part.kind.to_string(), "offset": part.offset, "bytes": part.len,
                       "checksum": format!("{:016x}", part.checksum)})
            });
            let value = json!({"ok": true, "path": path.to_string_lossy(), "bytes": image.len(),
                               "parts": parts.collect::<Vec<_>>()});
            writeln!(out, "{value}")
        }
        Ok(image) if args.check => {
            let (parts, len) = (image.parts().count(), image.len());
            writeln!(
                out,
                "{}: a whole packed model, {parts} parts, {len} bytes",
                path.display()
            )
        }
        Ok(image) => image.parts().try_for_each(|part| {
            writeln!(
                out,
                "{:<12} {:>12} bytes at {:>12}  checksum {:016x}",
                part.kind.to_string(),
                part.len,
                part.offset,
                part.checksum
            )
        }),
        Err(error) if args.json => {
            let value = json!({"ok": false, "path": path.to_string_lossy(), "fault": error.to_string()});
            writeln!(out, "{value}")
        }
        Err(_) => Ok(()),
    };
    written.map_err(Error::Output)?;
    Ok(result.map(|_| ()))
}

/// Every checksum, and whether the parts are a model.
fn check(path: &Path, image: &Image<'_>) -> Result<(), Error> {
    image.verify().map_err(|source| Error::Image {
        path: path.into(),
        source,
    })?;
    // A fault inside a part is told as one of the whole file.
    let inside = |what: String| Error::Shards {
        path: path.into(),
        what,
    };
    let params = Params::parse(image.params()).map_err(|error| inside(format!("params.json: {error}")))?;
    let vocabulary = Vocabulary::parse(image.tekken()).map_err(|error| inside(format!("tekken.json: {error}")))?;
    vocabulary
        .index(image.tekken(), &mut vec![0; vocabulary.index_len()])
        .map_err(|error| inside(format!("tekken.json: {error}")))?;
    let weights = |error: safetensors::Error| inside(format!("weights: {error}"));
    let mut entries = vec![Entry::default(); safetensors::count(image.weights()).map_err(weights)?];
    let header = safetensors::parse(image.weights(), &mut entries).map_err(weights)?;
    let mut slots = vec![Slot::default(); Binding::slots(&params)];
    Binding::new(&header, &params, &mut slots).map_err(|error| inside(format!("weights: {error}")))?;
    Ok(())
}
