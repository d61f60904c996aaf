//! Going through the pieces of a region, one behind the other: to count them, to cut them off, or to know where they lie.

use core::mem;
use core::ops::Range;

use super::{Item, LayoutError, Region, product};

/// Takes one piece of memory after the other.
pub(super) trait Carve {
    /// What a piece is.
    type Piece;
    /// The next piece, of that shape.
    fn piece(&mut self, name: &'static str, shape: &[usize]) -> Result<Self::Piece, LayoutError>;
}

/// Counts.
pub(super) struct Count<'f> {
    pub(super) region: Region,
    pub(super) values: usize,
    pub(super) show: &'f mut dyn FnMut(Item),
}

impl Carve for Count<'_> {
    type Piece = ();

    fn piece(&mut self, name: &'static str, shape: &[usize]) -> Result<(), LayoutError> {
        let values = product(name, shape)?;
        self.values = self.values.checked_add(values).ok_or(LayoutError::TooLarge { name })?;
        // Sizes are told in bytes, and a slice may not have more than isize::MAX of them.
        if self.values > const { isize::MAX.unsigned_abs() / size_of::<f32>() } {
            return Err(LayoutError::TooLarge { name });
        }
        if values > 0 {
            (self.show)(Item {
                region: self.region,
                name,
                values,
            });
        }
        Ok(())
    }
}

/// Splits.
pub(super) struct Split<'m> {
    pub(super) rest: &'m mut [f32],
}

impl<'m> Carve for Split<'m> {
    type Piece = &'m mut [f32];

    fn piece(&mut self, name: &'static str, shape: &[usize]) -> Result<&'m mut [f32], LayoutError> {
        let needed = product(name, shape)?;
        let rest = mem::take(&mut self.rest);
        let given = rest.len();
        let (piece, rest) =
            rest.split_at_mut_checked(needed)
                .ok_or(LayoutError::BufferTooSmall { name, needed, given })?;
        self.rest = rest;
        Ok(piece)
    }
}

/// Tells where pieces lie, in values from the start of their region.
#[derive(Default)]
pub(super) struct Locate {
    end: usize,
}

impl Carve for Locate {
    type Piece = Range<usize>;

    fn piece(&mut self, name: &'static str, shape: &[usize]) -> Result<Range<usize>, LayoutError> {
        let start = self.end;
        self.end = start
            .checked_add(product(name, shape)?)
            .ok_or(LayoutError::TooLarge { name })?;
        Ok(start..self.end)
    }
}
