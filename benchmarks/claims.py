"""How well a truth is found in natural sentences: recall and precision of GroundTruthMatch, mode "normalised".

python benchmarks/claims.py [--data ../shared/data/eval] [--half development|hold-out]

The answers and grades are those of SimpleQA in Czech (two models, graded A, B or C) and AA-LCR (two runs, graded
CORRECT or INCORRECT). "Named" are the right answers that hold the truth word for word, as no reader of words finds
the others: Czech inflects names. Questions are divided into halves by a hash; only the development half was read.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rubrank import Rollout, find_verifier
from rubrank.verifiers.truth.claims import normalise


def read_rows(pattern: str, folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob(pattern)):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from map(json.loads, file)


def read_cases(data: Path) -> Iterator[tuple[str, str, str, str, bool]]:
    """Set, question, truth, answer, and whether it was graded as right."""
    for row in read_rows("simpleqa/czech_*.jsonl.gz", data):
        yield "SimpleQA, Czech", row["problem"], row["target"], row["predicted_answer"], row["grade"] == "A"
    for row in read_rows("aa_lcr/run_*.jsonl.gz", data):
        if "question" in row:
            is_right = row["judge_result"] == "CORRECT"
            yield "AA-LCR", row["question"], row["gold_answer"], row["llm_answer"], is_right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/eval"))
    parser.add_argument("--half", choices=("development", "hold-out"), help="only this half of the questions")
    options = parser.parse_args()
    verifier = find_verifier("GroundTruthMatch")
    counts: dict[str, Counter[str]] = {}
    for name, question, truth, answer, is_right in read_cases(options.data):
        half = ("development", "hold-out")[hashlib.sha256(question.encode()).digest()[0] % 2]
        if not truth or not answer or options.half not in (None, half):
            continue
        count = counts.setdefault(name, Counter())
        params = verifier.check_parameters({"truth": truth})
        is_credited = (
            verifier.verify(Rollout.model_validate({"prompt": question, "response": answer}), params).value == 1
        )
        is_named = f" {normalise(truth)} " in f" {normalise(answer)} "
        count["right"] += is_right
        count["named"] += is_right and is_named
        count["credited"] += is_credited
        count["credited and right"] += is_credited and is_right
    print("| set | right | of them named | credited | precision | recall | recall of the named |")
    print("|---|---|---|---|---|---|---|")
    for name, count in counts.items():
        hits = count["credited and right"]
        print(
            f"| {name} | {count['right']} | {count['named']} | {count['credited']} | {hits / count['credited']:.1%} "
            f"| {hits / count['right']:.1%} | {hits / count['named']:.1%} |"
        )


if __name__ == "__main__":
    main()
