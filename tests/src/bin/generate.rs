//! Writes the directory of a generated model. Run without arguments for help.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use voxtral_tests::generator::safetensors::Dtype;
use voxtral_tests::generator::{Spec, Weights};

const HELP: &str = "\
Writes params.json, tekken.json and consolidated.safetensors with seeded weights into DIR.

usage: generate MODEL [--dtype bf16|f16|f32] [--sparse] [--threads N] DIR

MODEL is one of
  --variant A..E   a golden variant (0.4 to 3 MB)
  --random SEED    small random dimensions
  --mid            plausible dimensions, 1 GB
  --real           the dimensions of the published 4B model, 8.9 GB
--sparse leaves the weights out: the file has its full length and takes no space.";

/// What the arguments ask for.
struct Request {
    spec: Spec,
    dtype: Dtype,
    weights: Weights,
    dir: String,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Request, String> {
    let (mut spec, mut dir, mut dtype, mut sparse) = (None, None, Dtype::Bf16, false);
    let mut threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--variant" => match value()?.as_str() {
                letter @ ("A" | "B" | "C" | "D" | "E") => spec = letter.chars().next().map(Spec::variant),
                other => return Err(format!("no variant {other}")),
            },
            "--random" => spec = Some(Spec::random(value()?.parse().map_err(|e| format!("--random: {e}"))?)),
            "--mid" => spec = Some(Spec::mid()),
            "--real" => spec = Some(Spec::real()),
            "--sparse" => sparse = true,
            "--threads" => threads = value()?.parse().map_err(|e| format!("--threads: {e}"))?,
            "--dtype" => {
                let name = value()?.to_uppercase();
                dtype = Dtype::ALL
                    .into_iter()
                    .find(|d| d.name() == name)
                    .ok_or(format!("no dtype {name}"))?;
            }
            flag if flag.starts_with('-') => return Err(format!("unknown option {flag}")),
            _ if dir.is_some() => return Err("more than one DIR".into()),
            _ => dir = Some(arg),
        }
    }
    Ok(Request {
        spec: spec.ok_or("no MODEL")?,
        dtype,
        weights: if sparse {
            Weights::Sparse
        } else {
            Weights::Full(threads)
        },
        dir: dir.ok_or("no DIR")?,
    })
}

fn main() -> ExitCode {
    let request = match parse(std::env::args().skip(1)) {
        Ok(request) => request,
        Err(error) => {
            eprintln!("generate: {error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let started = Instant::now();
    if let Err(error) = request
        .spec
        .write(Path::new(&request.dir), request.dtype, request.weights)
    {
        eprintln!("generate: {}: {error}", request.dir);
        return ExitCode::FAILURE;
    }
    let (_, bytes) = request.spec.header(request.dtype);
    println!(
        "{}: {bytes} bytes of weights in {:.2} s",
        request.dir,
        started.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}
