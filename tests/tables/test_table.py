"""Tables in files: the same rewards from every format, whatever the chunks, and every mistake found in time."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from cases import thinned
from few_columns import allow_few_columns
from whole_tables import explain_file, fuse_file

import rubrank
from rubrank import InvalidInput, ScoreBatch, UnknownName
from rubrank.errors import BadTable
from rubrank.fusion import files
from rubrank.fusion.options import make_fuse_rule
from rubrank.options import FuseOptions
from rubrank.tables.columns import Columns
from rubrank.tables.layout import find_layout
from rubrank.tables.output import write_table
from rubrank.tables.table import read_table

LONGFORM = Path(__file__).parents[3] / "shared" / "data" / "longform_writing" / "scores.jsonl.gz"
NAMES = ["Facts", "Style", "Clean"]
FORMATS = ["jsonl", "jsonl.gz", "csv", "csv.gz", "parquet"]


def scores(groups: int = 60, seed: int = 0) -> pl.DataFrame:
    """Groups of 1 to 6 rollouts, a yes/no, a grade and a metric, some of them missing."""
    r = np.random.default_rng(seed)
    sizes = r.integers(1, 7, groups)
    n = int(sizes.sum())
    return pl.DataFrame(
        {
            "note": [f'text "{i}",\nwith é' if i % 7 == 0 else f"t{i}" for i in range(n)],
            "uid": np.repeat([f"q{g}" for g in range(groups)], sizes),
            "step": np.repeat(np.arange(groups) // 10, sizes),
            "Facts": pl.Series([None if x < 0.1 else bool(x < 0.5) for x in r.random(n)], dtype=pl.Boolean),
            "Style": pl.Series([None if x == 0 else int(x) for x in r.integers(0, 6, n)], dtype=pl.Int64),
            "Clean": r.random(n).round(3),
            "tokens": r.integers(1, 900, n),
        }
    )


def save(frame: pl.DataFrame, path: Path) -> Path:
    buffer = io.BytesIO()
    if ".parquet" in path.name:
        frame.write_parquet(buffer)
    elif ".csv" in path.name:
        frame.write_csv(buffer)
    else:
        frame.write_ndjson(buffer)
    data = buffer.getvalue()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def load(path: Path) -> pl.DataFrame:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    readers: dict[str, Callable[..., Any]] = {"parquet": pl.read_parquet, "csv": pl.read_csv}
    kind = "parquet" if ".parquet" in path.name else "csv" if ".csv" in path.name else "jsonl"
    return pl.read_ndjson(data, infer_schema_length=None) if kind == "jsonl" else readers[kind](data)


def write(tmp_path: Path, text: str, name: str = "t.jsonl") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def expected(frame: pl.DataFrame, options: FuseOptions, **more: Any) -> np.ndarray:
    if more:
        options = options.with_attributes(["tokens"])
        more["attribute_names"] = ["tokens"]
    values = frame.select(pl.col(NAMES).cast(pl.Float64)).to_numpy()
    given = {"criteria": NAMES, "weights": options.weight or None, **more}
    return make_fuse_rule(options)(ScoreBatch.of_arrays(values, groups=frame["uid"].to_list(), **given)).reward


@pytest.mark.parametrize(
    ("source", "out"),
    [
        pytest.param(source, out, marks=() if (i + j) % len(FORMATS) == 0 else pytest.mark.slow)
        for i, source in enumerate(FORMATS)
        for j, out in enumerate(FORMATS)
    ],
)
def test_every_format_to_every_other(tmp_path: Path, source: str, out: str) -> None:
    frame = scores()
    path, target = save(frame, tmp_path / f"in.{source}"), tmp_path / f"out.{out}"
    summary = fuse_file(path, target, FuseOptions(weight={"Facts": 2}))
    result = load(target)
    assert result.columns == [*frame.columns, "reward", "no_signal"]
    assert result.select(frame.columns).equals(frame)
    assert result["reward"].to_numpy().tolist() == expected(frame, FuseOptions(weight={"Facts": 2})).tolist()
    assert (summary.rollouts, summary.groups) == (len(frame), 60)
    assert summary.criteria == tuple(NAMES)
    assert summary.left_out == ("note", "step", "tokens")
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, target.name])


@pytest.mark.parametrize("source", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("columns", [Columns(attributes=["tokens"]), Columns(attributes=["tokens"], batch="step")])
def test_pooled_over_a_batch(tmp_path: Path, source: str, columns: Columns) -> None:
    frame = scores()
    rule = FuseOptions(adjust="attenuate:0.5", pool="batch")
    fuse_file(save(frame, tmp_path / f"in.{source}"), tmp_path / "out.parquet", rule, columns=columns)
    steps = [frame] if columns.batch is None else frame.partition_by("step", maintain_order=True)
    if columns.batch:
        steps = [s.with_columns(uid=pl.format("{}/{}", "step", "uid")) for s in steps]
    rewards = [expected(s, rule, attributes=s["tokens"].to_numpy()[:, None]) for s in steps]
    assert load(tmp_path / "out.parquet")["reward"].to_list() == np.concatenate(rewards).tolist()


@pytest.mark.parametrize("pool", ["group", "batch"])
@pytest.mark.parametrize("source", thinned(["jsonl", "csv", "parquet"]))
def test_any_order(tmp_path: Path, source: str, pool: Any) -> None:
    frame = scores().sample(fraction=1.0, shuffle=True, seed=1)
    path = save(frame, tmp_path / f"in.{source}")
    with pytest.raises(BadTable, match=r"group .* begins at (row|line) \d+ and comes back at .* `any_order=true`"):
        fuse_file(path)
    columns = Columns(attributes=["tokens"], batch="step")
    fuse_file(path, tmp_path / "out.csv", FuseOptions(pool=pool), columns=columns, any_order=True, utilities=True)
    in_order = save(frame.sort("step", "uid"), tmp_path / "sorted.csv")
    fuse_file(in_order, tmp_path / "sorted_out.csv", FuseOptions(pool=pool), columns=columns, utilities=True)
    result = load(tmp_path / "out.csv")
    assert result["tokens"].equals(frame["tokens"])
    keys = ["step", "uid", "note"]
    one, other = result.sort(keys), load(tmp_path / "sorted_out.csv").sort(keys)
    assert np.allclose(one["reward"], other["reward"], atol=1e-9)


def test_a_batch_that_comes_back(tmp_path: Path) -> None:
    path = write(tmp_path, "uid,step,a\nx,1,1\ny,2,1\nz,1,1\n", "t.csv")
    with pytest.raises(BadTable, match=r"batch 1 .* begins at row 1 and comes back at row 3"):
        fuse_file(path, options=FuseOptions(rule="gdpo"), columns=Columns(batch="step"))
    assert fuse_file(path, columns=Columns(batch="step")).groups == 3  # groups alone stand together


def test_lines_keep_their_spelling(tmp_path: Path) -> None:
    text = [f'{{ "uid":{g // 2},  "scores" : {{"é": 1.0, "B":{g}}}, "x": [1,{{"y":null}}] }}' for g in range(40)]
    path = write(tmp_path, "\ufeff" + "\r\n".join(text) + "\r\n\r\n")
    fuse_file(path, tmp_path / "out.jsonl")
    out = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [line.split(', "reward":')[0].rstrip() for line in out] == [line[:-1].rstrip() for line in text]
    assert [json.loads(line)["reward"] for line in out] == [0.0, 1.0] * 20


def test_a_line_without_new_values_stays_as_it_is() -> None:
    """It used to end in a comma: {"a": 1, }."""
    table = read_table([{"a": 1}, {"a": 2}])
    added = [(np.array([1, 0]), pl.DataFrame({"reward": [0.5, None]}))]
    target = io.BytesIO()
    write_table(target, table, added)
    assert target.getvalue() == b'{"a": 1}\n{"a": 2, "reward": 0.5}\n'


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "uid": pl.Series([1, 1, 2], dtype=pl.UInt32),
            "kind": pl.Series(["a", "b", "a"], dtype=pl.Categorical),
            "when": pl.Series(["2024-01-01"] * 3).str.to_date(),
            "parts": [[1, 2], [], None],
            "scores": [{"A": 1.5, "B": True}, {"A": float("nan"), "B": False}, None],
        }
    )
    fuse_file(save(frame, tmp_path / "in.parquet"), tmp_path / "out.parquet", utilities=True)
    result = pl.read_parquet(tmp_path / "out.parquet")
    assert result.select(frame.columns).equals(frame)
    assert result.schema == {**frame.schema, "reward": pl.Float64, "no_signal": pl.Boolean} | {
        "utility.A": pl.Float64,
        "utility.B": pl.Float64,
    }
    assert result["utility.A"].is_null().to_list() == [False, True, True]


def test_csv_keeps_its_texts_and_types_elsewhere(tmp_path: Path) -> None:
    text = "uid,code,a,b,flag,none\n1,007,1.50,NA,true,\n1,010,1e2,2,False,\n"
    path = write(tmp_path, text, "t.csv")
    fuse_file(path, tmp_path / "out.csv", columns=Columns(criteria=["a", "b"]))
    assert [line.rsplit(",", 2)[0] for line in (tmp_path / "out.csv").read_text().splitlines()] == text.splitlines()
    fuse_file(path, tmp_path / "out.jsonl", columns=Columns(criteria=["a", "b"]))
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    wanted = {"uid": 1, "code": "007", "a": 1.5, "b": None, "flag": True, "none": None, "reward": 0.0}
    assert first == {**wanted, "no_signal": False}


def test_nested_becomes_json_in_csv(tmp_path: Path) -> None:
    path = write(tmp_path, lines({"uid": 1, "scores": {"A": 1}, "x": [1, 2]}, {"uid": 1, "scores": {"B": 2}}))
    fuse_file(path, tmp_path / "out.csv")
    result = load(tmp_path / "out.csv")
    assert [json.loads(text) for text in result["scores"]] == [{"A": 1, "B": None}, {"A": None, "B": 2}]
    assert result["x"].to_list() == ["[1,2]", None]


@pytest.mark.parametrize("out", ["out.jsonl", "out.parquet"])
def test_ragged_rubrics_and_mixed_types(tmp_path: Path, out: str) -> None:
    rows = [
        {"uid": g, "scores": {f"c{(g + j) % 5}": value for j in range(2)}, "extra": "x" if g == 7 else g}
        for g in range(20)
        for value in (True, 0.5, float("nan"), None, 0)
    ]
    fuse_file(write(tmp_path, lines(*rows)), tmp_path / out, utilities=True)
    result = load(tmp_path / out) if out.endswith("parquet") else pl.DataFrame(read_lines(tmp_path / out), strict=False)
    assert result["reward"].to_list() == [1.0, 0.5, 0.5, 0.5, 0.0] * 20
    assert result["utility.c0"].is_not_null().sum() == 3 * 8


@pytest.mark.parametrize("most", [1, 256])
def test_nan_is_not_a_score_however_many_criteria_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    allow_few_columns(monkeypatch, most)
    row = {"uid": "q", "scores": {"A": 1.0, "B": float("nan"), "C": None}}
    layout = find_layout(read_table(write(tmp_path, lines(row))), Columns())
    assert layout.find_scored_names(np.array([0])) == ["A"]


def test_labels_of_every_kind_are_the_librarys(tmp_path: Path) -> None:
    """Draws depend on the type of a label: the numbers of a CSV are numbers, like those of JSON."""
    frame = scores().with_columns(uid=pl.col("uid").str.slice(1).cast(pl.Int64))
    rule, columns = FuseOptions(adjust="attenuate:0.5"), Columns(attributes=["tokens"])
    wanted = expected(frame, rule, attributes=frame["tokens"].to_numpy()[:, None]).tolist()
    for name in ("in.csv", "in.jsonl", "in.parquet"):
        fuse_file(save(frame, tmp_path / name), tmp_path / "out.parquet", rule, columns=columns, force=True)
        assert load(tmp_path / "out.parquet")["reward"].to_list() == wanted


def test_several_columns_name_a_group(tmp_path: Path) -> None:
    path = write(tmp_path, "p,i,a\n1,1,0\n1,1,1\n1,2,0\n2,1,1\n", "t.csv")
    columns = Columns(group=["p", "i"])
    assert fuse_file(path, columns=columns).groups == 3
    assert explain_file(path, "1/1", columns=columns).reward.tolist() == [0.0, 1.0]


def test_parts_of_a_name_do_not_run_together(tmp_path: Path) -> None:
    pairs = [("a/b", "c"), ("a", "b/c"), ("a\\", "b/c"), ("a\\/b", "c"), ("a", "\\/b/c"), ("a\\/", "b")]
    rows = [{"p": p, "i": i, "s": 4 * k + j} for k, (p, i) in enumerate(pairs) for j in range(k + 1)]
    path = write(tmp_path, lines(*rows))
    for columns in (Columns(group=["p", "i"]), Columns(group=["i"], batch="p")):
        summary = fuse_file(path, columns=columns)
        assert [len(group.reward) for group in summary.first] == [1, 2, 3, 4, 5, 6]
        labels = ["a\\/b/c", "a/b/c", "a\\\\/b/c"]
        assert [group.label for group in summary.first[:3]] == labels
        assert [len(explain_file(path, label, columns=columns).reward) for label in labels] == [1, 2, 3]
    assert fuse_file(path, columns=Columns(group=["i"]), any_order=True).first[1].label == "b/c"  # alone as it is


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blank_lines_of_csv_are_counted(tmp_path: Path, end: str) -> None:
    rows = ["uid,a,b", "", '1,"x\n,""y",', ",,", "", "2,1,0", "", "", ""]
    path = tmp_path / "t.csv"
    path.write_bytes(end.join(rows).encode())
    assert fuse_file(path, columns=Columns(criteria=["b"])).rollouts == 2
    path.write_bytes(end.join([*rows, "2,1", ""]).encode())
    with pytest.raises(BadTable, match=r"row 9 must be of 3 cells, as the header; got 2\."):
        fuse_file(path, columns=Columns(criteria=["b"]))


def test_mistakes_among_very_many_criteria(tmp_path: Path) -> None:
    rows = [{"uid": g, "scores": {f"{g}.{j}": 1 for j in range(3)}} for g in range(100)]
    for cell, found in ((2**53 + 1, "9007199254740993"), ("x", "'x'"), (float("inf"), "inf")):
        rows[50]["scores"] = {"50.0": cell}
        with pytest.raises(BadTable, match=rf"line 52, column 'scores\.50\.0' .* got {found}"):
            fuse_file(write(tmp_path, "\n" + lines(*rows)))
    rows[50]["scores"] = {"50.0": float("nan")}
    assert fuse_file(write(tmp_path, lines(*rows)), options=FuseOptions(low_quality=["50.0"])).groups == 100


def test_too_many_criteria_for_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"uid": g, "scores": {"all": i, **{f"{g}.{j}": (i * j + g) % 3 for j in range(3)}}, "attributes": {"n": i}}
        for g in range(30)
        for i in range(4)
    ]
    rows[5]["scores"] = None
    rows += [{"uid": "none", "scores": {}, "attributes": {"n": 1}}] * 2
    path = write(tmp_path, lines(*rows))
    rule, columns = FuseOptions(weight={"all": 2, "3.1": 4}, global_quality=["7.0"]), Columns(attributes=["n"])
    fuse_file(path, tmp_path / "narrow.jsonl", rule, columns=columns, utilities=True)
    allow_few_columns(monkeypatch, 4)
    summary = fuse_file(path, tmp_path / "wide.jsonl", rule, columns=columns, utilities=True)
    assert (summary.groups, len(summary.criteria)) == (31, 90)
    for one, other in zip(*(read_lines(tmp_path / f"{name}.jsonl") for name in ("narrow", "wide")), strict=True):
        assert one.keys() == other.keys()
        assert all(one[key] == pytest.approx(other[key], abs=1e-9) for key in one if key not in rows[0])
    with pytest.raises(InvalidInput, match="JSON lines"):
        fuse_file(path, tmp_path / "wide.csv", rule)
    with pytest.raises(InvalidInput, match="JSON lines"):
        fuse_file(path, tmp_path / "wide.csv", columns=Columns(criteria=["all"]))
    fuse_file(path, tmp_path / "some.jsonl", columns=Columns(criteria=["all"]))
    assert len(explain_file(path, "3", rule).criteria) == 4


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_default_columns(tmp_path: Path) -> None:
    text = "prompt_id,id,Step,reward,tokens,A,name,utility.A\n1,1,1,1,1,1,x,1\n1,2,2,2,2,0,y,0\n"
    summary = fuse_file(write(tmp_path, text, "t.csv"))
    assert summary.criteria == ("A",)
    assert summary.left_out == ("id", "Step", "reward", "tokens", "name", "utility.A")


def test_added_names_must_be_new(tmp_path: Path) -> None:
    path = write(tmp_path, "uid,a,reward\n1,1,0.3\n1,0,0.2\n", "t.csv")
    with pytest.raises(InvalidInput, match="'reward' again"):
        fuse_file(path, tmp_path / "out.csv")
    fuse_file(path, tmp_path / "out.csv", prefix="new_")
    assert load(tmp_path / "out.csv").columns == ["uid", "a", "reward", "new_reward", "new_no_signal"]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("t.csv", "", "an empty file"),
        ("t.csv", "uid,a\n", "at least one row"),
        ("t.jsonl", "\n\n", "at least one row"),
        ("t.txt", "x", "a file that ends in"),
        ("t.json", "[]", "at least one row"),
        ("t.parquet", "uid,a\n", "a Parquet file"),
        ("t.csv.gz", "uid,a\n", "readable to its end"),
        ("t.csv", "q,a\n1,2\n", "`group_column="),
        ("t.csv", "uid,name\n1,x\n", "`criteria="),
        ("t.csv", "uid,a,a\n1,2,3\n", "'a' twice"),
        ("t.csv", "uid,a,\n1,2,3\n", "an empty one"),
        ("t.csv", "uid,a\n1,2\n1,2,3\n", "row 2 must be of 2 cells"),
        ("t.csv", "uid,a,b\n1,2,3\n1,2,\n\n1,2\n", "row 4 must be of 3 cells, as the header; got 2"),
        ("t.csv", "uid,a,b\n1,2\n1,2,3\n", "row 1 must be of 3 cells, as the header; got 2"),
        ("t.csv", 'uid,a,b\n1,2,3\n1,"2,\n3"\n', "row 2 must be of 3 cells, as the header; got 2"),
        ("t.csv", "uid,a\n1,2\n,2\n", "row 2, column 'uid' .* nothing"),
        ("t.csv", "uid,a\n1,2\n1,yes\n1,no\n", "column 'a'|at least one column"),
        ("t.csv", "uid,a\n1,2\n1,3\n1,no\n", "row 3, column 'a' .* got 'no'"),
        ("t.csv", "uid,a\n1,2\n1,inf\n", "row 2, column 'a' .* got 'inf'"),
        ("t.jsonl", '{"uid": 1, "a": 1}\n{"uid": 1, "a": 2', "line 2 must be one JSON object"),
        ("t.jsonl", '{"uid": 1, "a": 1}\n[1]\n', "line 2 must be one JSON object"),
        ("t.jsonl", '\n{"uid": 1, "a": 1}\n\n{"uid": 1, "a": 1e999}\n', "line 4, column 'a' .* inf"),
        ("t.jsonl", '{"uid": 1, "a": 1}\n{"uid": 1, "a": -Infinity}\n', "line 2, column 'a' .* -inf"),
        ("t.jsonl", '{"uid": 1, "a": 1}\n{"uid": 1, "a": "x"}\n', "line 2, column 'a' .* 'x'"),
        (
            "t.jsonl",
            '{"uid": 1, "scores": {"a": 1}}\n{"uid": 1, "scores": {"a": "1"}}\n',
            "line 2, column 'scores.a' .* '1'",
        ),
        ("t.jsonl", '{"uid": 1, "scores": {"a": 9007199254740993}}\n', "line 1, column 'scores.a' .* 9007"),
        ("t.jsonl", '{"uid": 1, "a": 1}\n{"a": 1}\n', "line 2, column 'uid' .* nothing"),
        ("t.jsonl", '{"uid": [1], "a": 1}\n', "line 1, column 'uid'"),
    ],
)
def test_mistakes(tmp_path: Path, name: str, text: str, found: str) -> None:
    path = write(tmp_path, text, name)
    with pytest.raises(BadTable, match=found):
        fuse_file(path, tmp_path / "out.jsonl")
    assert os.listdir(tmp_path) == [name]


def test_mistakes_beyond_text(tmp_path: Path) -> None:
    with pytest.raises(BadTable, match="no such file"):
        fuse_file(tmp_path / "none.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(BadTable, match="got none"):
        fuse_file(tmp_path / "d.csv")
    bad = tmp_path / "t.jsonl"
    bad.write_bytes(b'{"uid": 1, "a": 1}\n{"uid": "\xff", "a": 1}\n')
    with pytest.raises(BadTable, match="must be UTF-8"):
        fuse_file(bad)
    packed = tmp_path / "cut.jsonl.gz"
    packed.write_bytes(gzip.compress(lines({"uid": 1, "a": 1}).encode() * 100)[:-20])
    with pytest.raises(BadTable, match="readable to its end"):
        fuse_file(packed)


@pytest.mark.parametrize("cell", [None, -1, "many"])
@pytest.mark.parametrize("at", [0, 29])
def test_attributes_are_measured_everywhere(tmp_path: Path, cell: object, at: int) -> None:
    rows = [{"uid": i // 2, "scores": {"a": i}, "attributes": {"tokens": i}} for i in range(30)]
    rows[at]["attributes"] = {"tokens": cell} if cell else {}
    with pytest.raises(BadTable, match=rf"line {at + 1}, column 'attributes\.tokens' must be a finite number"):
        fuse_file(write(tmp_path, lines(*rows)), columns=Columns(attributes=["tokens"]))


def test_an_error_leaves_the_old_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(scores(), tmp_path / "in.csv")
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        target = write(tmp_path, "precious", name)
        with monkeypatch.context() as patch:
            patch.setattr(files, "write_table", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                fuse_file(path, target, force=True)
        assert target.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "out.csv", "out.jsonl", "out.parquet"]


def test_a_link_to_the_input_is_the_input(tmp_path: Path) -> None:
    path = save(scores(), tmp_path / "in.csv")
    (tmp_path / "link.csv").symlink_to(path)
    with pytest.raises(InvalidInput, match="another file than the input"):
        fuse_file(path, tmp_path / "link.csv", force=True)


def test_options_are_checked_before_any_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(scores(), tmp_path / "in.csv")
    monkeypatch.setattr(files, "apply_rule", lambda *_: pytest.fail("fitted"))
    with pytest.raises(UnknownName, match=r"weight must be .* Did you mean 'Facts'"):
        fuse_file(path, options=FuseOptions(weight={"Fact": 1}))
    with pytest.raises(InvalidInput, match=r"weight\.Facts must be > 0; got -1"):
        fuse_file(path, options=FuseOptions(weight={"Facts": -1}))
    with pytest.raises(InvalidInput, match="adjust"):
        fuse_file(path, options=FuseOptions(adjust=["remove", "remove"]), columns=Columns(attributes=["tokens"]))


def test_explain_is_the_group_of_the_whole(tmp_path: Path) -> None:
    frame = scores()
    path = save(frame, tmp_path / "in.parquet")
    for rule in (FuseOptions(), FuseOptions(pool="batch")):
        columns = Columns(attributes=["tokens"], batch="step")
        fuse_file(path, tmp_path / "out.parquet", rule, columns=columns, force=True)
        rewards = load(tmp_path / "out.parquet").filter(uid="q17")["reward"]
        group = explain_file(path, "1/q17", rule, columns=columns)
        assert group.reward.tolist() == pytest.approx(rewards.to_list(), abs=1e-9)
    with pytest.raises(UnknownName, match=r"one of its 60 groups, such as 'q0'.*Did you mean"):
        explain_file(path, "q-17")


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    for name in ("in.csv", "in.jsonl.gz", "in.parquet"):
        seen: list[tuple[str, float]] = []
        fuse_file(save(scores(), tmp_path / name), progress=lambda doing, share: seen.append((doing, share)))  # noqa: B023
        assert [doing for doing, _ in seen] == ["reading", "fusing"]
        assert all(0.99 <= share <= 1.0 for _, share in seen)


@pytest.mark.skipif(not LONGFORM.exists(), reason=f"needs {LONGFORM}")
def test_judged_stories(tmp_path: Path) -> None:
    columns = Columns(group=["prompt_id", "iteration", "part"])
    negative = ["Weak Dialogue", "Tell-Don't-Show", "Unsurprising or Uncreative", "Amateurish", "Purple Prose"]
    rule = FuseOptions(lower=[*negative, "Forced Poetry or Metaphor"])
    summary = fuse_file(LONGFORM, tmp_path / "out.jsonl.gz", rule, columns=columns, any_order=True)
    assert (summary.rollouts, summary.groups, len(summary.criteria)) == (6209, 108, 18)
    result = load(tmp_path / "out.jsonl.gz")
    one = result.filter(prompt_id=2, iteration=1, part="3")
    names = [f.name for f in one.schema["scores"].fields]  # type: ignore[attr-defined]
    values = one["scores"].struct.unnest().to_numpy()
    directions = ["lower" if name in rule.lower else "higher" for name in names]
    assert np.allclose(one["reward"], rubrank.fuse(values, directions=directions), atol=1e-9)  # type: ignore[arg-type]


def test_scores_come_in_the_order_of_the_rows_that_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("group,Facts\na,0.1\na,0.2\nb,0.3\n", encoding="utf-8")
    columns = Columns(criteria=("Facts",))
    layout = find_layout(read_table(path, columns), columns)
    assert layout.select_scores(np.array([2, 0, 1]), ["Facts"]).ravel().tolist() == [0.3, 0.1, 0.2]
    assert layout.select_scores(np.arange(3), ["Facts"]).ravel().tolist() == [0.1, 0.2, 0.3]


def test_a_pipe_gets_json_lines(tmp_path: Path) -> None:
    """/dev/stdout of a shell pipe: it was refused, because its folder in /proc has no room left."""
    read_end, write_end = os.pipe()
    fuse_file(save(scores(), tmp_path / "in.csv"), f"/dev/fd/{write_end}")
    os.close(write_end)
    with open(read_end, encoding="utf-8") as pipe:
        assert all("reward" in json.loads(line) for line in pipe)
