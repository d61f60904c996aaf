//! What stands behind the audio of a WAV: chunks that nobody needs to hear of, or something else.

/// Bytes of a chunk's name and size.
const HEAD: usize = 8;

/// Names that begin a WAV.
const RIFF_NAMES: [&[u8]; 4] = [b"RIFF", b"RIFX", b"RF64", b"BW64"];

/// Goes through the bytes behind a data chunk, however they are cut.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    state: State,
    head: [u8; HEAD],
    filled: usize,
    /// The chunk before was of odd size: a pad byte may come.
    odd: bool,
    /// Bytes so far from the last place where a chunk could begin.
    since: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A name and a size are gathered.
    Head,
    /// So many bytes of a chunk are passed over.
    Skip(u64),
    /// A tag, which has no size that chunks have.
    Tag,
    /// No chunk.
    Stray,
}

impl Tail {
    /// Behind a data chunk, of odd size perhaps.
    pub(super) fn new(odd: bool) -> Self {
        Self {
            state: State::Head,
            head: [0; HEAD],
            filled: 0,
            odd,
            since: 0,
        }
    }

    /// Takes bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let Some((&first, rest)) = bytes.split_first() {
            match self.state {
                State::Head => {
                    bytes = rest;
                    self.gather(first);
                }
                State::Skip(_) => {
                    let count = self.skip(bytes.len() as u64);
                    bytes = &bytes[count as usize..];
                }
                State::Tag | State::Stray => {
                    self.since += bytes.len() as u64;
                    return;
                }
            }
        }
    }

    /// Passes over up to `most` bytes whose values say nothing, and says how many those are.
    pub(super) fn skip(&mut self, most: u64) -> u64 {
        match self.state {
            State::Head => 0,
            State::Skip(left) => {
                let count = left.min(most);
                self.since += count;
                self.state = State::Skip(left - count);
                self.end_of_chunk();
                count
            }
            State::Tag | State::Stray => {
                self.since += most;
                most
            }
        }
    }

    /// Bytes behind the last chunk that are none, at the end of the file.
    pub(super) fn stray(&self) -> u64 {
        match self.state {
            State::Tag => 0,
            _ => self.since,
        }
    }

    /// Takes the next byte of a name and a size.
    fn gather(&mut self, byte: u8) {
        if self.odd && self.filled == 0 && !(b' '..=b'~').contains(&byte) {
            self.odd = false;
            return;
        }
        self.odd = false;
        self.head[self.filled] = byte;
        self.filled += 1;
        self.since += 1;
        let head = &self.head[..self.filled];
        if head.starts_with(b"ID3") || head.starts_with(b"TAG") {
            self.state = State::Tag;
            return;
        }
        if self.filled < HEAD {
            return;
        }
        let [name @ .., s0, s1, s2, s3] = self.head;
        let size = u32::from_le_bytes([s0, s1, s2, s3]);
        let is_name = name.iter().all(|byte| (b' '..=b'~').contains(byte));
        if !is_name || RIFF_NAMES.contains(&name.as_slice()) {
            self.state = State::Stray;
            return;
        }
        self.odd = size % 2 == 1;
        self.state = State::Skip(size.into());
        self.end_of_chunk();
    }

    fn end_of_chunk(&mut self) {
        if self.state == State::Skip(0) {
            (self.state, self.filled, self.since) = (State::Head, 0, 0);
        }
    }
}
