"""The mistakes that run.py makes: what readers of the model's description commonly get wrong, and what readers of
this code could break."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    name: str
    # One line for the table: the right thing; what the patch makes of it.
    what: str
    # (file, old, new): old occurs exactly once in the file.
    edits: tuple
    # Arguments of `cargo test --release`: the quickest tests that ought to notice.
    tests: tuple
    # A pattern that what the failing tests say must match. It tells a mistake that is noticed for what it is from one
    # that ends in a panic or in NaN, which any test would notice.
    reason: str


def integration(file, test):
    return ("-p", "voxtral-tests", "--test", file, test)


# What the tests of one file say, as (arguments, pattern).
CASES = integration("goldens", "cases_agree_with_the_reference")
TOKENS = (CASES, r"left == right` failed: [A-E]/\w+$")
TENSORS = (CASES, r"^[A-E]/\w+ \w+: \S+ is beyond")
FILTERS = (integration("mel", "filters_equal_the_reference"), r"^bin \d+, filter \d+: ")
SPEECH_MEL = (integration("mel", "speech_equals_the_reference"), r"^speech_b: frame \d+, filter \d+: ")
BARE_MEL = (integration("mel", "bare_signals_equal_the_reference"), r"^\w+: frame \d+, filter \d+: ")
CHUNKS = (integration("session", "chunks_of_any_length_give_the_same_bits"), r"over chunks of \d+")
PADDING = (integration("session", "schedule_equals_streaming_padding"), r"left == right` failed")
TIES = (integration("session", "d12_ties_go_to_the_lowest_id"), r"assertion failed: .*id == 0")
RESET = (integration("session", "reset_gives_the_same_bits"), r"over reset")
END = (integration("session", "d5_without_end_of_text"), r"left == right` failed")
ORDER = (integration("kernels", "every_tail_and_tile"), r'left == right` failed: Kernels\("avx2\+fma"\)')
BLOCKS = (integration("kernels", "blocks::every_width_and_tile"), r'Kernels\("avx2\+fma')
BATCH = (integration("kernels", "linear_depends_neither_on_batch"), r"batches of \d+")
PIECES = (integration("kernels", "linear_argmax_takes_the_lowest_of_equals"), r"left == right` failed")
BELIEVED = (integration("batch", "goldens_are_equal"), r"left == right` failed: A/speech_a4: 2 in a pass")
STARTED = (integration("counters", "counters_beyond"), r"NotANumber")
LARGEST = (integration("kernels", "linear_argmax_is_the_argmax_of_linear"), r"assertion failed: `\(left == right\)`")
ROUNDED = (integration("kernels", "a_cache_of_bf16_rounds_to_nearest_even"), r"left == right` failed")
ROTATIONS = (("-p", "voxtral-core", "--lib", "rotary"), r"position \d+: ")

DFT = "core/src/audio/dft.rs"
MEL = "core/src/audio/mel.rs"
TABLES = "core/src/audio/tables.rs"
ARGMAX = "core/src/kernels/argmax.rs"
ATTENTION = "core/src/kernels/attention.rs"
AVX2 = "core/src/kernels/x86/avx2.rs"
AVX2_BLOCKS = "core/src/kernels/x86/avx2_blocks.rs"
MATH = "core/src/kernels/math.rs"
OPS = "core/src/kernels/ops.rs"
RING = "core/src/kernels/ring.rs"
SET = "core/src/kernels/set.rs"
FEW = "core/src/kernels/vector/linear/few.rs"
MANY = "core/src/kernels/vector/linear/many.rs"
LAYOUT = "core/src/layout.rs"
CONDITIONING = "core/src/model/conditioning.rs"
DECODER = "core/src/model/decoder.rs"
ENCODER = "core/src/model/encoder.rs"
ROTARY = "core/src/model/rotary.rs"
STEM = "core/src/model/stem.rs"
SESSION = "core/src/session.rs"
SESSION_BATCH = "core/src/session/batch.rs"
SESSION_WORK = "core/src/session/work.rs"
SCHEDULE = "core/src/session/schedule.rs"

# A ring with room for one position more, so that a window that is too wide fits.
ROOMIER = (LAYOUT, "        .saturating_sub(1)\n        .checked_add(widest)", "        .checked_add(widest)")

ROPE_PAIRS = """\
            for (pair, rotation) in head.chunks_exact_mut(2).zip(rotations.chunks_exact(2)) {
                let (a, b, cos, sin) = (pair[0], pair[1], rotation[0], rotation[1]);
                pair[0] = a * cos - b * sin;
                pair[1] = a * sin + b * cos;
            }
"""
ROPE_HALVES = """\
            let (low, high) = head.split_at_mut(head_dim / 2);
            for ((low, high), rotation) in low.iter_mut().zip(high).zip(rotations.chunks_exact(2)) {
                let (a, b, cos, sin) = (*low, *high, rotation[0], rotation[1]);
                *low = a * cos - b * sin;
                *high = a * sin + b * cos;
            }
"""

# Query heads that share a kv head are computed together; with keys of their own they come one by one.
HEADS_TOGETHER = "(group.min(TOGETHER), 1)"
HEADS_ALONE = "(1, 1)"
HEADS = """\
                let heads = heads.min(group - h);
"""
HEADS_MODULO = (
    HEADS
    + """\
                let start = (head + h) % n_kv_heads * head_len;
                let visible = Visible {
                    keys: Stored::new(job.ring.cache, job.ring.keys).part(start..start + head_len),
                    values: Stored::new(job.ring.cache, job.ring.values).part(start..start + head_len),
                    ..visible
                };
"""
)

GELU_ERF = """\
        let tail = erfc(x.abs().mul(N::splat(core::f32::consts::FRAC_1_SQRT_2)));
        let twice_cdf = x.if_negative(tail, N::splat(2.0).sub(tail));
"""
# 1 + tanh(u) = 2 - 2 / (1 + exp(2 u)).
GELU_TANH = """\
        let u = x.mul(x).mul(x).mul(N::splat(0.044_715)).add(x).mul(N::splat(0.797_884_6));
        let twice_cdf = N::splat(2.0).sub(N::splat(2.0).div(exp_of(u.add(u)).add(N::splat(1.0))));
"""

# The second level of AVX2's tree: halves of four lanes are added; neighbours are.
PAIRS_APART = """\
                let (x, y) = (_mm256_castps_pd(x), _mm256_castps_pd(y));
                _mm256_add_ps(
                    _mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                    _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)),
                )
"""
NEIGHBOURS = """\
                _mm256_hadd_ps(x, y)
"""

# Lanes are added from the first to the last instead of by the tree.
IN_A_ROW = """\
core::array::from_fn::<f32, 8, _>(|i| {
                    let mut sums = [0.0f32; 8];
                    LANES.store(sums.as_mut_ptr());
                    sums.iter().sum()
                })"""

FRAMES = """\
                self.mel.frame(window, frame);
            }
        }
"""
FRAMES_BELOW_THE_LOUDEST = (
    FRAMES
    + """\
        let loudest = scratch.mel.iter().skip(2 * MEL_BINS).copied().fold(f32::MIN, f32::max);
        for value in scratch.mel.iter_mut().skip(2 * MEL_BINS) {
            *value = value.max(loudest - 2.0);
        }
"""
)

ANGLES = """\
        for (row, position) in rotations.chunks_exact_mut(head_dim).zip(first..) {
            let (sin, cos) = libm::sincos(position as f64 * frequency);
            row[2 * j] = cos as f32;
            row[2 * j + 1] = sin as f32;
        }
"""
ANGLES_IN_F32 = """\
        for (row, position) in rotations.chunks_exact_mut(head_dim).zip(first..) {
            let (sin, cos) = libm::sincosf(position as f32 * frequency as f32);
            row[2 * j] = cos;
            row[2 * j + 1] = sin;
        }
"""
ANGLES_TURNED_ON = """\
        let (step_sin, step_cos) = libm::sincosf(frequency as f32);
        let (sin, cos) = libm::sincos(first as f64 * frequency);
        let (mut sin, mut cos) = (sin as f32, cos as f32);
        for row in rotations.chunks_exact_mut(head_dim) {
            row[2 * j] = cos;
            row[2 * j + 1] = sin;
            (sin, cos) = (sin * step_cos + cos * step_sin, cos * step_cos - sin * step_sin);
        }
"""
ANGLES_AS_A_PRODUCT = """\
        let (step_sin, step_cos) = libm::sincosf(frequency as f32);
        let (mut sin, mut cos) = (0.0f32, 1.0f32);
        let mut rows = rotations.chunks_exact_mut(head_dim);
        for position in 0.. {
            if position >= first {
                let Some(row) = rows.next() else { break };
                row[2 * j] = cos;
                row[2 * j + 1] = sin;
            }
            (sin, cos) = (sin * step_cos + cos * step_sin, cos * step_cos - sin * step_sin);
        }
"""

MISTAKES = [
    # Audio to mel.
    Mistake(
        "mel: fixed range",
        "values are clipped 8 below the fixed maximum; 7 below",
        ((MEL, "global_log_mel_max - 8.0", "global_log_mel_max - 7.0"),),
        *SPEECH_MEL,
    ),
    Mistake(
        "mel: maximum of the clip",
        "values are clipped 8 below a constant; 8 below the loudest value of the chunk",
        (
            (MEL, "global_log_mel_max - 8.0", "global_log_mel_max - 80.0"),
            (SESSION_WORK, FRAMES, FRAMES_BELOW_THE_LOUDEST),
        ),
        *TOKENS,
    ),
    Mistake(
        "mel: windows not centred",
        "frame i is centred at sample 160 i; it begins there",
        (
            (SESSION, "const CENTRE: usize = WINDOW / 2;", "const CENTRE: usize = 0;"),
            (SESSION, "(CENTRE - HOP) as u64", "(WINDOW - HOP) as u64"),
        ),
        *TOKENS,
    ),
    Mistake(
        "mel: 40 samples early",
        "frame i is centred at sample 160 i; at 160 i - 40",
        ((SESSION, "const CENTRE: usize = WINDOW / 2;", "const CENTRE: usize = WINDOW / 2 + 40;"),),
        *TOKENS,
    ),
    Mistake(
        "mel: magnitude",
        "filters weigh the power spectrum; the magnitudes",
        ((MEL, "sum += weight * power;", "sum += weight * libm::sqrtf(*power);"),),
        *TOKENS,
    ),
    Mistake(
        "mel: symmetric Hann",
        "the window is periodic, of 400 samples; symmetric",
        ((TABLES, "(0.25 - 0.25 * unit(n, WINDOW).0)", "(0.25 - 0.25 * unit(n, WINDOW - 1).0)"),),
        *TOKENS,
    ),
    Mistake(
        "mel: symmetric Hann, in the frames",
        "as before; noticed without a model",
        ((TABLES, "(0.25 - 0.25 * unit(n, WINDOW).0)", "(0.25 - 0.25 * unit(n, WINDOW - 1).0)"),),
        *BARE_MEL,
    ),
    Mistake(
        "mel: filters of height 1",
        "a triangle has area 1 (Slaney's scale); height 1",
        ((TABLES, "(height * (2.0 / (right - left)))", "height"),),
        *FILTERS,
    ),
    Mistake(
        "mel: last frame lost",
        "the last window reaches 40 samples past the end; it is thought to be incomplete",
        ((SESSION, "right_pad_samples(self.heard).saturating_add(LOOK_AHEAD)", "right_pad_samples(self.heard)"),),
        *END,
    ),
    # Padding and prompt.
    Mistake(
        "audio rounded down",
        "audio is padded up to a whole position; the rest is not counted",
        (
            (
                SCHEDULE,
                "        samples\n            .div_ceil(SAMPLES_PER_POSITION as u64)\n            .saturating_add(self.left_pad as u64)",
                "        samples\n            .div_euclid(SAMPLES_PER_POSITION as u64)\n            .saturating_add(self.left_pad as u64)",
            ),
        ),
        *PADDING,
    ),
    Mistake(
        "right pad one short",
        "delay + 1 + 10 positions of silence follow; delay + 10",
        (
            (
                SCHEDULE,
                "            .saturating_add(1)\n            .saturating_add(EXTRA_RIGHT_PAD as u64)",
                "            .saturating_add(EXTRA_RIGHT_PAD as u64)",
            ),
        ),
        *PADDING,
    ),
    Mistake(
        "prompt one PAD short",
        "the prompt is BOS and 32 + delay PAD; one PAD less",
        (
            (
                SCHEDULE,
                "            .saturating_add(self.delay as u64)\n            .saturating_add(1)",
                "            .saturating_add(self.delay as u64)",
            ),
        ),
        *TOKENS,
    ),
    # Convolution stem.
    Mistake(
        "convolution padded 1 + 1",
        "the first convolution has two frames of zeros in front; one in front and one behind",
        (
            (
                STEM,
                "    gather(mel, MEL_BINS, 1, mel_patches);",
                "    mel.copy_within(MEL_BINS.., 0);\n    let end = mel.len() - MEL_BINS;\n    mel[end..].fill(0.0);\n"
                "    gather(mel, MEL_BINS, 1, mel_patches);",
            ),
        ),
        *TOKENS,
    ),
    Mistake(
        "convolution: parity of the stride",
        "encoder frame t sees outputs 2t-1..=2t+1 of the first convolution; 2t..=2t+2",
        (
            (
                STEM,
                "    gather(conv0, dim, STRIDE, conv0_patches);",
                "    conv0.copy_within(dim.., 0);\n    gather(conv0, dim, STRIDE, conv0_patches);",
            ),
        ),
        *TOKENS,
    ),
    Mistake(
        "convolution: past not kept",
        "the last rows of a pass are the past of the next; the past is always zero",
        ((STEM, "    carry.copy_from_slice(&rows[rows.len() - kept..]);\n", ""),),
        *CHUNKS,
    ),
    # Rotary embedding.
    Mistake(
        "RoPE: split halves",
        "rows 2j and 2j + 1 are a pair; j and head_dim / 2 + j",
        ((SET, ROPE_PAIRS, ROPE_HALVES),),
        *TOKENS,
    ),
    Mistake(
        "RoPE: theta 1e4",
        "theta is 1e6; 1e4",
        ((ROTARY, "libm::pow(theta, ", "libm::pow(1e4, "),),
        *TOKENS,
    ),
    Mistake(
        "RoPE: angles in f32",
        "angles are computed in f64; in f32",
        ((ROTARY, ANGLES, ANGLES_IN_F32),),
        *ROTATIONS,
    ),
    Mistake(
        "RoPE: growing product",
        "angles come from the position; each rotation is the one before, turned on in f32",
        ((ROTARY, ANGLES, ANGLES_AS_A_PRODUCT),),
        *ROTATIONS,
    ),
    Mistake(
        "RoPE: product within a pass",
        "angles come from the position; only that of the first row of a pass, the others are turned on in f32",
        ((ROTARY, ANGLES, ANGLES_TURNED_ON),),
        *ROTATIONS,
    ),
    Mistake(
        "RoPE: positions of the chunk",
        "positions are counted from the start of the audio; from the start of the chunk",
        (
            (
                ENCODER,
                "rotary::rotations(p.rope_theta, p.head_dim, place.first, rotations);",
                "rotary::rotations(p.rope_theta, p.head_dim, 0, rotations);",
            ),
        ),
        *CHUNKS,
    ),
    Mistake(
        "RoPE: cache before rotation",
        "keys are rotated, then stored; stored, then rotated",
        (
            (
                DECODER,
                "        ops.rope(rotations, heads.n_kv_heads, heads.head_dim, k);\n        cache.store(ops, place.first, k, v);",
                "        cache.store(ops, place.first, k, v);\n        ops.rope(rotations, heads.n_kv_heads, heads.head_dim, k);",
            ),
        ),
        *TOKENS,
    ),
    # Attention.
    Mistake(
        "kv head of h mod groups",
        "query head h uses kv head h / (heads per kv head); h mod the number of kv heads",
        ((ATTENTION, HEADS_TOGETHER, HEADS_ALONE), (ATTENTION, HEADS, HEADS_MODULO)),
        *TOKENS,
    ),
    *(
        Mistake(
            f"{name} window {change}",
            f"a query sees window keys, itself included; {result}",
            ((file, f"heads, {window}, place.first", f"heads, {window} {change[0]} 1, place.first"), *more),
            *TOKENS,
        )
        for name, file, window in (
            ("encoder", ENCODER, "p.sliding_window"),
            ("decoder", DECODER, "layout.decoder_window()"),
        )
        for change, result, more in (("+1", "one more", (ROOMIER,)), ("-1", "one less", ()))
    ),
    Mistake(
        "ring one too small",
        "a ring holds window - 1 old positions and the widest pass; one less, and a pass overwrites what it still reads",
        (
            (LAYOUT, "        .saturating_sub(1)\n        .checked_add(widest)", "        .saturating_sub(2)\n        .checked_add(widest)"),
            (ATTENTION, "earlier.saturating_add(n) <= ring.capacity\n", "earlier.saturating_add(n) <= ring.capacity + 1\n"),
        ),
        *CHUNKS,
    ),
    Mistake(
        "blocks: half the offset made up for",
        "levels of 8 bits get twice the offset for unsigned products; once made up for (needs a machine with AVX-VNNI)",
        ((AVX2_BLOCKS, "_mm256_add_epi32(once, once)", "once"),),
        *BLOCKS,
    ),
    Mistake(
        "blocks: packed as the halves lie",
        "the bytes of 32 columns are in their order; in that of the registers' halves (needs a machine with AVX2)",
        ((AVX2_BLOCKS, "_mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))", "bytes"),),
        *BLOCKS,
    ),
    # Norms, activations, conditioning, head.
    Mistake(
        "RMSNorm: eps 1e-6",
        "eps is 1e-5; 1e-6",
        ((SET, "squares / dim as f32 + eps)", "squares / dim as f32 + 0.1 * eps)"),),
        *TENSORS,
    ),
    Mistake(
        "GELU: tanh",
        "GELU is the erf form; the approximation by tanh",
        ((MATH, GELU_ERF, GELU_TANH),),
        *TENSORS,
    ),
    Mistake(
        "feed-forward: w1 and w3 swapped",
        "silu is of w1; of w3",
        (
            (
                DECODER,
                "        ops.linear(&w.w1, None, n, quantised, gate);\n        ops.linear(&w.w3, None, n, quantised, up);",
                "        ops.linear(&w.w3, None, n, quantised, gate);\n        ops.linear(&w.w1, None, n, quantised, up);",
            ),
        ),
        *TOKENS,
    ),
    Mistake(
        "delay: no 1 +",
        "the norm is multiplied by 1 + s; by s",
        ((OPS, "*x *= 1.0 + scale;", "*x *= scale;"),),
        *TOKENS,
    ),
    Mistake(
        "delay: sin first",
        "t_cond is [cos, sin]; [sin, cos]",
        (
            (
                CONDITIONING,
                "        t_cond[i] = cos as f32;\n        t_cond[half + i] = sin as f32;",
                "        t_cond[i] = sin as f32;\n        t_cond[half + i] = cos as f32;",
            ),
        ),
        *TOKENS,
    ),
    Mistake(
        "delay: in ms",
        "t is a number of tokens; of milliseconds",
        ((CONDITIONING, "delay_tokens as f64 *", "(80 * delay_tokens) as f64 *"),),
        *TOKENS,
    ),
    Mistake(
        "delay: one more",
        "t is the delay; the delay and one",
        ((CONDITIONING, "delay_tokens as f64 *", "(delay_tokens + 1) as f64 *"),),
        *TOKENS,
    ),
    Mistake(
        "ties to the highest id",
        "of equal logits the lowest id wins; the highest",
        ((ARGMAX, "if value > largest {", "if value >= largest {"),),
        *TIES,
    ),
    Mistake(
        "ties to the highest piece",
        "of equal logits the lowest id wins, without stored logits as well; one in a later piece",
        ((ARGMAX, "if largest[2 * c] > best {", "if largest[2 * c] >= best {"),),
        *PIECES,
    ),
    Mistake(
        "NaN in a piece passed over",
        "a logit that is NaN is an error, without stored logits as well; it is never the largest",
        (
            (
                ARGMAX,
                "                if largest[2 * c].is_nan() {\n                    index = None;\n                    break;\n                }\n",
                "",
            ),
        ),
        *LARGEST,
    ),
    Mistake(
        "guesses believed",
        "a wide pass counts as far as its guesses were right; it counts as a whole",
        ((SESSION_BATCH, "if *guess != id || ends {", "if ends {"),),
        *BELIEVED,
    ),
    Mistake(
        "stream's start ignored",
        "nothing before the start of a stream is seen; what the ring holds there is",
        ((ATTENTION, "saturating_sub(self.window - 1).max(self.first)", "saturating_sub(self.window - 1)"),),
        *STARTED,
    ),
    Mistake(
        "bf16 cache truncated",
        "keys and values are rounded to the nearest bf16; cut off",
        ((RING, "half::bf16::from_f32(x).to_le_bytes()", "((x.to_bits() >> 16) as u16).to_le_bytes()"),),
        *ROUNDED,
    ),
    # The order of roundings, and the schedule's memory.
    Mistake(
        "lanes summed in another order",
        "all kernels add the 8 lanes by one tree; AVX2 pairs neighbours too early (needs a machine with AVX2)",
        ((AVX2, PAIRS_APART, NEIGHBOURS),),
        *ORDER,
    ),
    Mistake(
        "order depends on the batch",
        "a sum has one order for every batch; another with more than one input (needs a machine with AVX2)",
        (
            (FEW, "reduced(lanes.read())", IN_A_ROW.replace("LANES", "(*lanes)[i]")),
            (MANY, "&reduced(lanes)", "&" + IN_A_ROW.replace("LANES", "lanes[i]")),
        ),
        *BATCH,
    ),
    Mistake(
        "reset keeps the convolutions' past",
        "a session starts with zeros in front of the audio; with the end of the last utterance",
        (
            (
                SESSION,
                "            state.stem.mel.fill(0.0);\n            state.stem.conv0.fill(0.0);",
                "            if self.model.is_none() {\n                state.stem.mel.fill(0.0);\n"
                "                state.stem.conv0.fill(0.0);\n            }",
            ),
        ),
        *RESET,
    ),
]
