//! A WAV through the demuxer in pieces.

use voxtral_core::format::wav::{Demuxer, Summary, WavError};

/// All samples and what the demuxer says of them.
pub type Decoded = Result<(Vec<f32>, Summary), WavError>;

/// Feeds pieces of `bytes` (sizes in turn) into buffers of samples (sizes in turn), obeying what the demuxer says.
pub fn decode_in_pieces(mut demuxer: Demuxer, bytes: &[u8], pieces: &[usize], rooms: &[usize]) -> Decoded {
    let mut samples = Vec::new();
    let mut at = 0;
    let (mut pieces, mut rooms) = (pieces.iter().cycle(), rooms.iter().cycle());
    while at < bytes.len() {
        let piece = &bytes[at..][..(*pieces.next().unwrap()).min(bytes.len() - at)];
        let mut room = vec![f32::NAN; *rooms.next().unwrap()];
        let progress = demuxer.push(piece, &mut room)?;
        assert!(progress.consumed <= piece.len() && progress.written <= room.len());
        if progress.seek.is_none() && progress.written < room.len() {
            assert_eq!(progress.consumed, piece.len(), "bytes left though there was room");
        }
        samples.extend_from_slice(&room[..progress.written]);
        at = match progress.seek {
            Some(offset) => usize::try_from(offset).unwrap_or(usize::MAX),
            None => at + progress.consumed,
        };
    }
    let summary = demuxer.finish()?;
    assert_eq!(summary, demuxer.finish()?);
    assert_eq!(summary.frames, samples.len() as u64);
    Ok((samples, summary))
}
