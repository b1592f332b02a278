"""Runs verifiers over hostile answers, one line of output a call; a watchdog ends the process when a call hangs.

python hostile.py FIRST SECONDS SIZE     starts at call number FIRST; the long answers have SIZE bytes
"""

import json
import sys
import time

import watchdog
from library import load_all, load_examples

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import Verdict

SIZE = int(sys.argv[3])
PROSE = 'The quick brown fox, 42 years old, said: "Jump!" (over the lazy dog). Is it **true**?\n- item one\n1. two\n\n'
CHINESE = "今天天气很好，我们去公园。“真的吗？”他问。\n一、苹果；二、香蕉。\n\n"
TABLE = '| a | b |\n|---|---|\n| 1 | "x,y" |\n\n```json\n{"a": [1, 2]}\n```\n# Title\n<b>x</b> $x^2$ [a](b)\n'
TEXTS = {
    "empty": "",
    "blank": " \n\t \u3000\u200b",
    "prose": PROSE * (SIZE // len(PROSE)),
    "chinese": CHINESE * (SIZE // (3 * len(CHINESE))),  # in UTF-8
    "markup": TABLE * (SIZE // len(TABLE)),
    "brackets": "[" * 10_000 + "]" * 10_000 + "{" * 10_000 + '{"a":' * 10_000 + "(" * 10_000 + "<a>" * 10_000,
    "surrogates": b"caf\xe9 \xff\xfe text. \xf0\x9f.\n".decode("utf-8", "surrogateescape") * 2_000
    + "\ud800\udfff\ud83d",
    "nul": "a\x00b. \x00\n" * 5_000 + "\x00" * 1000 + "\x1b[31m\x07\x7f\ufffe\uffff",
    "zero width": "w\u200bo\u200cr\u200dd\ufeff. \u2060\n" * 5_000 + "\u200d" * 1000,
    "right to left": "مرحبا\u202e بالعالم؟ שלום. \u200f\u202a\u202b" * 5_000,
    "combining": "e" + "\u0301" * 20_000 + " 👨‍👩‍👧‍👦🏳️‍🌈" * 3_000,
    "one word": "a" * SIZE,
    "newlines": "\n" * SIZE,
    "backticks": "`" * SIZE,
    "maths": "\\[" * (SIZE // 2),
    "quotes": "\"'“" * (SIZE // 3),
    "full stops": "a. " * (SIZE // 9),
    "stars": "* **" * (SIZE // 12),
    "commas": "1,\n" * (SIZE // 9),
}


def calls():
    """(verifier, parameters, text's name) in an order that lets the verifiers share the units of a text."""
    library = load_all()
    chosen = {}  # the passing example with the most to do
    for _, name, example in load_examples():
        kept = chosen.get(name)
        if kept is None or (example["kind"] == "pass" and _size(example) > _size(kept)):
            chosen[name] = example
    for text in TEXTS:
        for name in sorted(library):
            if library[name].cost == "cheap" or text == "prose":
                yield library[name], chosen[name], text


def _size(example):
    return len(str(example.get("params"))) if example["kind"] == "pass" else -1


def load_dictionaries():
    """A dictionary is read from disk once, which may take longer than a call may."""
    verifier = load_all()["ja:detectable_format:nominal_ending"]
    for compat in ("fixed", "upstream"):
        verifier.verify(Rollout(response="本。", reasoning=""), verifier.check_parameters({"count": 1}), compat=compat)


def main(first, seconds):
    load_dictionaries()
    rollouts = {}
    for number, (verifier, example, text) in enumerate(calls()):
        if number < first:
            continue
        if text not in rollouts:
            rollouts = {text: {}}
        kept = rollouts[text].setdefault("plain", Rollout(response=TEXTS[text], reasoning=""))
        rest = {key: value for key, value in example.get("rollout", {}).items() if key not in ("response", "reasoning")}
        rollout = Rollout(response=TEXTS[text], reasoning="", **rest) if rest else kept
        params = verifier.check_parameters(example.get("params", {}))
        for compat in ("fixed", "upstream") if verifier.knows_compat else ("fixed",):
            print(json.dumps({"start": number, "name": verifier.name, "text": text, "compat": compat}), flush=True)
            watchdog.start(seconds)
            begin = time.perf_counter()
            verdict = verifier.verify(rollout, params, compat=compat)
            took = time.perf_counter() - begin
            watchdog.stop()
            right = isinstance(verdict, Verdict) and isinstance(verdict.reason, str) and bool(verdict.reason)
            crashed = f"{verifier.name} failed: " in verdict.reason
            done = {"done": number, "took": took, "right": right, "crashed": ascii(verdict.reason) if crashed else ""}
            print(json.dumps({**done, "size": len(verdict.reason)}), flush=True)
    print(json.dumps({"end": True}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
