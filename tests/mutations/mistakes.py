"""The mistakes that run.py makes: what readers of the model's description commonly get wrong."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    name: str
    # One line for the table: the right thing, and what the patch makes of it.
    what: str
    # (file, old, new): old occurs exactly once in the file.
    edits: tuple
    # Arguments of `cargo test --release`: the tests that ought to notice.
    tests: tuple
    # Patterns of test names, one of which must be among the failures (none: any failure will do). For mistakes that
    # many tests could notice by accident, such as a panic.
    expect: tuple = ()


CORE = ("-p", "voxtral-core", "--lib")

MISTAKES = [
    Mistake(
        "mel floor",
        "values are clipped 8 below the fixed maximum; 7 below",
        (("core/src/audio/mel.rs", "global_log_mel_max - 8.0", "global_log_mel_max - 7.0"),),
        CORE,
    ),
]
