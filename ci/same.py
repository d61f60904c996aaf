#!/usr/bin/env python3
"""Compares what some machine heard with what all machines have to hear: ci/same.py [--clips] [--no-tokens] [CLASS]

Reads lines from standard input, one for each clip of tests/nano/clips/logits.json, any others are ignored:

    02-espeak.wav: one [24 tokens 6fa39c8a34fe1f8a] [logits b12d78e12298427f]

as tests/firmware/app prints them. Text and token ids have to be those of expected.json, logits those of logits.json for
the class (fused or separate). With --no-tokens the brackets with the tokens may be missing, as the program prints none.
With --clips it only prints the names of the clips.
"""

import json
import re
import sys
from pathlib import Path

CLIPS = Path(__file__).resolve().parent.parent / "tests/nano/clips"
LINE = re.compile(
    r"(?P<clip>\S+\.wav): ?(?P<text>.*?)(?: \[(?P<count>\d+) tokens (?P<tokens>[0-9a-f]{16})\])? \[logits (?P<logits>[0-9a-f]{16})\]"
)


def token_hash(ids):
    """FNV-1a with one step for each id, as tests/firmware/app has it."""
    value = 0xCBF29CE484222325
    for token in ids:
        value = (value ^ token) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def main(arguments):
    logits = json.loads((CLIPS / "logits.json").read_text())["clips"]
    if arguments == ["--clips"]:
        print(*logits)
        return
    tokens_wanted = "--no-tokens" not in arguments
    (kind,) = [argument for argument in arguments if argument != "--no-tokens"]
    results = {clip["file"]: clip["delay"]["6"] for clip in json.loads((CLIPS / "expected.json").read_text())["clips"]}
    heard = {}
    for line in map(str.rstrip, sys.stdin):
        found = LINE.fullmatch(line)
        if found:
            heard[found["clip"]] = found
    wrong = []
    for clip, hashes in logits.items():
        found, result = heard.get(clip), results[clip]
        if found is None:
            wrong.append(f"{clip}: nothing was heard")
            continue
        pairs = {"text": (found["text"], result["text"]), "logits": (found["logits"], hashes[kind])}
        if tokens_wanted or found["tokens"]:
            ids = result["tokens"]
            pairs["tokens"] = (f"{found['count']} {found['tokens']}", f"{len(ids)} {token_hash(ids)}")
        wrong += [f"{clip}: {what} {a}, not {b}" for what, (a, b) in pairs.items() if a != b]
    if wrong:
        sys.exit("\n".join(["error: not what every machine hears:", *wrong]))
    what = "text, token ids and logits" if tokens_wanted else "text and logits"
    print(f"{what} of {len(logits)} clips are those of every machine ({kind})")


main(sys.argv[1:])
