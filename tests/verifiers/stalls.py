"""Runs every cheap verifier over repetitions of the words in its own patterns; a watchdog ends a call that hangs.

python stalls.py SECONDS SIZE     each call may take SECONDS of the processor; the texts have SIZE characters
"""

import ast
import inspect
import random
import re
import sys

import watchdog
from library import load_all, load_examples

from rubrank.rollouts.rollout import Group, Rollout

PIECES = 4  # words of each verifier's module
_SHARED = "rubrank.verifiers.shared."


def find_words(module_name):
    """Words in the strings of a module, and of the shared modules that it imports: most come from patterns."""
    words = set()
    modules = [module_name]
    source = inspect.getsource(sys.modules[module_name])
    modules += [name for name in re.findall(r"from ([\w.]+) import", source) if name.startswith(_SHARED)]
    for name in modules:
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[name]))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 5000:
                pieces = re.split(r"\\[a-zA-Z]|[\\|()\[\]{}?*+^$\n]", node.value)
                words |= {piece for piece in pieces if 2 <= len(piece) <= 30}
    return sorted(words)


def make_texts(word, size):
    """The word over and over, with spaces, before and after long runs of line breaks and signs."""
    yield word * (size // len(word))
    yield f"{word} " * (size // (len(word) + 1))
    yield "The answer is " + word + "\n" * size + "x"
    yield word + " " * size + word
    yield word + "*" * size + word


def main(seconds, size):
    rng = random.Random(8)
    examples = {}
    for _, name, example in load_examples():
        if example["kind"] == "pass":
            examples.setdefault(name, example)
    for name, verifier in sorted(load_all().items()):
        if name not in examples or (verifier.cost != "cheap" and name != "GroundTruthMatch"):
            continue
        params = verifier.check_parameters(examples[name].get("params", {}))
        rest = {k: v for k, v in examples[name].get("rollout", {}).items() if k not in ("response", "reasoning")}
        words = find_words(verifier.function.__module__)
        for word in rng.sample(words, min(PIECES, len(words))):
            for text in make_texts(word, size):
                print(name, repr(word), repr(text[:20]), flush=True)
                watchdog.start(seconds)
                rollout = Rollout(response=text, reasoning="", **rest)
                if verifier.sees_group:
                    verifier.bind_group(params)(Group(id="stall", rollouts=(rollout, rollout)))
                else:
                    verifier.verify(rollout, params)
                watchdog.stop()
    print("end", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
