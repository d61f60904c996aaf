//! Shapes that disagree.

use voxtral_core::kernels::{CacheType, Heads, Matrix, Ops, Ring, Serial, Storage};

use super::all_kernels;

/// Without debug assertions, shapes that disagree leave the output alone. (With them they stop the program.)
#[test]
fn shapes_that_disagree_change_nothing() {
    let bytes = [0x3f; 4 * 3 * 2];
    let w = Matrix::new(&bytes, 4, 3, Storage::Bf16).unwrap();
    let heads = Heads {
        n_heads: 2,
        n_kv_heads: 1,
        head_dim: 4,
    };
    for kernels in all_kernels() {
        let ops = Ops::new(kernels, &Serial);
        let mut y = [7.0f32; 16];
        ops.linear(&w, None, &[1.0; 3], &mut [], &mut y[..5]);
        ops.linear(&w, None, &[1.0; 4], &mut [], &mut y[..4]);
        ops.linear_add(&w, Some(&w), &[1.0; 3], &mut [], &mut y[..4]);
        ops.linear(&w, None, &[1.0; 3], &mut [], &mut []);
        ops.rms_norm(&w, 1e-5, &[1.0; 3], &mut y[..3]);
        ops.rms_norm(&w.row(0).unwrap(), 1e-5, &[1.0; 4], &mut y[..4]);
        ops.rope(&[1.0; 4], 2, 4, &mut y);
        ops.rope(&[1.0; 3], 1, 3, &mut y[..3]);
        ops.ring_store(heads, CacheType::F32, 4, 0, &[1.0; 5], &mut y);
        ops.ring_store(heads, CacheType::F32, 1, 0, &[1.0; 8], &mut y[..4]);
        ops.ring_store(Heads { head_dim: 0, ..heads }, CacheType::F32, 4, 0, &[1.0; 4], &mut y);
        ops.ring_store(heads, CacheType::Bf16, 4, 0, &[1.0; 4], &mut y);
        ops.silu_mul(&mut y, &[1.0; 3]);
        let mut found = [Some(7); 2];
        ops.linear_argmax(&w, &[0.0; 5], &mut [], &mut found);
        assert_eq!(found, [Some(7); 2]);
        ops.add_row(&w, 4, &mut y[..3]);
        ops.add_row(&w, 0, &mut y[..4]);
        ops.modulate(&[], &mut y);
        ops.modulate(&[1.0; 3], &mut y);
        w.widen_row(4, &mut y[..3]);
        w.widen_row(0, &mut y[..4]);
        let held = [1.0f32; 16];
        let ring = Ring {
            keys: &held,
            values: &held,
            capacity: 4,
            first: 0,
            cache: CacheType::F32,
        };
        let q = [1.0; 16];
        ops.attention(heads, 0, 0, &q, ring, &mut y);
        ops.attention(heads, 4, 3, &q, ring, &mut y);
        ops.attention(heads, 2, u64::MAX, &q, ring, &mut y);
        ops.attention(heads, 2, 0, &q[..8], ring, &mut y);
        ops.attention(
            heads,
            2,
            0,
            &q,
            Ring {
                values: &held[..12],
                ..ring
            },
            &mut y,
        );
        let halved = Ring {
            cache: CacheType::Bf16,
            ..ring
        };
        ops.attention(heads, 2, 0, &q, halved, &mut y);
        ops.attention(heads, 2, 0, &q, Ring { capacity: 0, ..ring }, &mut y);
        ops.attention(heads, 2, 0, &q, Ring { first: 1, ..ring }, &mut y);
        ops.attention(Heads { n_kv_heads: 0, ..heads }, 2, 0, &q, ring, &mut y);
        assert_eq!(y, [7.0; 16], "{kernels:?}");
    }
}
