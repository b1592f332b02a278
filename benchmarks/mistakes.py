"""Ordinary mistakes in tables, rollouts, rubrics and options: how many are refused, right, or silently wrong?

    python benchmarks/mistakes.py              a table of the counts by kind, and every case that is silently wrong

A case is refused if it raises an error of rubrank, in one line. It is right if it gives the rewards or the rollouts
that the correct input gives. Anything else is wrong: silently, or with a traceback. All of it takes less than a minute;
no judge is called.
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
    for number, spelling in enumerate(["facts", "FACTS", "Facts ", " Facts", "Ｆacts"]):
        rows = [{"uid": "q", "scores": {"Facts": 1}}, {"uid": "q", "scores": {spelling: 0}}]
        path = write(folder / f"names{number}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        yield "names that differ in writing", spelling, lambda path=path: rewards(path), [1.0, 0.0]
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


# ---- a second set: how files are written, what cells hold, arrays, rubrics and rows --------------------------------

_TABLES_AS_WRITTEN = {  # what was done → (suffix, text, the rewards that would be right; None: only a refusal is)
    "no header": (".csv", "q,1,0\nq,0,1\n", None),
    "semicolons": (".csv", "uid;F\nq;1\nq;0\n", [1.0, 0.0]),
    "bars": (".csv", "uid|F\nq|1\nq|0\n", [1.0, 0.0]),
    "tabs": (".csv", "uid\tF\nq\t1\nq\t0\n", [1.0, 0.0]),
    "a column twice": (".csv", "uid,F,F\nq,1,0\nq,0,1\n", None),
    "the header twice": (".csv", "uid,F\nq,1\nuid,F\nq,0\n", None),
    "a column without a name": (".csv", "uid,F,\nq,1,5\nq,0,7\n", None),
    "blank lines": (".csv", "uid,F\n\nq,1\n\nq,0\n", [1.0, 0.0]),
    "a comment": (".csv", "# made today\nuid,F\nq,1\nq,0\n", None),
    "too many cells": (".csv", "uid,F\nq,1,9\nq,0\n", None),
    "too few cells": (".csv", "uid,F,G\nq,1\nq,0,1\n", None),
    "a byte order mark": (".csv", "\ufeffuid,F\nq,1\nq,0\n", [1.0, 0.0]),
    "only a header": (".csv", "uid,F\n", None),
    "a row of means": (".csv", "uid,F\nq,1\nq,0\nmean,0.5\n", None),
    "a row of totals": (".csv", "uid,F\nq,1\nq,0\nTotal,1\n", None),
    "CR alone": (".csv", "uid,F\rq,1\rq,0\r", None),
    "blanks around ids": (".csv", "uid,F\nq,1\nq ,0\n", None),
    "JSON in a .csv": (".csv", '[{"uid":"q","F":1},{"uid":"q","F":0}]', None),
    "JSON Lines in a .csv": (".csv", '{"uid":"q","F":1}\n{"uid":"q","F":0}\n', None),
    "CSV in a .jsonl": (".jsonl", "uid,F\nq,1\nq,0\n", None),
    "a JSON list in a .jsonl": (".jsonl", '[{"uid":"q","F":1},{"uid":"q","F":0}]', None),
    "commas behind lines": (".jsonl", '{"uid":"q","F":1},\n{"uid":"q","F":0},\n', None),
    "half a line": (".jsonl", '{"uid":"q","F":1}\n{"uid":"q","F":0}\n{"uid":"q","F":', None),
    "Infinity": (".jsonl", '{"uid":"q","F":Infinity}\n{"uid":"q","F":0}\n', None),
    "single quotes": (".jsonl", "{'uid':'q','F':1}\n{'uid':'q','F':0}\n", None),
    "YAML": (".yaml", "- {uid: q, F: 1}\n", None),
    "an error page": (".csv", "<!DOCTYPE html><html><body>404</body></html>", None),
    "a pointer of Git LFS": (".parquet", "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12\n", None),
    "an empty group": (".jsonl", '{"uid":"q","F":1}\n{"uid":null,"F":0}\n', None),
    "no group": (".csv", "name,F\na,1\nb,0\n", None),
    "groups that come back": (".csv", "uid,F\na,1\nb,0\na,0\nb,1\n", None),
}
_CELLS = (
    *("0x1", "1_0", "1.0.0", "½", "１", "Ⅳ", "1,000", "∞", "-", "?", "tbd", "#DIV/0!", "x", "✓", "1/2", "1:2", "A+"),
    *("★★★", "[1]", "{1}", "−1", "1e999", "1 000", "5 stars", "very good", "9" * 30),
)
_RIGHT_CELLS = ("1e3", "+1", "1.", "  1 ", ".5", "TRUE")
_JSON_CELLS = ("[1]", '{"a":1}', '"1"', '""', "1e400", "[]", "{}", '"0.5 (high)"')
_ARRAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "fewer labels than rows": ([[1.0], [0.0], [1.0]], {"groups": ["a", "a"]}),
    "sizes of groups for labels": ([[1.0], [0.0], [1.0], [0.0]], {"groups": [2, 2]}),
    "one dimension": ([1.0, 0.0, 0.5], {}),
    "four dimensions": (np.zeros((2, 3, 4, 5)), {}),
    "ragged": ([[1.0, 0.0], [1.0]], {}),
    "empty": ([], {}),
    "an empty row": ([[]], {}),
    "a text": ("1,0", {}),
    "None": (None, {}),
    "lists by name": ({"F": [1.0, 0.0]}, {}),
    "objects": (np.array([[1, None], [0, "x"]], dtype=object), {}),
    "infinite": ([[np.inf], [0.0]], {}),
    "too few criteria": ([[1.0, 0.0], [0.0, 1.0]], {"criteria": ["A"]}),
    "a criterion twice": ([[1.0, 0.0], [0.0, 1.0]], {"criteria": ["A", "A"]}),
    "criteria as a text": ([[1.0, 0.0], [0.0, 1.0]], {"criteria": "AB"}),
    "too few weights": ([[1.0, 0.0], [0.0, 1.0]], {"weights": [1.0]}),
    "a weight of nothing": ([[1.0, 0.0], [0.0, 1.0]], {"criteria": ["A", "B"], "weights": {"C": 2}}),
    "a negative weight": ([[1.0, 0.0], [0.0, 1.0]], {"weights": [1.0, -1.0]}),
    "weights as texts": ([[1.0, 0.0], [0.0, 1.0]], {"weights": ["1", "2"]}),
    "weights true and false": ([[1.0, 0.0], [0.0, 1.0]], {"weights": [True, False]}),
    "weights of 0": ([[1.0, 0.0], [0.0, 1.0]], {"weights": [0.0, 0.0]}),
}
_OPTIONS: list[dict[str, Any]] = [
    *({"weight": {"Fcats": 2}}, {"margin": {"Fcats": 0.1}}, {"lower": ["Fcats"]}, {"global_quality": ["Fcats"]}),
    *({"low_quality": ["Fcats"]}, {"domain": {"Fcats": "0:1"}}, {"attributes": ["Fcats"]}, {"weight": [1, 2]}),
    *({"margin": 0.1}, {"lower": {"F": True}}, {"domain": {"F": "5:1"}}, {"domain": {"F": "0-1"}}, {"gate": "yes"}),
    *({"domain": {"F": "0:1:2"}}, {"domain": {"F": "a:b"}}, {"domain": {"F": [0]}}, {"domain": {"F": "0:nan"}}),
    *({"prior": "high"}, {"tau": ""}, {"seed": 1.5}, {"rule": ""}, {"rule": 7}, {"pool": "all"}, {"outcomes": "Soft"}),
    *({"scale": True}, {"attributes": ""}, {"penalties": "yes"}, {"edition": 2}, {"domain": {"F": "0:0.5"}}),
    *({"global_quality": ["G"], "low_quality": ["G"]}, {"prior": True}, {"margin": {"F": True}}),
    *({"weight": ["F=2", "F=3"]}, {"global_quality": ["G"], "low_quality": ["F"]}),
]
_COUNT = {"name": "WordCount", "params": {"low": 1}}
_CRITERIA: dict[str, Any] = {
    "no weight": {**_COUNT, "weight": None},
    "a list of weights": {**_COUNT, "weight": [1]},
    "a negative margin": {**_COUNT, "margin": -1},
    "an unknown layer": {**_COUNT, "layer": "global"},
    "an unknown direction": {**_COUNT, "direction": "up"},
    "depends on nothing": {**_COUNT, "depends": ["Nope"]},
    "depends on itself": {**_COUNT, "depends": ["WordCount"]},
    "parameters as a list": {"name": "WordCount", "params": [2]},
    "parameters as a text": {"name": "WordCount", "params": "low=2"},
    "an empty range": {"name": "WordCount", "params": {"low": 5, "high": 2}},
    "a negative count": {"name": "WordCount", "params": {"low": -2}},
    "half a count": {"name": "WordCount", "params": {"low": 2.5}},
    "true for a count": {"name": "WordCount", "params": {"low": True}},
    "no parameters": {"name": "WordCount"},
    "a misspelt relation": {"name": "WordCount", "params": {"relation": "atleast", "count": 2}},
    "a text for keywords": {"name": "Keyword", "params": {"keywords": "abc"}},
    "no keywords": {"name": "Keyword", "params": {"keywords": []}},
    "a blank keyword": {"name": "Keyword", "params": {"keywords": [" "]}},
    "a need for more than there are": {"name": "Keyword", "params": {"keywords": ["a"], "need": 3}},
    "a need of true": {"name": "Keyword", "params": {"keywords": ["a"], "need": True}},
    "an empty question": {"name": "X", "question": ""},
    "a question for a program": {"name": "X", "question": "Is it?", "verifier": "WordCount", "params": {"low": 1}},
    "an unknown verifier": {"name": "X", "verifier": "WordCont"},
    "a scale as a text": {"name": "X", "question": "Is it?", "domain": "1-5"},
    "a margin as wide as the scale": {"name": "X", "question": "Q?", "domain": [1, 5], "margin": 10},
    "a number for a name": {"name": 5},
    "a list for a name": {"name": ["a"]},
    "no points": {"name": "X", "question": "Q?", "points": 0},
    "points that are no number": {"name": "X", "question": "Q?", "points": float("nan")},
    "a broken pattern": {"name": "Regex", "params": {"pattern": "("}},
    "a list in the list": [{"name": "WordCount"}],
}
_RUBRIC_FILES = {
    "empty": "",
    "a comment": "# x\n",
    "numbers": "[1,2]",
    "no criteria": "criteria:\n",
    "a text for criteria": "criteria: polite\n",
    "parameters for criteria": "criteria:\n  WordCount:\n    low: 2\n",
    "tabs": "criteria:\n\t- name: WordCount\n",
    "a key twice": "criteria:\n- name: A\n  name: B\n  question: Q?\n",
    "an unknown key": "criteria: [{name: A, question: 'Q?'}]\nweigths: 3\n",
    "references to itself": "a: &a [1,1]\nb: &b [*a,*a]\ncriteria: *b\n",
    "a colon in a text": "criteria:\n- name: A\n  question: Is it: good?\n",
    "a tag of Python": "criteria: !!python/object/apply:os.system ['true']\n",
    "two documents": "criteria: [{name: A, question: 'Q?'}]\n---\ncriteria: []\n",
}
_ROWS: dict[str, Any] = {
    "empty": {},
    "only a prompt": {"prompt": "p"},
    "an object without a text": {"prompt": "p", "response": {"x": 1}},
    "responses by name": {"prompt": "p", "responses": {"a": "x"}},
    "a number among responses": {"prompt": "p", "responses": ["a", 5]},
    "a number for a prompt": {"prompt": 5, "response": "a"},
    "texts for a prompt": {"prompt": ["a", "b"], "response": "a"},
    "an unknown role": {"prompt": [{"role": "usr", "content": "x"}], "response": "a"},
    "a number for a reason": {"prompt": "p", "response": "a", "finish_reason": 3},
    "a text for calls": {"prompt": "p", "response": "a", "tool_calls": "x"},
    "a text for counts": {"prompt": "p", "response": "a", "token_counts": "many"},
    "a number for a rubric": {"prompt": "p", "response": "a", "rubric": 3},
    "bytes": {"prompt": "p", "response": b"a"},
    "an unknown speaker": {"conversations": [{"from": "alien", "value": "x"}]},
    "half a preference": {"prompt": "p", "chosen": "a"},
    "NaN for a response": {"prompt": "p", "response": float("nan")},
    "NaN for a prompt": {"prompt": float("nan"), "response": "a"},
    "a list for reasoning": {"prompt": "p", "response": "a", "reasoning": ["x"]},
    "no turn but the system's": {"messages": [{"role": "system", "content": "s"}]},
    "no answer": {"messages": [{"role": "user", "content": "s"}]},
    "messages as Python text": {"prompt": "p", "response": "[{'role': 'assistant', 'content': 'y'}]"},
    "a prompt as Python text": {"prompt": "[{'role': 'user', 'content': 'y'}]", "response": "a"},
}


def second_set(folder: Path) -> Iterator[Case]:
    for number, (name, (suffix, text, right)) in enumerate(_TABLES_AS_WRITTEN.items()):
        path = write(folder / f"written{number}{suffix}", text)
        yield "a file in another form", name, lambda path=path: rewards(path, criteria="all"), right
    for number, cell in enumerate((*_CELLS, *_RIGHT_CELLS)):
        path = write(folder / f"cell{number}.csv", f'uid,F\nq,"{cell}"\nq,0\nq,0.25\n')
        right = [1.0, 0.0, 0.5] if cell in _RIGHT_CELLS else None
        yield "a cell of another form", cell, lambda path=path: rewards(path, criteria="all"), right
    for number, cell in enumerate(_JSON_CELLS):
        path = write(folder / f"cell{number}.jsonl", f'{{"uid":"q","scores":{{"F":{cell}}}}}\n{{"uid":"q","F":0}}\n')
        yield "a cell of another form", cell, lambda path=path: rewards(path), None
    for name, (scores, keywords) in _ARRAYS.items():
        yield "arrays", name, lambda scores=scores, keywords=keywords: rubrank.fuse(scores, **keywords), None
    table = write(folder / "options.csv", "uid,F,G\nq,1,1\nq,0,1\n")
    for values in _OPTIONS:
        call = lambda values=values: rewards(table, criteria="all", options=rubrank.FuseOptions(**values))  # noqa: E731
        yield "options", str(values), call, None
    for name, criterion in _CRITERIA.items():
        yield "a criterion", name, lambda criterion=criterion: rubrank.load_rubric([criterion]), None
    for number, (name, text) in enumerate(_RUBRIC_FILES.items()):
        path = write(folder / f"rubric{number}.yaml", text)
        yield "a file of criteria", name, lambda path=path: rubrank.load_rubric(path), None
    for name, row in _ROWS.items():
        yield "a row of rollouts", name, lambda row=row: rubrank.grade([row], [_COUNT], workers=0), None
    for name in ("a" * 5000, "b/" * 3000 + "c.csv"):
        yield "a long name", name[:5], lambda name=name: rewards(name), None


def judge_case(case: Case) -> str:
    """Whether a case is refused, right, or silently wrong."""
    _, _, call, right = case
    try:
        result = call()
    except RubrankError as error:
        return "refused" if "\n" not in str(error) else "silently wrong"
    except Exception:  # a traceback, which says nothing to a user
        return "silently wrong"
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
        for case in (*tables(folder), *rollouts(folder), *options(), *second_set(folder)):
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
