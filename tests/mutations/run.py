#!/usr/bin/env python3
"""Makes the typical mistakes of an implementer, one at a time, and checks that a test notices each.

  run.py [--only TEXT] [--check] [--list]

Each mistake (mistakes.py) is a small patch. It is applied to a copy of the workspace below the target directory, which
must still compile, and whose chosen tests must then fail, saying what is expected of them; the copy without any patch
must pass them all. The outcome of a whole run is written to RESULTS.md beside this file. --check only applies the
patches, without building.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
from mistakes import MISTAKES  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
# A target directory of its own: a mutant must never be found where the program is looked for.
TREE, BUILD = TARGET / "mutations" / "tree", TARGET / "mutations" / "build"
TIMEOUT_S = 900


class Trouble(Exception):
    """A patch, or what came of it, is not what the harness is about; nothing is learnt about the tests."""


def patched(root, mistake):
    """{file: text} of the files that the mistake changes; each old text must occur exactly once."""
    texts = {}
    for file, old, new in mistake.edits:
        text = texts.get(file) or (root / file).read_text()
        count = text.count(old)
        if count != 1:
            raise Trouble(f"{mistake.name}: in {file} the old text occurs {count} times:\n{old}")
        if old == new:
            raise Trouble(f"{mistake.name}: the patch of {file} changes nothing")
        texts[file] = text.replace(old, new)
    return texts


def copy_workspace():
    """A fresh copy. File times are those of the copying: cargo must never take a mutant's build for this one's."""
    def ignored(directory, names):
        return [n for n in names if n in (".git", "target", "__pycache__") or Path(directory, n) == TARGET]

    if TREE.exists():
        shutil.rmtree(TREE)
    shutil.copytree(ROOT, TREE, symlinks=True, ignore=ignored, copy_function=shutil.copyfile)


def cargo_test(arguments, *more):
    """(exit status, output) of `cargo test` in the copy."""
    env = dict(os.environ, CARGO_TARGET_DIR=str(BUILD), CARGO_TERM_COLOR="never", RUST_BACKTRACE="0")
    # Optimised as ever, but quick to build again after a small change.
    env.update(CARGO_INCREMENTAL="1", CARGO_PROFILE_RELEASE_DEBUG="0", CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16")
    with subprocess.Popen(["cargo", "test", "--release", *arguments, *more], cwd=TREE, env=env, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            # The test program is cargo's child; both are in the session made for them.
            os.killpg(process.pid, signal.SIGKILL)
            raise Trouble(f"no end after {TIMEOUT_S} s") from error
    return process.returncode, output


def failures(arguments):
    """Names of the tests that fail in the first test program with a failure (where cargo stops), and what they say:
    the first line of each panic."""
    status, output = cargo_test(arguments, "--no-run")
    if status != 0:
        raise Trouble("does not compile\n" + output)
    status, output = cargo_test(arguments)
    if not re.search(r"^running [1-9]\d* tests?$", output, re.M):
        raise Trouble("no test was run")
    names = []
    for block in re.findall(r"^failures:\n((?:    \S.*\n)+)", output, re.M):
        names += [line.strip() for line in block.splitlines()]
    if status != 0 and not names:
        raise Trouble("ended badly without a failing test\n" + output[-4000:])
    return names, re.findall(r"^thread '.*' (?:\(\d+\) )?panicked at .*:\n(.*)$", output, re.M)


def noticed_by(mistake):
    """Names of the failing tests, and the line that says why, once both are known to be the right ones."""
    texts = patched(TREE, mistake)
    whole = {file: (TREE / file).read_text() for file in texts}
    for file, text in texts.items():
        (TREE / file).write_text(text)
    try:
        names, lines = failures(mistake.tests)
    finally:
        for file, text in whole.items():
            (TREE / file).write_text(text)
    if not names:
        raise Trouble("no test fails")
    for line in lines:
        if re.search(mistake.reason, line):
            return names, line
    raise Trouble(f"{', '.join(names)} fails, but not by {mistake.reason}: {lines}")


def table(rows, minutes):
    lines = [
        "# Mistakes and the tests that notice them",
        "",
        "Written by `tests/mutations/run.py`; do not edit. Each row is a patch of `mistakes.py` that compiled, and after",
        "which the chosen test, the quickest of those that ought to notice, failed for the right reason. Without a patch",
        "the same tests pass. Goldens compare tokens first: where they name only a case its tokens differ, where they name a",
        "stage the tokens are right and only the tensor shows it.",
        "",
        "```sh",
        "python3 tests/mutations/run.py                  # everything, and this table; needs a machine with AVX2",
        "python3 tests/mutations/run.py --only RoPE      # the mistakes whose names have that text",
        "python3 tests/mutations/run.py --check          # only that every patch still applies; part of ci/test.sh",
        "```",
        "",
        f"{len(rows)} mistakes took {minutes:.0f} minutes.",
        "",
        "| mistake | right; wrong | patched | test that failed | what it said |",
        "| --- | --- | --- | --- | --- |",
    ]
    for mistake, names, line in rows:
        files = ", ".join(dict.fromkeys(f"`{file}`" for file, _, _ in mistake.edits))
        program = mistake.tests[mistake.tests.index("--test") + 1] if "--test" in mistake.tests else "core"
        shown = ", ".join(f"`{program}: {n}`" for n in names)
        said = (line if len(line) <= 90 else line[:87] + "...").replace("`", "").replace("|", "\\|")
        lines.append(f"| {mistake.name} | {mistake.what} | {files} | {shown} | {said} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", default="", help="mistakes whose name has TEXT; writes no RESULTS.md")
    parser.add_argument("--check", action="store_true", help="only see that every patch applies")
    parser.add_argument("--list", action="store_true", help="only list the mistakes")
    options = parser.parse_args()
    chosen = [m for m in MISTAKES if options.only in m.name]
    if not chosen:
        raise Trouble("there is no such mistake")
    if len({m.name for m in MISTAKES}) != len(MISTAKES):
        raise Trouble("two mistakes have the same name")
    if options.list:
        for mistake in chosen:
            print(f"{mistake.name}: {mistake.what}")
        return 0
    # All patches are tried before the first is built, and all that do not apply are told of.
    unfit = 0
    for mistake in chosen:
        try:
            patched(ROOT, mistake)
        except Trouble as trouble:
            unfit += 1
            print(trouble, flush=True)
    if unfit:
        raise Trouble(f"{unfit} of {len(chosen)} patches do not apply (above)")
    print(f"patches that apply: {len(chosen)}", flush=True)
    if options.check:
        return 0

    begin = time.monotonic()
    copy_workspace()
    for arguments in dict.fromkeys(m.tests for m in chosen):
        start = time.monotonic()
        names, _ = failures(arguments)
        if names:
            raise Trouble(f"without any patch, {', '.join(names)} fails")
        print(f"{time.monotonic() - start:6.1f} s  no patch, {' '.join(arguments)}: passes", flush=True)

    rows = []
    for mistake in chosen:
        start = time.monotonic()
        try:
            names, line = noticed_by(mistake)
            rows.append((mistake, names, line))
            result = f"{', '.join(names)}: {line}"
        except Trouble as trouble:
            result = f"ERROR: {trouble}"
        print(f"{time.monotonic() - start:6.1f} s  {mistake.name}: {result}", flush=True)
    if len(rows) < len(chosen):
        raise Trouble(f"{len(chosen) - len(rows)} of {len(chosen)} mistakes were not noticed as they should be (above)")
    if not options.only:
        (HERE / "RESULTS.md").write_text(table(rows, (time.monotonic() - begin) / 60))
        print(f"wrote {HERE / 'RESULTS.md'}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Trouble as trouble:
        sys.exit(f"error: {trouble}")
