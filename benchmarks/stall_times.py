"""The slowest of many adversarial inputs: every cheap verifier over repetitions of the words in its own patterns.

python benchmarks/stall_times.py [--inputs 100000] [--size 400] [--minutes 10]

Each input is a verifier and a text: a word of the verifier's own patterns (or of the shared ones), repeated, or
with a long run of line breaks, spaces or asterisks behind it. One text in fifty is fifty times as long, as only length
shows what is not linear. Times are of the processor, so that a busy machine changes nothing. GroundTruthMatch runs in
all modes but "math", which has a worker with a time limit.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Any

from rubrank.rollouts.rollout import Group, Rollout

_MODES = ("exact", "normalised", "numeric", "choice", "set")


def list_subjects() -> list[tuple[str, Any, Any, dict[str, Any]]]:
    """Name, verifier, parameters and data of every verifier that runs in this process."""
    from library import load_all, load_examples  # type: ignore[import-not-found]

    subjects = []
    examples = {name: example for _, name, example in reversed(load_examples()) if example["kind"] == "pass"}
    for name, verifier in sorted(load_all().items()):
        example = examples.get(name)
        if example is None or (verifier.cost != "cheap" and name != "GroundTruthMatch"):
            continue
        data = {key: value for key, value in example.get("rollout", {}).items() if key not in ("response", "reasoning")}
        if name == "GroundTruthMatch":
            for mode in _MODES:
                params = verifier.check_parameters({"truth": "B" if mode == "choice" else "7", "mode": mode})
                subjects.append((f"{name}, {mode}", verifier, params, {"prompt": "Which one is it?"}))
        else:
            subjects.append((name, verifier, verifier.check_parameters(example.get("params", {})), data))
    return subjects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--minutes", type=float, default=10.0)
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "verifiers"))
    from stalls import find_words, make_texts  # type: ignore[import-not-found]

    rng = random.Random(32)
    subjects = list_subjects()
    words = {subject[0]: find_words(subject[1].function.__module__) for subject in subjects}
    end = time.monotonic() + 60 * arguments.minutes
    slowest: list[tuple[float, str, str, int]] = []
    count = 0
    while count < arguments.inputs and time.monotonic() < end:
        name, verifier, params, data = subjects[count // 5 % len(subjects)]
        word = rng.choice(words[name] or ["x"])
        size = arguments.size * (50 if count // 5 % 50 == 0 else 1)
        for text in make_texts(word, size):
            rollout = Rollout(response=text, reasoning="", **data)
            start = time.process_time()
            if verifier.sees_group:
                verifier.bind_group(params)(Group(id="stall", rollouts=(rollout, rollout)))
            else:
                verifier.verify(rollout, params)
            slowest.append((time.process_time() - start, name, text[:30], len(text)))
            count += 1
        slowest = sorted(slowest, reverse=True)[:15]
    print(f"{count} inputs, {len(subjects)} verifiers and modes")
    for seconds, name, text, size in slowest:
        print(f"{1000 * seconds:9.1f} ms  {name:32} {size:6} characters  {text!r}")


if __name__ == "__main__":
    main()
