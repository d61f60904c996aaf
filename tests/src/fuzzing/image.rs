//! Packed models.

use voxtral_core::format::image::{ALIGNMENT, Image, MAX_PARTS, PartKind, checksum, header_len};

use super::one_line;

/// A packed model, as it stands and with the checksum of its header put right: parts that lie inside, aligned and one
/// behind the other, of which three are there once.
pub fn image(data: &[u8]) {
    examine(data);
    let mut sealed = data.to_vec();
    seal(&mut sealed);
    examine(&sealed);
}

/// Puts the checksum of the header right, without which nearly everything ends there.
pub fn seal(image: &mut [u8]) {
    let Some(count) = image.get(12..16) else { return };
    let count = u32::from_le_bytes(count.try_into().expect("4 bytes")) as usize;
    let Some(header) = image.get_mut(..header_len(count.min(MAX_PARTS))) else {
        return;
    };
    header[24..32].fill(0);
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    for word in header.chunks(8) {
        hash ^= u64::from_le_bytes(word.try_into().expect("headers have whole words"));
        hash = hash.wrapping_mul(0x0100_0000_01B3);
    }
    header[24..32].copy_from_slice(&hash.to_le_bytes());
}

fn examine(data: &[u8]) {
    let image = match Image::open(data) {
        Ok(image) => image,
        Err(error) => return one_line(&error),
    };
    let (mut end, mut singles) = (0, [0; 3]);
    for part in image.parts() {
        assert!(part.offset >= end && part.offset % ALIGNMENT == 0);
        end = part.offset + part.len;
        let bytes = &data[part.offset as usize..end as usize];
        assert_eq!(image.bytes(&part), bytes);
        match part.kind {
            PartKind::Weights => singles[0] += 1,
            PartKind::Params => singles[1] += 1,
            PartKind::Tekken => singles[2] += 1,
            PartKind::Start | PartKind::Other(_) => {}
        }
    }
    assert!(end as usize <= image.len() && image.len() <= data.len());
    assert_eq!(singles, [1; 3]);
    let whole = image.parts().all(|part| checksum(image.bytes(&part)) == part.checksum);
    assert_eq!(image.verify().is_ok(), whole);
    if let Err(error) = image.verify() {
        one_line(&error);
    }
}
