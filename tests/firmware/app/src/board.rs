//! What the application asks of a board, and what it does with one.

use core::fmt::Write;

use voxtral_core::kernels::Kernels;

use crate::{Failure, Files, Ram, transcribe};

/// What a board has beside memory: a place for text, which [`Write`] is, and what reports say of it.
pub trait Board: Write {
    /// Its name.
    const NAME: &'static str;

    /// Instructions that were executed since some moment, where something counts them.
    fn instructions(&self) -> Option<u64>;

    /// How deep the stack has been, where that can be seen.
    fn stack(&self) -> Option<Stack>;
}

/// Bytes of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    /// At its deepest.
    pub used: usize,
    /// All that there are for it.
    pub size: usize,
}

/// Writes what is said in each recording, by its name, and what it took to find out; the model is the packed one that
/// `flash` begins with. If something is wrong that is the last line, and `false`.
pub fn run(board: &mut impl Board, flash: &[u8], clips: &[(&str, &[u8])], kernels: Kernels, ram: &mut Ram) -> bool {
    let result = Files::packed(flash).and_then(|files| {
        clips
            .iter()
            .try_for_each(|(name, wav)| hear(board, files, name, wav, kernels, ram))
    });
    if let Err(failure) = &result {
        // There is nowhere else to tell that telling failed.
        let _ = writeln!(board, "\n{failure}");
    }
    result.is_ok()
}

fn hear<B: Board>(
    board: &mut B,
    files: Files,
    name: &str,
    wav: &[u8],
    kernels: Kernels,
    ram: &mut Ram,
) -> Result<(), Failure> {
    write!(board, "{name}:")?;
    let begun = board.instructions();
    let report = transcribe(files, wav, kernels, &mut ram.buffers(), board)?;
    let ended = board.instructions();
    writeln!(
        board,
        " [{} tokens {:016x}] [logits {:016x}]",
        report.tokens, report.token_hash, report.logit_hash
    )?;
    write!(
        board,
        "{}: state {} B, scratch {} B",
        B::NAME,
        report.state,
        report.scratch
    )?;
    if let Some(Stack { used, size }) = board.stack() {
        write!(board, ", stack {used} B of {size} B")?;
    }
    if let (Some(begun), Some(ended)) = (begun, ended) {
        write!(
            board,
            "; {} million instructions",
            ended.wrapping_sub(begun) / 1_000_000
        )?;
    }
    writeln!(board, " for {} ms of audio", report.samples / 16)?;
    Ok(())
}
