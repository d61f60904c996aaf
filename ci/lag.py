#!/usr/bin/env python3
"""How soon text follows the audio that completes it: the small model, fed in real time with -I 0.08.

    ci/lag.py [PROGRAM]

The token of position p is decided by the samples up to 40 beyond its end, and tests/nano/clips/expected.json says which
tokens these are. Measured is the time from the write of the last of these samples to the arrival of the token's text on
standard output. Fails if the median is above 20 ms or the 99th percentile above 100 ms.
"""

import json
import os
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEFT_PAD, DELAY, POSITION, LOOK_AHEAD = 32, 6, 1280, 40
BLOCK = 40
FIRST_TEXT = 1000


def lags(program, clip):
    with open(f"{ROOT}/tests/nano/clips/{clip['file']}", "rb") as file:
        audio = file.read()[44:]
    tokens = clip["delay"]["6"]["tokens"]
    due = []
    for i, token in enumerate(tokens):
        sample = (LEFT_PAD + DELAY + i + 1 - LEFT_PAD) * POSITION + LOOK_AHEAD
        if token >= FIRST_TEXT and 2 * sample <= len(audio):
            due.append(sample)
    child = subprocess.Popen(
        [program, "--stdin", "--silent", "-I", "0.08"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    arrived = []

    def listen():
        while child.stdout.read(4096):
            arrived.append(time.monotonic())

    listener = threading.Thread(target=listen)
    listener.start()
    # Its start is not what is measured.
    time.sleep(0.5)
    written, start = {}, time.monotonic()
    for sample in range(BLOCK, len(audio) // 2 + 1, BLOCK):
        time.sleep(max(0.0, start + sample / 16e3 - time.monotonic()))
        child.stdin.write(audio[2 * (sample - BLOCK) : 2 * sample])
        written[sample] = time.monotonic()
    # What still comes is brought by the silence at the end.
    time.sleep(0.2)
    count = len(arrived)
    child.stdin.close()
    listener.join()
    child.wait()
    if count != len(due):
        print(f"{clip['file']}: {count} texts for {len(due)} tokens; left out")
        return []
    return [1e3 * (out - written[sample]) for out, sample in zip(arrived, due)]


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else f"{ROOT}/target/release/voxtral"
    with open(f"{ROOT}/tests/nano/clips/expected.json") as file:
        clips = json.load(file)["clips"]
    found = sorted(lag for clip in clips for lag in lags(program, clip))
    median, late = found[len(found) // 2], found[min(len(found) - 1, int(0.99 * len(found)))]
    print(f"{len(found)} tokens: median {median:.1f} ms, 99th percentile {late:.1f} ms, worst {found[-1]:.1f} ms")
    sys.exit(0 if median <= 20 and late <= 100 else 1)


main()
