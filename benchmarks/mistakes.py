"""Ordinary mistakes in tables, rollouts, rubrics and options: how many are refused, right, or silently wrong?

    python benchmarks/mistakes.py              a table of the counts by kind, and every case that is silently wrong

A case is refused if it raises an error of rubrank. It is right if it gives the rewards or the rollouts that the
correct input gives. Anything else is silently wrong. All of it takes less than a minute; no judge is called.
"""

# Every call here is wrong on purpose, often in its types.
# mypy: ignore-errors

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import rubrank
from rubrank.errors import RubrankError
from rubrank.records.files import write_records
from rubrank.records.record import records_of
from rubrank.rollouts.groups import read_groups
from rubrank.scores.files import match_rollouts

Case = tuple[str, str, Callable[[], Any], Any]
"""Kind, what was done, the call, and the result that would be right; None: only a refusal is."""

_NUMBERS = """temperature latency_ms cost year gpu total mean score final_score created_at Unnamed:0 __index_level_0__
    top_p max_new_tokens price_usd worker port difficulty confidence n_votes loss kl entropy age shard attempt retries
    rating"""
SCORES_AS_TEXT = [("8/10", "6/10"), ("70%", "40%"), ("yes", "no"), ("$3", "$4"), ("0,5", "0,7"), ("pass", "fail")]
FORMATS = ("csv", "jsonl", "parquet")


def save(frame: pl.DataFrame, path: Path) -> Path:
    writers = {".csv": frame.write_csv, ".jsonl": frame.write_ndjson, ".parquet": frame.write_parquet}
    writers[path.suffix](path)
    return path


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def rewards(source: Any, **options: Any) -> list[float]:
    summary = rubrank.fuse_file(source, **options)
    return [float(reward) for group in summary.first for reward in group.reward]


def answers(source: Any, **options: Any) -> list[list[str]]:
    return [[rollout.answer for rollout in group.rollouts] for group in read_groups(source, **options)]


def tables(folder: Path) -> Iterator[Case]:
    facts = [1.0, 0.0, 1.0]
    uid = ["q", "q", "q"]
    kind = "a number that is no score"
    for number, name in enumerate(_NUMBERS.split()):
        frame = pl.DataFrame({"uid": uid, "Facts": facts, name: [3.0, 7.0, 5.0]})
        right = rewards(frame, criteria=["Facts"])
        for suffix in FORMATS:
            path = save(frame, folder / f"numbers{number}.{suffix}")
            yield kind, f"{name} in {suffix}", lambda path=path: rewards(path), right
        yield (
            "a number that is no score",
            f"{name} in a frame",
            lambda f=frame: list(rubrank.fuse(f, groups="uid")),
            right,
        )
    for number, cells in enumerate(SCORES_AS_TEXT):
        frame = pl.DataFrame({"uid": ["q", "q"], "Facts": [1.0, 0.0], "Style": cells})
        for suffix in FORMATS:
            path = save(frame, folder / f"text{number}.{suffix}")
            yield "scores as text", f"{cells[0]} in {suffix}", lambda path=path: rewards(path, criteria="all"), None
    for number, other in enumerate(["facts", "FACTS", "Facts ", " Facts", "Ｆacts"]):
        rows = [{"uid": "q", "scores": {"Facts": 1}}, {"uid": "q", "scores": {other: 0}}]
        path = write(folder / f"names{number}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        yield "names that differ in writing", other, lambda path=path: rewards(path), [1.0, 0.0]
    fused = rubrank.RLVR2()(rubrank.ScoreBatch.of_arrays(np.array([[1.0], [0.0]]), criteria=["A"]))
    for name in ("records.jsonl", "records.parquet"):
        write_records(folder / name, records_of(fused))
        for call in (rewards, answers, lambda path: rubrank.explain_file(path, "0")):
            yield "records for scores", name, lambda call=call, path=folder / name: call(path), None
    text = write(folder / "key.jsonl", '{"uid": "q", "scores": {"F": 1, "F": 0}}\n{"uid": "q", "scores": {"F": 0}}\n')
    yield "a key twice", "scores", lambda: rewards(text), None
    text2 = write(folder / "key.json", '[{"uid": "q", "F": 1, "F": 0}, {"uid": "q", "F": 0}]')
    yield "a key twice", "JSON", lambda: rewards(text2, criteria="all"), None
    quote = write(folder / "quote.csv", 'uid,F,note\nq,1,"open\nq,0,x\n')
    yield "an open quote", "scores", lambda: rewards(quote, criteria=["F"]), None
    scale = write(folder / "scale.csv", "uid,Style,Safe\nq,1,3\nq,0,5\n")
    for layer in ("global_quality", "low_quality"):
        options = rubrank.FuseOptions(**{layer: ["Safe"]})
        yield "off the scale", layer, lambda o=options: rewards(scale, options=o, criteria="all"), None
    wide = rubrank.FuseOptions(margin={"Safe": 5})
    yield "off the scale", "margin", lambda: rewards(scale, options=wide, criteria="all"), None
    both = rubrank.FuseOptions(attributes=["Safe"])
    yield "a column with two uses", "attribute", lambda: rewards(scale, options=both, criteria=["Style", "Safe"]), None
    yield "a column with two uses", "group", lambda: rewards(scale, criteria=["Style", "uid"]), None
    for suffix in FORMATS:
        prompts = pl.DataFrame({"uid": uid, "prompt": ["p", "p", "r"], "F": facts})
        path = save(prompts, folder / f"prompts.{suffix}")
        yield "one id, two prompts", f"scores in {suffix}", lambda path=path: rewards(path, criteria=["F"]), None
        twice = pl.DataFrame({"uid": uid, "rollout": [0, 1, 0], "F": facts})
        path = save(twice, folder / f"twice.{suffix}")
        yield "a rollout twice", f"scores in {suffix}", lambda path=path: rewards(path, criteria=["F"]), None


def rollouts(folder: Path) -> Iterator[Case]:
    shapes: dict[str, Any] = {
        "null among responses": {"responses": ["a", None]},
        "no responses": {"responses": []},
        "null for responses": {"responses": None},
        "no assistant": {"response": [{"role": "user", "content": "x"}]},
        "a number": {"response": 5},
        "true": {"response": True},
        "lists in a list": {"responses": [["a"], ["b"]]},
        "an object without a text": {"responses": [{"a": 1}]},
        "the text of a list": {"responses": "['a', 'b']"},
        "the text of a tuple": {"completions": "('a', 'b')"},
        "two places": {"response": "a", "output": "b"},
    }
    for name, row in shapes.items():
        yield "responses of another shape", name, lambda row=row: answers([{"prompt": "p", **row}]), None
    cells = {"json": '"[""a"", ""b""]"', "python": "\"['a', 'b']\""}
    for name, cell in cells.items():
        for column in ("response", "responses", "completions"):
            path = write(folder / f"list_{name}_{column}.csv", f"prompt,{column}\np,{cell}\n")
            yield "a list in a cell", f"{name}, {column}", lambda path=path: answers(path), [["a", "b"]]
    for suffix in FORMATS:
        prompts = pl.DataFrame({"prompt_id": ["q", "q"], "prompt": ["p", "r"], "response": ["a", "b"]})
        path = save(prompts, folder / f"rollouts.{suffix}")
        yield "one id, two prompts", f"rollouts in {suffix}", lambda path=path: answers(path), None
        for name in ("rollout", "rollout_id", "response_id", "completion_id"):
            twice = pl.DataFrame({"prompt_id": ["q"] * 3, name: [0, 1, 0], "response": ["a", "b", "a"]})
            path = save(twice, folder / f"{name}.{suffix}")
            yield "a rollout twice", f"{name} in {suffix}", lambda path=path: answers(path), None
    key = write(folder / "key_rollout.jsonl", '{"prompt": "p", "response": "a", "response": "b"}\n')
    yield "a key twice", "rollouts", lambda: answers(key), None
    quote = write(folder / "quote_rollout.csv", 'prompt_id,response\nq,"open\nq,b\n')
    yield "an open quote", "rollouts", lambda: answers(quote), None
    scored = {"prompt": "p", "id": "q", "responses": ["a", "b c", "d e f"]}
    table = rubrank.grade([scored], [{"name": "WordCount", "params": {"low": 2}}], workers=0)
    for changed in (["b c", "a", "d e f"], ["a", "b c", "edited"], ["a", "b c"]):
        rows = [{**scored, "responses": changed}]
        yield "rollouts that were not scored", str(changed), lambda rows=rows: match_rollouts(table, rows), None
    for rubric in (["Is it polite?"], ["Is it polite?", "Is it short?"]):
        rows = [{"prompt": "p", "responses": ["a", "b"]}]
        yield "no judge", str(rubric[0]), lambda rows=rows, rubric=rubric: rubrank.grade(rows, rubric, workers=0), None


def options() -> Iterator[Case]:
    scores = [[1.0, 0.0], [0.0, 1.0]]
    for name in ("weigths", "ruel", "groupes", "margin", "prior_"):
        yield "a misspelt keyword", f"fuse {name}", lambda name=name: rubrank.fuse(scores, **{name: 1}), None
        yield "a misspelt keyword", f"RLVR2 {name}", lambda name=name: rubrank.RLVR2(**{name: 1}), None
        yield (
            "a misspelt keyword",
            f"FuseOptions {name}_",
            lambda name=name: rubrank.FuseOptions(**{name + "_": 1}),
            None,
        )
        yield "a misspelt keyword", f"Gate {name}", lambda name=name: rubrank.Gate(**{name: 1}), None
    for rule in ("gdop", "rlvr", "mean"):
        yield "a misspelt rule", rule, lambda rule=rule: rubrank.fuse(scores, rule=rule), None
    dates = np.array([["2020-01-01"], ["2021-01-01"]], dtype="datetime64[D]")
    unusable = {"dates": dates, "durations": dates - dates[0], "texts": [["1"], ["0"]], "complex": [[1j], [0j]]}
    for name, values in unusable.items():
        yield "scores of another type", name, lambda values=values: rubrank.fuse(values), None
    for groups in ({"a": 0, "b": 1}, {"a", "b"}, "ab", [None, 1], [float("nan"), 1], ["a"]):
        yield "labels of another type", repr(groups), lambda groups=groups: rubrank.fuse(scores, groups=groups), None
    for weight in (True, 0, -1, float("nan"), float("inf")):
        yield "an unusable weight", f"option {weight}", lambda w=weight: rubrank.FuseOptions(weight={"F": w}), None
        criterion = {"name": "WordCount", "params": {"low": 2}, "weight": weight}
        yield "an unusable weight", f"rubric {weight}", lambda c=criterion: rubrank.load_rubric([c]), None


def judge_case(case: Case) -> str:
    """Whether a case is refused, right, or silently wrong."""
    _, _, call, right = case
    try:
        result = call()
    except RubrankError:
        return "refused"
    if right is not None and len(result) == len(right) and all(map(_is_equal, result, right)):
        return "right"
    return "silently wrong"


def _is_equal(value: Any, expected: Any) -> bool:
    return bool(value == expected) or (isinstance(value, float) and abs(value - expected) < 1e-12)


def main() -> None:
    counts: dict[str, Counter[str]] = {}
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in (*tables(folder), *rollouts(folder), *options()):
            outcome = judge_case(case)
            counts.setdefault(case[0], Counter())[outcome] += 1
            if outcome == "silently wrong":
                wrong.append(f"{case[0]}: {case[1]}")
    columns = ("refused", "right", "silently wrong")
    print(f"| mistake | tried | {' | '.join(columns)} |\n|---|--:|--:|--:|--:|")
    for kind, count in counts.items():
        print(f"| {kind} | {count.total()} | {' | '.join(str(count[column]) for column in columns)} |")
    total = sum(counts.values(), Counter())
    print(f"| all | {total.total()} | {' | '.join(str(total[column]) for column in columns)} |")
    for line in wrong:
        print(f"silently wrong: {line}")


if __name__ == "__main__":
    main()
