"""How exactly `rubrank draft` compiles prompts, without a model, against public sets whose constraints are known.

    python benchmarks/drafting.py [../shared/data]

Truth: the instruction ids of IFEval, IFBench and M-IFEval. A compiled criterion counts as right if the row has its id;
"parameters" is the share of these whose numbers, relations and words are those of the row. Ranges and counts that
IFEval's ids cannot express (WordCount with low and high) count for the id of the same subject. Criteria of the library
that no id stands for are counted apart: the truth cannot say whether they are right. Ordinary prompts state no or few
constraints; what is compiled from them is printed with --show, to be read.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rubrank.drafting.compiler import compile_prompt
from rubrank.drafting.rules import Constraint


def read_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def find_public_id(constraint: Constraint, ids: set[str]) -> str | None:
    """The instruction id that a criterion stands for, or None if the set has no id for it."""
    params = constraint.params
    is_range = "low" in params
    if constraint.verifier == "WordCount" and params.get("unit") != "characters" and is_range:
        candidates = ["count:word_count_range", "length_constraints:number_words", "en:length_constraints:number_words"]
    elif constraint.verifier == "SentenceCount" and is_range:
        candidates = ["length_constraints:number_sentences", "en:length_constraints:number_sentences"]
    else:
        candidates = [constraint.verifier, f"en:{constraint.verifier}", f"fr:{constraint.verifier}"]
    return next((name for name in candidates if name in ids), None)


def has_same_parameters(params: Mapping[str, Any], truth: Mapping[str, Any]) -> bool:
    """Do the parameters that both have say the same? "At most 10" is "less than 11"; case does not matter."""
    first = _normalize_bounds(params)
    second = _normalize_bounds({name: value for name, value in truth.items() if value is not None})
    for name, value in second.items():
        if name not in first or first[name] == value:
            continue
        is_part = isinstance(value, str) and (str(first[name]) in value or value in str(first[name]))
        if not is_part:
            return False
    return True


def _normalize_bounds(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with relations as "at least" and "less than" only."""
    values = {name: _normalize(value) for name, value in params.items()}
    relation = next((name for name in values if name.endswith("relation")), None)
    number = next((name for name, value in values.items() if isinstance(value, float)), None)
    if relation and number and values[relation] in ("at most", "more than"):
        values[relation] = "less than" if values[relation] == "at most" else "at least"
        values[number] += 1
    return values


def _normalize(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.lower().split()).strip(" .!?\"'")
    if isinstance(value, list | tuple):
        return sorted(map(str, map(_normalize, value)))
    return float(value)


def measure(name: str, rows: list[Mapping[str, Any]], show: bool) -> None:
    ids = {identifier for row in rows for identifier in row["instruction_id_list"]}
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    without_id = 0
    compared = 0
    same = 0
    for row in rows:
        compiled = set()
        truth = dict(zip(row["instruction_id_list"], row["kwargs"], strict=True))
        for constraint in compile_prompt(row["prompt"]):
            identifier = find_public_id(constraint, ids)
            if identifier is None:
                without_id += 1
                continue
            compiled.add(identifier)
            if truth.get(identifier):
                compared += 1
                same += has_same_parameters(constraint.params, truth[identifier])
            if show and identifier not in row["instruction_id_list"]:
                print(f"  not in the truth: {identifier} {dict(constraint.params)} | {constraint.evidence[:120]}")
        stated = set(row["instruction_id_list"])
        right.update(compiled & stated)
        wrong.update(compiled - stated)
        missed.update(stated - compiled)
    precision = right.total() / max(1, right.total() + wrong.total())
    recall = right.total() / max(1, right.total() + missed.total())
    values = f"{precision:10.3f} {recall:8.3f} {same / max(1, compared):10.3f} {without_id:12}"
    print(f"{name:28} {len(rows):6} {len(ids):6} {values}")
    if show:
        for identifier in sorted(ids):
            print(f"    {identifier:50} {right[identifier]:4} {wrong[identifier]:4} {missed[identifier]:4}")


def ordinary_prompts(data: Path) -> dict[str, list[str]]:
    """Prompts that were not written to hold constraints, by source."""
    sources = {
        "eval/simpleqa/simple_qa_test_set_first1000.jsonl.gz": "problem",
        "eval/frames/frames_824_qa.jsonl.gz": "question",
        "eval/mmlu_pro/jamba-1.5-large_1500.jsonl.gz": "question",
        "eval/longbench_v2/questions_503_without_context.jsonl.gz": "question",
        "eval/arena_hard_v2/question.jsonl.gz": "prompt",
        "eval/chinese_simpleqa/chinese_simpleqa_no_urls.jsonl.gz": "question",
        "drafting/llmbar.jsonl.gz": "input",
    }
    prompts: dict[str, list[str]] = {}
    for path, key in sources.items():
        if (data / path).exists():
            values = [row.get(key) or row.get(key.lower()) for row in read_rows(data / path)]
            prompts[path.split("/")[-2] if path.startswith("eval") else Path(path).name[:6]] = [
                value for value in dict.fromkeys(values) if isinstance(value, str)
            ]
    answers = data / "good_answers" / "answers.jsonl.gz"
    if answers.exists():
        rows = [row for row in read_rows(answers) if row["src"] in ("alpaca", "arena1", "arena2")]
        prompts["good_answers"] = list(dict.fromkeys(row["prompt"] for row in rows if isinstance(row["prompt"], str)))
    return prompts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=Path("../shared/data"))
    parser.add_argument("--show", action="store_true", help="Print every difference, and what ordinary prompts give.")
    options = parser.parse_args()
    print(f"{'set':28} {'rows':>6} {'ids':>6} {'precision':>10} {'recall':>8} {'parameters':>10} {'without id':>12}")
    for name, path in (
        ("IFEval", "ifeval/prompts.jsonl.gz"),
        ("IFBench", "ifbench/prompts.jsonl.gz"),
        ("M-IFEval, English", "m_ifeval/en_groups.jsonl.gz"),
        ("M-IFEval, French", "m_ifeval/fr_groups.jsonl.gz"),
    ):
        if (options.data / path).exists():
            measure(name, list(read_rows(options.data / path)), options.show)
    total = 0
    hits = 0
    print(f"\n{'ordinary prompts':28} {'rows':>6} {'with a criterion':>17}")
    for name, prompts in ordinary_prompts(options.data).items():
        count = 0
        for prompt in prompts:
            constraints = compile_prompt(prompt)
            count += bool(constraints)
            if options.show:
                for constraint in constraints:
                    print(f"  {constraint.verifier} {dict(constraint.params)} | {constraint.evidence[:120]!r}")
        print(f"{name:28} {len(prompts):6} {count:17}")
        total += len(prompts)
        hits += count
    print(f"{'all':28} {total:6} {hits:17} = {hits / max(1, total):.2%}")


if __name__ == "__main__":
    main()
