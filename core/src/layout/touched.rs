//! How much of a session's memory a clip makes use of, in pages.
//!
//! Systems with pages give memory when it is first written. A ring of keys and values has a run of slots for each head
//! of each layer, and a clip of `n` positions writes the first `min(n, capacity)` slots of each, so most of a large
//! model's caches costs nothing until the audio gets long. Other pieces of the state are written whole, or as far as
//! the widest pass reaches. Of the scratch, all passes write from its start on, so it is the union of what they write.

use core::num::NonZeroUsize;
use core::ops::Range;

use super::carve::Locate;
use super::{CacheType, Heads, Layout, LayoutError, decoder, encoder, window_samples};

/// What a clip makes use of, in bytes of whole pages. See [`Layout::touched`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Of the state buffer.
    pub state: usize,
    /// Of the scratch buffer.
    pub scratch: usize,
}

impl Touched {
    /// Of both buffers.
    pub fn total(&self) -> usize {
        self.state.saturating_add(self.scratch)
    }
}

impl Layout {
    /// The memory that a session from position 0 on writes to until `positions` have been decoded, which for a clip are
    /// [`Schedule::positions`](crate::session::Schedule::positions): pages of `page` bytes (0 counts as 1) that hold
    /// some of it, each counted once.
    ///
    /// `blocks` says whether the model has [weights in blocks](crate::model::Model::has_blocks), whose input is put
    /// into scratch as 8 bits.
    ///
    /// Both buffers are taken to begin at a page. Elsewhere each of their runs may reach into one page more or less. The
    /// session is taken to gather whole chunks and to fill its batches, as one does that is fed faster than it computes;
    /// another does not write more. With `page` 1 it is the very bytes, of which there are never more than
    /// [`Layout::state_len`] and [`Layout::scratch_len`] say.
    pub fn touched(&self, positions: u64, blocks: bool, page: usize) -> Touched {
        let positions = usize::try_from(positions).unwrap_or(usize::MAX);
        // No pass is wider than a chunk, and those were measured in `new`.
        let state = self.touched_state(positions, page).unwrap_or_default();
        let scratch = self.touched_scratch(positions, blocks, page).unwrap_or_default();
        Touched { state, scratch }
    }

    fn touched_state(&self, positions: usize, page: usize) -> Result<usize, LayoutError> {
        let (e, d) = (&self.params.encoder, &self.params.decoder);
        let widest = positions.min(self.options.chunk);
        let frames = positions.saturating_mul(self.params.downsample_factor);
        let state = self.state(&mut Locate::default())?;
        let mut pages = Pages::new(page);
        // Samples of all positions come in, padding included, as far as there is room.
        pages.add(first(state.samples, window_samples(widest)?));
        pages.add(state.stem.mel);
        pages.add(state.stem.conv0);
        let (heads, capacity) = (encoder::heads(e), self.encoder_capacity);
        pages.add_rings(state.encoder_cache, self.options.cache, heads, capacity, frames);
        pages.add(first(state.embeddings, widest.saturating_mul(d.dim)));
        pages.add(state.ada);
        let (heads, capacity) = (decoder::heads(d), self.decoder_capacity);
        pages.add_rings(state.decoder_cache, self.options.cache, heads, capacity, positions);
        Ok(pages.bytes())
    }

    fn touched_scratch(&self, positions: usize, blocks: bool, page: usize) -> Result<usize, LayoutError> {
        let options = &self.options;
        let widest = positions.min(options.chunk);
        let quantised = |piece: Range<usize>| if blocks { piece.end } else { piece.start };
        // These passes write everything from the start of the scratch on, up to the input as 8 bits, which is last.
        let condition = self.condition(&mut Locate::default())?;
        let (_, stem) = self.stem(&mut Locate::default(), widest)?;
        let (_, layer) = self.encoder(&mut Locate::default(), widest)?;
        let (_, adapter) = self.adapter(&mut Locate::default(), widest)?;
        let end = condition
            .hidden
            .end
            .max(stem.conv0_patches.end)
            .max(quantised(layer.quantised))
            .max(quantised(adapter.quantised));

        // The decoder leaves rows out that decide nothing: of logits, and of the last positions.
        let prompt = options
            .left_pad_tokens
            .saturating_add(options.delay_tokens)
            .saturating_add(1);
        let behind = positions.saturating_sub(prompt);
        let deciding = options.batch.min(options.chunk).min(behind).max(1);
        let rows = widest.min(prompt).max(deciding);
        let (pass, layer) = self.decoder(&mut Locate::default(), rows)?;

        let mut pages = Pages::new(page);
        pages.add(0..end);
        pages.add(first(pass.logits, deciding.saturating_mul(self.logits_width())));
        pages.add(first(pass.last, deciding.saturating_mul(self.params.decoder.dim)));
        pages.add(pass.rotations.start..quantised(layer.quantised));
        Ok(pages.bytes())
    }
}

/// As much of a piece as its first `values`.
fn first(piece: Range<usize>, values: usize) -> Range<usize> {
    piece.start..piece.start.saturating_add(values).min(piece.end)
}

/// Counts the pages of runs of a buffer. Runs come in the order of their starts.
struct Pages {
    page: NonZeroUsize,
    count: usize,
    /// The page behind the last one that was counted.
    end: usize,
}

impl Pages {
    fn new(page: usize) -> Self {
        Self {
            page: NonZeroUsize::new(page).unwrap_or(NonZeroUsize::MIN),
            count: 0,
            end: 0,
        }
    }

    /// A run of values.
    fn add(&mut self, run: Range<usize>) {
        let byte = |value: usize| value.saturating_mul(size_of::<f32>());
        self.add_bytes(byte(run.start)..byte(run.end));
    }

    fn add_bytes(&mut self, run: Range<usize>) {
        if run.is_empty() {
            return;
        }
        let start = (run.start / self.page).max(self.end);
        let end = run.end.div_ceil(self.page.get());
        self.count = self.count.saturating_add(end.saturating_sub(start));
        self.end = self.end.max(end);
    }

    /// The first slots of all rings of a cache, as many as were written.
    fn add_rings(&mut self, piece: Range<usize>, cache: CacheType, heads: Heads, capacity: usize, written: usize) {
        let slots = 0..written.min(capacity);
        let rows = heads.n_kv_heads.saturating_mul(capacity);
        // Keys, values, of one layer after the other.
        let half = cache.floats(rows, heads.head_dim).unwrap_or(usize::MAX).max(1);
        for start in piece.step_by(half) {
            let [start, len] = [start, half].map(|values| values.saturating_mul(size_of::<f32>()));
            cache.each_run(heads, capacity, core::slice::from_ref(&slots), len, &mut |run| {
                self.add_bytes(start.saturating_add(run.start)..start.saturating_add(run.end));
            });
        }
    }

    fn bytes(&self) -> usize {
        self.count.saturating_mul(self.page.get())
    }
}
