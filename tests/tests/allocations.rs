//! No step allocates: a counting allocator from the first sample to the last, in host, pool and output loop.
//!
//! A program of its own: the threads of a test harness would allocate along.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use voxtral::{Mapper, Model, Pool, Transcriber};
use voxtral_core::layout::Options;
use voxtral_core::model::LogitHash;
use voxtral_tests::goldens;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Text into a buffer on the stack, so that what is counted is ours.
struct Buffer([u8; 256], usize);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0[self.1..][..bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Both mappers, one thread and three, several utterances.
fn main() {
    let clips = goldens::clips();
    let mut hashes = Vec::new();
    for (mapper, threads) in [(Mapper::Rustix, 1), (Mapper::Rustix, 3), (Mapper::Memmap2, 2)] {
        let model = Model::open_with(&goldens::nano_dir(), mapper).unwrap();
        let pool = Pool::new(threads);
        // Large chunks, so that products are wide enough to be split over the threads.
        let options = Options {
            chunk: 40,
            ..Options::from(model.vocabulary())
        };
        let mut transcriber = Transcriber::new(&model, &options, &pool).unwrap();
        let mut hash = LogitHash::default();
        for clip in &clips[..5] {
            let mut text = Buffer([0; 256], 0);
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for piece in clip.samples.chunks(1600) {
                transcriber.push_probed(piece, &mut text, &mut hash).unwrap();
            }
            transcriber.finish_probed(&mut text, &mut hash).unwrap();
            transcriber.reset();
            let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
            assert_eq!(allocations, 0, "{} with {threads} threads", clip.file);
            let expected = &clip.delays.iter().find(|result| result.delay_tokens == 6).unwrap().text;
            assert_eq!(std::str::from_utf8(&text.0[..text.1]).unwrap(), expected);
        }
        hashes.push(hash.value());
    }
    assert!(
        hashes.windows(2).all(|pair| pair[0] == pair[1]),
        "both mappers and any threads give the same bits"
    );
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > 0, "the counter counts");
    println!("nothing allocates between the first sample and the last: 15 utterances checked");
}
