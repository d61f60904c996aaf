//! Zeroed memory for a session.

use std::ops::{Deref, DerefMut};

use crate::error::Error;

/// Values that a line of the caches holds.
const LINE: usize = 64 / size_of::<f32>();

/// Zeroed pages of the system's, which cost nothing before they are touched.
///
/// They begin where a line of the caches does: large allocations commonly begin 16 bytes later, and then every other
/// vector that a kernel loads lies across two lines.
pub(crate) struct Zeroed {
    all: Vec<f32>,
    start: usize,
    len: usize,
}

impl Zeroed {
    /// `len` values.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not enough.
    pub(crate) fn new(len: usize) -> Result<Self, Error> {
        let with_room = len.saturating_add(LINE);
        // A zeroed allocation cannot fail politely, so the same amount is asked for and given back before.
        let mut asked = Vec::<f32>::new();
        asked.try_reserve_exact(with_room).map_err(|_| Error::Memory {
            bytes: len.saturating_mul(size_of::<f32>()),
        })?;
        drop(asked);
        let all = vec![0.0; with_room];
        let start = all.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        Ok(Self { all, start, len })
    }
}

impl Deref for Zeroed {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.all[self.start..][..self.len]
    }
}

impl DerefMut for Zeroed {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.all[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_with_a_line() {
        for len in [0, 1, 15, 16, 17, 1000, 1 << 20] {
            let mut memory = Zeroed::new(len).unwrap();
            assert_eq!(memory.len(), len);
            assert_eq!(memory.as_ptr().align_offset(64), 0, "{len}");
            assert!(memory.iter().all(|&value| value == 0.0));
            memory.fill(1.0);
        }
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(matches!(Zeroed::new(usize::MAX / 8), Err(Error::Memory { .. })));
    }
}
