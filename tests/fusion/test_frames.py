"""Frames and tensors as scores; results as frames, in a notebook and printed."""

from __future__ import annotations

import sys

import numpy as np
import polars as pl
import pytest

import rubrank

SCORES = [[1.0, 0.5, 7.0], [1.0, 1.0, 8.0], [0.0, 1.0, 9.0], [1.0, 0.0, 4.0]]
NAMES = ["Keyword", "Facts", "<b>Clarity</b>"]
HOLES = [[1.0, None, 7.0], [1.0, 1.0, None], [0.0, 1.0, 9.0], [1.0, 0.0, 4.0]]
AS_NAN = np.array([[np.nan if x is None else x for x in row] for row in HOLES])


def fused(scores, **more):
    return rubrank.RLVR2()(rubrank.ScoreBatch.of_arrays(scores, **more))


def test_columns_of_a_polars_frame_are_criteria():
    frame = pl.DataFrame(SCORES, schema=NAMES, orient="row")
    result = fused(frame, criteria="all", weights={"Facts": 2})
    assert result.criteria == tuple(NAMES)
    assert (result.reward == fused(SCORES, weights=[1, 2, 1]).reward).all()
    assert (rubrank.fuse(frame, criteria="all") == rubrank.fuse(SCORES)).all()
    holes = pl.DataFrame(HOLES, schema=NAMES, orient="row")
    assert (rubrank.fuse(holes, criteria="all") == rubrank.fuse(AS_NAN)).all()


def as_pandas(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


@pytest.mark.parametrize("make_frame", [pl.DataFrame, as_pandas])
def test_a_frame_says_by_name_what_is_what(make_frame):
    facts, style, tokens = [1.0, 0.0, 1.0, 0.0], [0.3, 0.4, 0.9, 0.8], [5, 6, 7, 9]
    columns = {"prompt_id": ["b", "b", "a", "a"], "temperature": [0.1, 0.2, 0.3, 0.4], "tokens": tokens}
    frame = make_frame({**columns, "Facts": facts, "Style": style})
    scores = np.column_stack([style, facts])
    names = {"groups": "prompt_id", "criteria": ["Style", "Facts"]}
    expected = rubrank.fuse(scores, groups=["b", "b", "a", "a"], criteria=["Style", "Facts"], rule="gdpo")
    assert rubrank.fuse(frame, **names, rule="gdpo").tolist() == expected.tolist()
    result = fused(frame, **names, attributes=["tokens"])
    assert result.batch.attribute_names == ("tokens",)
    assert result.batch.attributes_MD.ravel().tolist() == tokens
    for wrong, message in [
        ({"groups": "prompt_id"}, r"criteria must be named.*'temperature'.*criteria=\['temperature', 'tokens'"),
        ({"groups": "prompt_id", "criteria": "all"}, "criteria must be named.* got 'all', with a column 'tokens'"),
        ({"criteria": ["Facts"]}, "groups must be given; got a frame with a column 'prompt_id'"),
        ({"groups": "prompt", "criteria": ["Facts"]}, "groups must be one of .* Did you mean 'prompt_id'"),
        ({"groups": "prompt_id", "criteria": ["Fact"]}, "criteria must be one of .* Did you mean 'Facts'"),
        ({**names, "attributes": ["token"]}, "attributes must be one of .* Did you mean 'tokens'"),
        ({**names, "ruel": "gdpo"}, "keyword must be one of .* got 'ruel'. Did you mean 'rule'"),
    ]:
        with pytest.raises(rubrank.InvalidInput, match=message):
            rubrank.fuse(frame, **wrong)


@pytest.mark.parametrize("rule", [None, "rlvr2", "run-quantile"])
def test_an_empty_list_of_attributes_means_no_control(rule):
    options = {} if rule is None else {"rule": rule}
    expected = rubrank.fuse(AS_NAN, **options)
    assert rubrank.fuse(AS_NAN, attributes=[], **options).tolist() == expected.tolist()


def test_an_unknown_keyword_lists_each_allowed_one_once():
    with pytest.raises(rubrank.InvalidInput) as raised:
        rubrank.fuse(AS_NAN, rule="rlvr2:span=unit", edition="paper")
    assert raised.value.allowed.count("'outcomes'") == 1


def test_pandas_frames_and_its_missing_value():
    pd = pytest.importorskip("pandas")
    assert fused(pd.DataFrame(SCORES, columns=NAMES), criteria="all").criteria == tuple(NAMES)
    assert fused(pd.DataFrame(SCORES)).batch.has_names is False  # 0, 1, 2 are no names
    holes = [[pd.NA if x is None else x for x in row] for row in HOLES]
    for given in (holes, pd.DataFrame(holes), pd.DataFrame(holes).astype("Float64"), np.array(holes, dtype=object)):
        assert (rubrank.fuse(given) == rubrank.fuse(AS_NAN)).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "int64"])
def test_tensors_of_every_kind(dtype):
    torch = pytest.importorskip("torch")
    whole = [[1, 5, 7], [1, 10, 8], [0, 10, 9], [1, 0, 4]]
    tensor = torch.tensor(whole, dtype=getattr(torch, dtype))
    expected = rubrank.fuse(whole)
    assert (rubrank.fuse(tensor) == expected).all()
    assert (rubrank.fuse(list(tensor)) == expected).all()
    assert (rubrank.fuse(tensor[None])[0] == expected).all()
    if tensor.is_floating_point():
        assert (rubrank.fuse(tensor.requires_grad_()) == expected).all()
        lengths = tensor[:, 1:2].detach().requires_grad_()
        assert (
            rubrank.fuse(tensor, attributes=lengths) == rubrank.fuse(whole, attributes=[[5], [10], [10], [0]])
        ).all()


def test_results_are_short_when_printed():
    result = fused(SCORES, criteria=NAMES)
    assert repr(result) == "Fused(rlvr2: 4 rollouts in 1 group, 3 criteria, 0 without signal)"
    assert repr(result.batch) == "ScoreBatch(4 rollouts in 1 group, 3 criteria)"
    assert repr(result[0]) == "FusedGroup(0, 4 rollouts, 3 criteria, rollout 1 is best)"
    table = graded()
    assert repr(table) == "ScoreTable(3 rollouts in 1 group, 2 criteria, 0 scores missing)"
    assert repr(table["tides"]) == "GroupScores('tides', 3 rollouts, criteria: WordCount, Keyword)"


def graded():
    group = {"id": "tides", "prompt": "Explain.", "responses": ["The moon pulls the sea.", "Moon.", "THE SUN!"]}
    rubric = [{"name": "WordCount", "params": {"low": 4}}, {"name": "Keyword", "params": {"keywords": ["moon"]}}]
    return rubrank.grade([group], rubric, workers=0)


def test_tables_become_frames():
    table = graded()
    frame = table.to_polars()
    assert frame.columns == ["group", "rollout", "WordCount", "Keyword"]
    assert frame["Keyword"].to_list() == [1.0, 1.0, 0.0]
    scores = table.fuse().to_polars()
    assert scores["reward"].to_list() == table.fuse().reward.tolist()
    assert set(scores.columns) >= {"group", "rollout", "reward", "utility.WordCount"}
    pytest.importorskip("pandas")
    assert list(table.to_pandas()["Keyword"]) == [1.0, 1.0, 0.0]
    assert list(table.fuse().to_pandas()["rollout"]) == [0, 1, 2]


def test_rows_of_a_frame_are_in_the_callers_order():
    result = fused(SCORES, groups=["b", "a", "b", "a"])
    frame = result.to_polars()
    assert frame["group"].to_list() == ["b", "a", "b", "a"]
    assert frame["rollout"].to_list() == [0, 0, 1, 1]
    assert frame["reward"].to_list() == result.reward.tolist()


def test_a_notebook_shows_a_table_and_runs_nothing():
    page = fused(SCORES, criteria=NAMES)._repr_html_()
    assert "<table>" in page
    assert "<b>Clarity</b>" not in page
    assert "&lt;b&gt;Clarity" in page
    many = fused(np.random.default_rng(0).random((30, 2)))._repr_html_()
    assert "and 10 more" in many
    assert "tides" in graded()._repr_html_()


def test_a_package_that_is_not_installed_is_one_message(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(rubrank.InvalidInput, match=r"the package pandas must be installed.* Run `pip install pandas`"):
        fused(SCORES).to_pandas()


def test_one_of_a_kind_is_counted_as_one():
    batch = rubrank.ScoreBatch.of_arrays([[1.0]])
    fused = rubrank.RLVR2()(batch)
    assert repr(batch) == "ScoreBatch(1 rollout in 1 group, 1 criterion)"
    assert repr(fused) == "Fused(rlvr2: 1 rollout in 1 group, 1 criterion, 1 without signal)"
    assert repr(next(iter(fused))) == "FusedGroup(0, 1 rollout, 1 criterion, no signal)"
