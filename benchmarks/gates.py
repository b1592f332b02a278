"""What gates and penalties say of good answers: a table of gate × source, and every hit for reading.

    python benchmarks/gates.py                          # the table: fired, share, missing
    python benchmarks/gates.py --hits hits.jsonl        # and what fired, with prompt, answer and reason

The answers are those of strong models (../shared/data/good_answers), so a gate that fires on them is probably wrong.
"Fired" counts verdicts of 0; what is missing stops no rollout.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import find_verifier

ANSWERS = Path(__file__).parents[2] / "shared" / "data" / "good_answers" / "answers.jsonl.gz"
GATES = ("EmptyAnswer", "Truncated", "RepeatSegment", "GarbledText", "ThinkLeak", "WrongLanguage")
PENALTIES = (
    "Verbosity",
    "RoboticTemplate",
    "ImproperWording",
    "SecurityRisk",
    "GeneralLowQuality",
    "LanguageDetection",
)


def read(path: Path) -> Iterator[tuple[str, str, Rollout]]:
    """Source, model and rollout of every answer."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["src"], row["model"], Rollout(prompt=row["prompt"], response=row["response"])


def _ready(name: str) -> Callable[[Rollout], tuple[float | None, str]]:
    gate = find_verifier(name)
    return gate.bind(gate.check_parameters({}))


Counts = Counter[tuple[str, str, str]]


def measure(path: Path, names: tuple[str, ...], hits: Path | None) -> tuple[Counter[str], Counts]:
    """Answers of each source; and how often each gate fired or was missing there."""
    sizes: Counter[str] = Counter()
    counts: Counts = Counter()
    found = []
    gates = {name: _ready(name) for name in names}
    for source, model, rollout in read(path):
        sizes[source] += 1
        for name, gate in gates.items():
            value, reason = gate(rollout)
            if value is None:
                counts[name, source, "missing"] += 1
            elif value == 0:
                counts[name, source, "fired"] += 1
                said = {"prompt": [m.model_dump() for m in rollout.prompt], "answer": rollout.response}
                found.append({"gate": name, "source": source, "model": model, "reason": reason} | said)
    if hits:
        hits.write_text("".join(json.dumps(hit, ensure_ascii=False) + "\n" for hit in found), encoding="utf-8")
    return sizes, counts


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=Path, default=ANSWERS)
    parser.add_argument("--gates", nargs="*", default=[*GATES, *PENALTIES], help="names of verifiers")
    parser.add_argument("--hits", type=Path, help="write what fired to this file, as JSON lines")
    options = parser.parse_args()
    sizes, counts = measure(options.answers, tuple(options.gates), options.hits)
    sources = sorted(sizes)
    print("| | " + " | ".join(f"{source} ({sizes[source]:,})" for source in sources) + " | all | share | missing |")
    print("|---|" + "---|" * (len(sources) + 3))
    for name in options.gates:
        fired = [counts[name, source, "fired"] for source in sources]
        missing = sum(counts[name, source, "missing"] for source in sources)
        share, unsure = sum(fired) / sizes.total(), missing / sizes.total()
        print(f"| {name} | {' | '.join(map(str, fired))} | {sum(fired)} | {share:.2%} | {unsure:.1%} |")


if __name__ == "__main__":
    main()
