//! The caller's two buffers as the pieces that passes work on.

use super::carve::Split;
use super::{Layout, LayoutError};

/// What survives between calls.
pub(crate) struct State<P> {
    /// Samples from the start of the next mel window on.
    pub(crate) samples: P,
    pub(crate) stem: StemCarry<P>,
    pub(crate) encoder_cache: P,
    /// Decoder inputs that wait for the decoder.
    pub(crate) embeddings: P,
    /// The `s` of every decoder layer.
    pub(crate) ada: P,
    pub(crate) decoder_cache: P,
}

/// What the convolutions keep of the past.
pub(crate) struct StemCarry<P> {
    pub(crate) mel: P,
    pub(crate) conv0: P,
}

/// Scratch of the delay conditioning.
pub(crate) struct ConditionScratch<P> {
    pub(crate) t_cond: P,
    pub(crate) hidden: P,
}

/// Scratch that lives through the encoder's three passes.
pub(crate) struct EncoderScratch<P> {
    pub(crate) rotations: P,
    pub(crate) x: P,
}

/// Scratch of the convolution stem. Each input has the carried rows in front.
pub(crate) struct StemScratch<P> {
    pub(crate) mel: P,
    pub(crate) mel_patches: P,
    pub(crate) conv0: P,
    pub(crate) conv0_patches: P,
}

/// Scratch of a transformer layer.
pub(crate) struct LayerScratch<P> {
    pub(crate) n: P,
    pub(crate) q: P,
    pub(crate) k: P,
    pub(crate) v: P,
    pub(crate) a: P,
    pub(crate) gate: P,
    pub(crate) up: P,
    /// Where linear maps put their input as 8 bits.
    pub(crate) quantised: P,
}

/// Scratch of the adapter.
pub(crate) struct AdapterScratch<P> {
    pub(crate) n: P,
    pub(crate) hidden: P,
    pub(crate) quantised: P,
}

/// Scratch that lives through a decoder pass and the output head.
pub(crate) struct DecoderScratch<P> {
    pub(crate) logits: P,
    pub(crate) last: P,
    pub(crate) rotations: P,
    pub(crate) x: P,
}

pub(super) type StemPass<P> = (EncoderScratch<P>, StemScratch<P>);
pub(super) type EncoderPass<P> = (EncoderScratch<P>, LayerScratch<P>);
pub(super) type AdapterPass<P> = (EncoderScratch<P>, AdapterScratch<P>);
pub(super) type DecoderPass<P> = (DecoderScratch<P>, LayerScratch<P>);

/// The caller's two buffers, carved. A view: free to make, and it keeps nothing that the buffers do not.
///
/// A snapshot of a session is a copy of the state buffer and of the [`crate::session::Session`]; the scratch buffer
/// carries nothing from one call to the next.
pub struct Memory<'m> {
    pub(crate) layout: Layout,
    pub(crate) state: State<&'m mut [f32]>,
    scratch: &'m mut [f32],
}

impl<'m> Memory<'m> {
    /// Carves `state` and `scratch`, whose contents need not be initialised and are not touched.
    ///
    /// # Errors
    /// [`LayoutError::BufferTooSmall`] if one is shorter than `layout` says.
    pub fn carve(layout: &Layout, state: &'m mut [f32], scratch: &'m mut [f32]) -> Result<Self, LayoutError> {
        for (name, needed, given) in [
            ("state", layout.state, state.len()),
            ("scratch", layout.scratch, scratch.len()),
        ] {
            if given < needed {
                return Err(LayoutError::BufferTooSmall { name, needed, given });
            }
        }
        Ok(Self {
            layout: *layout,
            state: layout.state(&mut Split { rest: state })?,
            scratch,
        })
    }

    /// The state, and the scratch of the delay conditioning.
    #[allow(clippy::type_complexity)]
    pub(crate) fn condition(
        &mut self,
    ) -> Result<(&mut State<&'m mut [f32]>, ConditionScratch<&mut [f32]>), LayoutError> {
        let scratch = self.layout.condition(&mut Split { rest: self.scratch })?;
        Ok((&mut self.state, scratch))
    }

    /// The state, and the scratch of a stem pass over `positions`.
    pub(crate) fn stem(&mut self, positions: usize) -> Result<Views<'_, 'm, StemScratch<&mut [f32]>>, LayoutError> {
        let (encoder, scratch) = self.layout.stem(&mut Split { rest: self.scratch }, positions)?;
        Ok((&mut self.state, encoder, scratch))
    }

    /// The state, and the scratch of the encoder layers over `positions`; the residual stream is the stem's.
    pub(crate) fn encoder(&mut self, positions: usize) -> Result<Views<'_, 'm, LayerScratch<&mut [f32]>>, LayoutError> {
        let (encoder, scratch) = self.layout.encoder(&mut Split { rest: self.scratch }, positions)?;
        Ok((&mut self.state, encoder, scratch))
    }

    /// The state, and the scratch of the adapter over `positions`; the residual stream is the encoder layers'.
    pub(crate) fn adapter(
        &mut self,
        positions: usize,
    ) -> Result<Views<'_, 'm, AdapterScratch<&mut [f32]>>, LayoutError> {
        let (encoder, scratch) = self.layout.adapter(&mut Split { rest: self.scratch }, positions)?;
        Ok((&mut self.state, encoder, scratch))
    }

    /// Row `index` of the logits of the last decoder pass, if they are kept, and while no other pass has used the
    /// scratch: they are its first piece.
    pub(crate) fn logits(&self, index: usize) -> Option<&[f32]> {
        let width = self.layout.logits_width();
        let rows = (width > 0).then(|| self.scratch.chunks_exact(width))?;
        rows.take(self.layout.options.batch).nth(index)
    }

    /// The state, and the scratch of a decoder pass over `positions`.
    #[allow(clippy::type_complexity)]
    pub(crate) fn decoder(
        &mut self,
        positions: usize,
    ) -> Result<(&mut State<&'m mut [f32]>, DecoderPass<&mut [f32]>), LayoutError> {
        let pass = self.layout.decoder(&mut Split { rest: self.scratch }, positions)?;
        Ok((&mut self.state, pass))
    }
}

/// The state, the encoder's scratch, and that of one of its passes.
type Views<'a, 'm, S> = (&'a mut State<&'m mut [f32]>, EncoderScratch<&'a mut [f32]>, S);
