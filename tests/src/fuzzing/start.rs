//! The saved start of utterances, in a session that is at its start.

use std::sync::OnceLock;

use voxtral_core::kernels::Serial;
use voxtral_core::layout::{Layout, Memory};
use voxtral_core::session::{Session, Step};

use super::one_line;
use super::session::models;

/// The layout, and what its sessions save.
fn saved() -> &'static (Layout, Vec<u8>) {
    static SAVED: OnceLock<(Layout, Vec<u8>)> = OnceLock::new();
    SAVED.get_or_init(|| {
        let engine = &models().own;
        let layout = Layout::new(&engine.params, &engine.options(2)).unwrap();
        let (mut state, mut scratch) = (vec![0.0; layout.state_len()], vec![0.0; layout.scratch_len()]);
        let mut memory = Memory::carve(&layout, &mut state, &mut scratch).unwrap();
        let mut session = Session::new(&layout);
        session.prime();
        while session.step(&engine.model(), &mut memory, &Serial).unwrap() != Step::NeedAudio {}
        let mut bytes = vec![0; Session::silence_len(&layout)];
        session.save_silence(&engine.model(), &mut memory, &mut bytes).unwrap();
        (layout, bytes)
    })
}

/// Taken is only what was saved; what is refused has changed nothing, and the session goes on by itself.
///
/// If the first byte is even the others are the saved bytes. Else the next two say how many of the right ones there are
/// (all, if that is more), and each three behind them change one: its place and its value.
pub fn start(data: &[u8]) {
    let [kind, rest @ ..] = data else { return };
    let (layout, right) = saved();
    let mut bytes = rest.to_vec();
    if kind % 2 == 1 {
        let [a, b, changes @ ..] = rest else { return };
        bytes = right.clone();
        bytes.truncate(u16::from_le_bytes([*a, *b]).into());
        for change in changes.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = change[2];
            }
        }
    }
    let engine = &models().own;
    let model = engine.model();
    let (mut state, mut scratch) = (vec![f32::NAN; layout.state_len()], vec![f32::NAN; layout.scratch_len()]);
    let mut memory = Memory::carve(layout, &mut state, &mut scratch).unwrap();
    let mut session = Session::new(layout);
    let silent = Session::silent_positions(layout);
    match session.restore_silence(&model, &mut memory, &bytes) {
        Ok(()) => {
            assert_eq!(bytes, *right);
            assert_eq!(session.positions_decoded(), silent);
        }
        Err(error) => {
            assert_ne!(bytes, *right);
            one_line(&error);
            assert_eq!(session.positions_decoded(), 0);
        }
    }
    session.finish();
    assert!(session.step(&model, &mut memory, &Serial).is_ok());
}
