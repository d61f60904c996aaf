#!/usr/bin/env python3
"""An hour of speech and an hour of silence through the small model, as live audio without a gate, and the silence
with the gate: shows that memory and the time for a second of audio stay the same.

    ci/soak.py [MINUTES] [PROGRAM]

Prints a line for every tenth of the audio. Fails if anonymous memory grows by more than 1 % after the first minute of
audio, or the time for a second of audio differs by more than 10 % between the second half and the whole. The time is
that of the processor, so that other work of the machine does not count.
"""

import glob
import os
import struct
import subprocess
import sys
import threading

RATE = 16_000
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def speech():
    """Bytes of all clips one after the other."""
    clips = sorted(glob.glob(f"{ROOT}/tests/nano/clips/0[0-8]*.wav"))
    return b"".join(open(clip, "rb").read()[44:] for clip in clips)


def status(pid):
    """Anonymous memory in kB and processor time in s of a process."""
    with open(f"/proc/{pid}/status") as lines:
        anonymous = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
    with open(f"/proc/{pid}/stat") as line:
        fields = line.read().rsplit(")", 1)[1].split()
    return anonymous, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(program, name, tile, minutes, flags):
    child = subprocess.Popen([program, "--stdin", "--silent", *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    letters = []
    reader = threading.Thread(target=lambda: letters.append(len(child.stdout.read())))
    reader.start()
    second, at, rows, first = 2 * RATE, 0, [], None
    seconds = 60 * minutes
    print(f"{name}: {'audio s':>9} {'anonymous kB':>13} {'ms per s':>9}")
    for done in range(1, seconds + 1):
        piece = (tile * 2)[at : at + second] if at + second <= 2 * len(tile) else tile[:second]
        at = (at + second) % len(tile)
        child.stdin.write(piece)
        child.stdin.flush()
        if done == 60:
            first = status(child.pid)
        if done % (seconds // 10) == 0:
            memory, time = status(child.pid)
            rows.append((done, memory, time))
            before = rows[-2] if len(rows) > 1 else (0, 0, 0.0)
            each = 1e3 * (time - before[2]) / (done - before[0])
            print(f"{name}: {done:9} {memory:13} {each:9.2f}", flush=True)
    child.stdin.close()
    reader.join()
    assert child.wait() == 0
    (half, _, half_time), (whole, memory, whole_time) = rows[4], rows[9]
    growth = memory / first[0] - 1
    drift = ((whole_time - half_time) / (whole - half)) / (whole_time / whole) - 1
    print(f"{name}: memory {growth:+.2%} since the first minute, time {drift:+.1%} in the second half, {letters[0]} bytes of text")
    # A pause costs so little that its time is that of the clock's ticks.
    return growth <= 0.01 and ("gate" in name or abs(drift) <= 0.10)


def main():
    minutes = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    program = sys.argv[2] if len(sys.argv) > 2 else f"{ROOT}/target/release/voxtral"
    silence = struct.pack("<16h", *[1, -1, 2, 0, -2, 1, 0, -1, 1, 2, -1, 0, 1, -2, 0, -1]) * RATE
    results = [
        run(program, "speech", speech(), minutes, ["--gate", "off"]),
        run(program, "silence", silence, minutes, ["--gate", "off"]),
        run(program, "silence behind the gate", silence, minutes, []),
    ]
    sys.exit(0 if all(results) else 1)


main()
