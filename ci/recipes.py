#!/usr/bin/env python3
"""What the recipes of `voxtral quantize` cost the generated models of the goldens and the small model, as a table.

    ci/recipes.py [PROGRAM [GENERATOR]]

Quantises each by each recipe and compares both over the audio of the goldens, or the small model's clips: relative rms
error of encoder and logits, KL divergence, positions where the best token is another. Generated weights are noise, so
their logits lie close together and words mean nothing; the errors of the stages are what to look at.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECIPES = "q8", "mixed", "q4"


def compare(program, model, other, audio):
    """The whole of what `voxtral compare --json` says."""
    command = [program, "compare", "--json", model, other, *audio]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(printed.stdout)


def main():
    defaults = [f"{ROOT}/target/release/voxtral", f"{ROOT}/target/release/generate"]
    program, generator = sys.argv[1:] + defaults[len(sys.argv) - 1 :]
    goldens = sorted(glob.glob(f"{ROOT}/tests/goldens/audio/*.wav"))
    clips = sorted(glob.glob(f"{ROOT}/tests/nano/clips/*.wav"))
    print("| model | recipe | encoder | adapter | logits | KL divergence, mean | another best token |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as work:
        models = [("small model", f"{ROOT}/host/nano", clips)]
        for variant in "ABCDE":
            directory = f"{work}/{variant}"
            subprocess.run([generator, "--variant", variant, directory], check=True, stdout=subprocess.DEVNULL)
            models.append((f"golden {variant}", directory, goldens))
        for name, model, audio in models:
            for recipe in RECIPES:
                other = f"{work}/{os.path.basename(model)}-{recipe}"
                command = [program, "quantize", "--silent", model, other, "--recipe", recipe]
                subprocess.run(command, check=True, stdout=subprocess.PIPE)
                row(name, recipe, compare(program, model, other, audio))


def row(name, recipe, told):
    errors = {stage["stage"]: f"{100 * stage['relative_rms_error']:.1f} %" for stage in told["stages"]}
    stages = " | ".join(errors[stage] for stage in ("encoder", "adapter", "logits"))
    others = f"{len(told['disagreements'])} of {told['positions']}"
    print(f"| {name} | {recipe} | {stages} | {told['kl_mean']:.1e} | {others} |", flush=True)


main()
