"""Tables that used to give wrong rewards without a word are refused in one line."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner
from whole_tables import fuse_file

import rubrank
from rubrank import RLVR2, FuseOptions, ScoreBatch
from rubrank.cli.app import app
from rubrank.errors import BadTable, InvalidInput
from rubrank.grading.grade import count_missing
from rubrank.records.files import write_records
from rubrank.records.record import records_of
from rubrank.rollouts.groups import read_groups
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import load_scores, match_rollouts
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.tables.columns import Columns
from rubrank.tables.sources import read_rows


def table(path, header, *rows):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


_NAMES = """temperature latency_ms cost year gpu total mean score final_score top_p max_new_tokens price_usd created_at
    Unnamed:0 __index_level_0__ worker port difficulty confidence n_votes loss kl entropy age"""


@pytest.mark.parametrize("name", _NAMES.split())
def test_a_column_of_numbers_is_a_criterion_only_if_something_says_so(tmp_path, name):
    columns = {"uid": ["q", "q"], "Facts": [1, 0], name: [3.5, 7.0], "note": ["a", "b"]}
    frame = pl.DataFrame(columns)
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ndjson(tmp_path / "t.jsonl")
    sources = [tmp_path / "t.csv", tmp_path / "t.parquet", tmp_path / "t.jsonl", frame, frame.to_dicts()]
    options = FuseOptions(weight={"Facts": 2})
    for source in sources:
        message = f"the criteria must be named.* got 'Facts', '{name}'.* `criteria=Facts,{name}`.*`criteria=all`"
        with pytest.raises(BadTable, match=message):
            rubrank.fuse_file(source)
        with pytest.raises(BadTable, match=message):
            rubrank.fuse_file(source, None, options)  # Facts is named by its weight, the other is not
        with pytest.raises(BadTable, match=message):
            load_scores(source)
        assert rubrank.fuse_file(source, criteria=["Facts"]).criteria == ("Facts",)
        summary = rubrank.fuse_file(source, criteria="all")
        assert (summary.criteria, summary.left_out) == (("Facts", name), ("note",))


def test_options_that_name_all_columns_declare_them(tmp_path):
    path = table(tmp_path / "t.csv", "uid,Facts,Errors,tokens", "q,1,0,5", "q,0,1,6")
    options = FuseOptions(weight={"Facts": 2}, lower=["Errors"])
    assert rubrank.fuse_file(path, None, options).criteria == ("Facts", "Errors")


def test_tables_that_declare_their_criteria_need_no_names(tmp_path):
    rows = [{"uid": "q", "scores": {"Facts": i, "year": 1990 + i}, "temperature": 0.5} for i in range(2)]
    assert rubrank.fuse_file(rows).criteria == ("Facts", "year")
    path = table(tmp_path / "t.csv", "uid,response_id,criterion,score", "q,a,Facts,1", "q,b,Facts,0")
    assert rubrank.fuse_file(path).criteria == ("Facts",)


@pytest.mark.parametrize(
    "verb",
    ["fuse", "explain --group q", "record -o r.jsonl", "report", "replay", "robustness", "bench fusion", "judge audit"],
)
def test_every_verb_asks_for_the_criteria(tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "t.csv", "uid,Facts,temperature", "q,1,0.5", "q,0,0.7")
    words = verb.split()
    place = 2 if words[0] in ("bench", "judge") else 1
    line = [*words[:place], "t.csv", *words[place:]]
    refused = CliRunner().invoke(app, line)
    assert refused.exit_code == 2
    assert "got 'Facts', 'temperature'" in refused.stderr
    assert "--criteria Facts,temperature; for all of these use --criteria all" in refused.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]
    empty = CliRunner().invoke(app, [*line, "--criteria", " ,"])
    assert empty.exit_code == 2
    assert "--criteria must be names such as a,b,c" in empty.stderr
    done = CliRunner().invoke(app, [*line, "--criteria", "Facts"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("cells", [("8/10", "6/10"), ("70%", "40%"), ("yes", "no"), ("$3", "$4"), ('"0,5"', '"0,7"')])
def test_scores_written_as_text_are_named(tmp_path, cells):
    rows = [f"q,{i},{cell}" for i, cell in enumerate(cells)]
    path = table(tmp_path / "t.csv", "uid,Facts,Style", *rows)
    with pytest.raises(BadTable, match=r"row 1, column 'Style' .*criteria=Facts,Style"):
        fuse_file(path)
    assert fuse_file(path, columns=Columns(criteria=["Facts"])).rollouts == 2


@pytest.mark.parametrize("cell", ["          yes", "nan      of them", "none     at all"])
def test_a_text_among_scores_is_refused_whatever_blanks_it_has(tmp_path, cell):
    path = table(tmp_path / "t.csv", "uid,Facts", "q,1", "q,0", f"q,{cell}")
    with pytest.raises(BadTable, match="row 3, column 'Facts'"):
        fuse_file(path)


def test_numbers_in_quotes_are_named_and_answers_are_not(tmp_path):
    rows = [{"uid": "q", "Facts": i, "Style": str(i)} for i in range(2)]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadTable, match="line 1, column 'Style'"):
        fuse_file(path)
    rows = [{"uid": "q", "Facts": i, "answer": str(i)} for i in range(2)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert fuse_file(path).criteria == ("Facts",)


@pytest.mark.parametrize("other", ["facts", "Facts ", "ＦＡＣＴＳ"])
def test_names_that_differ_only_in_writing_are_refused(tmp_path, other):
    rows = [{"uid": "q", "scores": {"Facts": 1}}, {"uid": "q", "scores": {other: 0}}]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadTable, match="the criteria must be of different names"):
        fuse_file(path)
    assert fuse_file(path, columns=Columns(criteria=["Facts", other])).rollouts == 2


def test_a_rollout_that_is_there_twice_is_refused(tmp_path):
    path = table(tmp_path / "t.csv", "uid,rollout,Facts", "q,0,1", "q,1,0", "q,0,1")
    with pytest.raises(BadTable, match=r"row 3 .*a second rollout '0' of group 'q'"):
        fuse_file(path)
    path = table(tmp_path / "t.csv", "uid,answer_id,Facts", "q,7,1", "q,7,0", "r,8,1")
    assert fuse_file(path).rollouts == 3  # the same in all rows of a group: it names the query


@pytest.mark.parametrize("name", ["records.jsonl", "records.parquet"])
def test_records_are_no_scores(tmp_path, name):
    fused = RLVR2()(ScoreBatch.of_arrays(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), criteria=["A", "B"]))
    write_records(tmp_path / name, records_of(fused))
    with pytest.raises(BadTable, match="records of groups that were fused"):
        fuse_file(tmp_path / name)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_one_id_with_two_prompts_is_refused(tmp_path, suffix):
    frame = pl.DataFrame({"uid": ["q", "q", "q"], "prompt": ["p", None, "r"], "Facts": [1, 0, 1]})
    path = tmp_path / f"t.{suffix}"
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[suffix](path)
    with pytest.raises(BadTable, match=r"(row|line) 3, the prompt of group 'q' .* got another than (row|line) 1 has"):
        fuse_file(path)
    assert fuse_file(frame[:2]).rollouts == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.jsonl", '{"uid": "q", "scores": {"F": 1}}\n{"uid": "q", "scores": {"F": 1, "F": 0}}\n'),
        ("t.jsonl", '{"uid": "q", "F": 1}\n\n{"uid": "q", "F": 1, "F": 0}\n'),
        ("t.json", '[{"uid": "q", "F": 1}, {"uid": "q", "F": 1, "F": 0}]'),
    ],
)
def test_a_key_that_is_there_twice_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadTable, match="the key 'F' twice"):
        fuse_file(tmp_path / name)


def test_rollouts_with_a_key_twice_or_an_open_quote_are_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"prompt": "p", "response": "a"}\n{"prompt": "p", "response": "a", "response": "b"}\n')
    with pytest.raises(InvalidInput, match=r"line 2 .*the key 'response' twice"):
        read_groups(path)
    path = table(tmp_path / "r.csv", "prompt_id,response", 'q,"open', "q,b", "q,c")
    with pytest.raises(InvalidInput, match="line 2 must be without a quote that swallows other rows"):
        read_groups(path)
    path = table(tmp_path / "r.csv", "prompt_id,response", 'q,"a ""word"", and', 'more"', "q,c")
    assert [rollout.response for rollout in read_groups(path)[0].rollouts] == ['a "word", and\nmore', "c"]


@pytest.mark.parametrize("layer", ["global_quality", "low_quality"])
def test_a_gate_on_a_scale_that_nobody_gave_is_refused(tmp_path, layer):
    path = table(tmp_path / "t.csv", "uid,Style,Safe", "q,1,3", "q,0,5")
    with pytest.raises(BadTable, match=r"row 1, column 'Safe' must be in \[0, 1\].*`domain.Safe=LOW:HIGH`"):
        fuse_file(path, None, FuseOptions(**{layer: ["Safe"]}))
    summary = fuse_file(path, None, FuseOptions(**{layer: ["Safe"], "domain": {"Safe": (3, 5)}}))
    assert summary.first[0].reward.tolist() != [1.0, 0.0]  # 3 is the worst of 3 to 5, so the gate takes something away
    with pytest.raises(InvalidInput, match="must be from 0 to 1, where 1 is clean"):
        ScoreBatch.of_arrays([[1, 3], [0, 5]], criteria=["Style", "Safe"], **{layer: ["Safe"]})


def test_a_margin_as_wide_as_the_scale_is_refused(tmp_path):
    path = table(tmp_path / "t.csv", "uid,Style", "q,3", "q,5")
    for options in (FuseOptions(margin={"Style": 5}), FuseOptions(margin={"Style": 4}, domain={"Style": (1, 5)})):
        with pytest.raises(InvalidInput, match=r"margin must be less than [45], the width of its scale"):
            fuse_file(path, None, options)
    assert fuse_file(path, None, FuseOptions(margin={"Style": 1.5})).no_signal == 0


def test_a_column_has_one_use(tmp_path):
    path = table(tmp_path / "t.csv", "uid,Style,tokens", "q,1,3", "q,0,5")
    for options, criteria in ((FuseOptions(attributes=["tokens"]), ["Style", "tokens"]), (None, ["Style", "uid"])):
        with pytest.raises(BadTable, match=r"the criteria must be columns without another use; got '(tokens|uid)'"):
            rubrank.fuse_file(path, None, options, criteria=criteria)


def test_true_is_no_weight(tmp_path):
    for name in ("weight", "margin"):
        with pytest.raises(InvalidInput, match=f"{name}.F must be a number; got 'true'"):
            FuseOptions(**{name: {"F": True}})
    path = tmp_path / "rubric.yaml"
    path.write_text("criteria:\n- {name: WordCount, params: {low: 2}, weight: true}\n")
    with pytest.raises(InvalidInput, match="weight must be a number; got 'true'"):
        rubrank.load_rubric(path)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("WordCount", {"low": True}),
        ("WordCount", {"relation": "at least", "count": True}),
        ("Keyword", {"keywords": ["a"], "need": True}),
        ("SummaryRecall", {"points": ["a"], "threshold": True}),
        ("TestsPass", {"cases": [{"stdin": "", "stdout": "1"}], "tolerance": True}),
    ],
)
def test_true_is_no_number_of_a_criterion(name, params):
    with pytest.raises(InvalidInput, match=r"must be .*; got 'true'"):
        rubrank.load_rubric([{"name": name, "params": params}])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["uid,F", "q,1", "q,0", "mean,0.5"], "row 3, column 'uid' must be the group of a rollout; got 'mean'"),
        (["uid,F", "q,1", "q,0", "Total,1"], "must be the group of a rollout; got 'Total'"),
        (["uid,F", "q,1", "q ,0"], "blanks do not tell groups apart; got 'q '"),
        (["uid,F\rq,1\rq,0\r"], "the lines must be ended by LF or CR LF; got CR alone"),
    ],
)
def test_rows_that_belong_to_no_group_are_refused(tmp_path, lines, message):
    with pytest.raises(BadTable, match=message):
        rubrank.fuse_file(table(tmp_path / "t.csv", *lines), criteria=["F"])


def test_a_group_may_be_called_mean(tmp_path):
    path = table(tmp_path / "t.csv", "uid,F", "mean,1", "mean,0", "q,1", "q,0")
    assert rubrank.fuse_file(path, criteria=["F"]).no_signal == 0


def test_blanks_around_the_id_of_a_group_of_rollouts_are_refused():
    rows = [{"prompt_id": "q", "response": "a"}, {"prompt_id": "q ", "response": "b"}]
    with pytest.raises(InvalidInput, match="blanks do not tell groups apart"):
        rubrank.grade(rows, [{"name": "WordCount", "params": {"low": 1}}], workers=0)


def test_scores_are_within_the_scale_that_an_option_gives(tmp_path):
    path = table(tmp_path / "t.csv", "uid,F", "q,7", "q,0")
    with pytest.raises(BadTable, match=r"must be in \[0, 5\], the scale that `domain` gives; got '7'"):
        rubrank.fuse_file(path, options=FuseOptions(domain={"F": "0:5"}))
    assert rubrank.fuse_file(path, options=FuseOptions(domain={"F": "0:7"})).no_signal == 0


def test_a_criterion_is_in_one_layer():
    with pytest.raises(InvalidInput, match="global_quality must be of other criteria than `low_quality`"):
        FuseOptions(global_quality=["F"], low_quality=["F"])


@pytest.mark.parametrize("cell", ["[1]", "[]", '{"a": 1}'])
def test_an_error_about_a_nested_cell_is_one_line(tmp_path, cell):
    path = table(tmp_path / "t.jsonl", f'{{"uid": "q", "scores": {{"F": {cell}}}}}', '{"uid": "q", "F": 0}')
    with pytest.raises(BadTable) as caught:
        rubrank.fuse_file(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "criterion",
    [
        {"name": "Keyword", "params": {"keywords": []}},
        {"name": "Keyword", "params": {"keywords": [" "]}},
        {"name": "Keyword", "params": {"keywords": ["a"], "need": 2}},
        {"name": "Polite", "question": "Is it polite?", "points": 0},
    ],
)
def test_a_criterion_that_asks_for_nothing_is_refused(criterion):
    with pytest.raises(InvalidInput):
        rubrank.load_rubric([criterion])


def test_true_stays_a_truth_value():
    rubric = rubrank.load_rubric([{"name": "Keyword", "params": {"keywords": ["a"], "case_sensitive": True}}])
    table = rubrank.grade([{"prompt": "p", "responses": ["a", "A"]}], rubric, workers=0)
    assert table.groups[0].scores[:, 0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"responses": []}, "row 1: response must be given; got an empty list"),
        ({"responses": ["a", None]}, "row 1: response must be given; got null at place 1"),
        ({"responses": None}, "response must be given; got nothing"),
        ({"response": [{"role": "user", "content": "x"}]}, "messages with one of the assistant; got only user"),
        ({"response": 5}, "response must be a text; got 5"),
        ({"completions": "('a', 'b')"}, "completions must be a list; got the text of a Python list"),
        ({"responses": "[\"a\", 'b']"}, "responses must be a list; got the text of a Python list"),
    ],
)
def test_responses_of_an_unusable_shape_are_refused(row, message):
    with pytest.raises(InvalidInput, match=message):
        read_groups([{"prompt": "p", **row}])


def test_records_are_no_rollouts(tmp_path):
    fused = RLVR2()(ScoreBatch.of_arrays([[1.0], [0.0]], criteria=["A"]))
    write_records(tmp_path / "records.jsonl", records_of(fused))
    with pytest.raises(InvalidInput, match="the rows must be rollouts; got records of groups that were fused"):
        read_groups(tmp_path / "records.jsonl")


def test_a_comparison_is_shown_as_decided(tmp_path):
    outcomes = {"Taste": np.array([[np.nan, 1, 0.5], [0, np.nan, 1], [0.5, 0, np.nan]])}
    scores = np.array([[1, np.nan], [0, np.nan], [1, np.nan]])
    group = GroupScores("q", (CriterionData("Facts"), CriterionData("Taste")), scores, (("", ""),) * 3, outcomes)
    written = ScoreTable((group,))
    assert "0 scores missing" in repr(written)
    written.write(tmp_path / "scores.jsonl")
    shown = CliRunner().invoke(app, ["explain", str(tmp_path / "scores.jsonl"), "--group", "q"]).stdout
    utilities = shown[shown.index("utilities by rollout") :]
    row = next(line for line in utilities.splitlines() if line.startswith("Taste"))
    assert "–" not in row
    path = str(tmp_path / "scores.jsonl")
    data = json.loads(CliRunner().invoke(app, ["explain", path, "--group", "q", "--json"]).stdout)
    assert data["rollouts"][1]["outcomes"]["Taste"] == {"beats": 1, "ties": 0, "loses": 1}
    assert all(rollout["utilities"]["Taste"] is not None for rollout in data["rollouts"])
    fuse_file(path, tmp_path / "out.jsonl", utilities=True)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert all(isinstance(row["utility.Taste"], float) for row in rows)


def test_a_rollout_that_was_not_asked_is_not_missing(tmp_path):
    """A hard gate stopped rollout 2, so nobody compared it; rollout 3 was asked for, and the judge failed."""
    outcomes = np.full((4, 4), np.nan)
    outcomes[0, 1], outcomes[1, 0] = 0.7, 0.3
    reasons = (("", "better"), ("", "worse"), ("", "not asked: a gate has stopped it"), ("", "timeout"))
    scores = np.array([[1, np.nan], [1, np.nan], [0, np.nan], [1, np.nan]])
    criteria = (CriterionData("Facts"), CriterionData("Taste"))
    table = ScoreTable((GroupScores("q", criteria, scores, reasons, {"Taste": outcomes}),))
    assert [summary.missing for summary in table.summary()] == [0, 1]
    assert "1 score missing" in repr(table)
    assert (count_missing(table).missing, count_missing(table).asked) == (1, 7)
    table.write(tmp_path / "scores.jsonl")
    command = ["explain", str(tmp_path / "scores.jsonl"), "--group", "q"]
    first, second, third, _ = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["rollouts"]
    assert first["outcomes"]["Taste"] == {"beats": 0, "ties": 0, "loses": 0, "ahead": 1}
    assert second["outcomes"]["Taste"]["behind"] == 1
    assert third["utilities"]["Taste"] is None
    assert "Taste          1/1" in CliRunner().invoke(app, command).stdout


@pytest.mark.parametrize(
    ("verb", "option", "value"),
    [
        (verb, option, value)
        for verb in (["fuse"], ["explain", "--group", "q"], ["replay"], ["robustness"])
        for option, value in [("--group-column", "nope"), ("--weight", "Nope=2"), ("--global-quality", "Nope")]
    ],
)
def test_a_wrong_option_for_a_score_file_is_named(tmp_path, verb, option, value):
    group = GroupScores("q", (CriterionData("A"), CriterionData("B")), np.eye(2), (("", ""),) * 2)
    ScoreTable((group,)).write(tmp_path / "scores.jsonl")
    refused = CliRunner().invoke(app, [*verb, str(tmp_path / "scores.jsonl"), option, value])
    assert refused.exit_code == 2
    assert f"{option} must be" in refused.stderr


def test_criteria_of_other_rubrics_are_not_missing():
    groups = [GroupScores(name, (CriterionData(name),), np.ones((2, 1)), (("",),) * 2) for name in ("A", "B")]
    assert "0 scores missing" in repr(ScoreTable(tuple(groups)))


def test_columns_beside_declared_criteria_are_reported(tmp_path):
    path = table(tmp_path / "t.csv", "uid,Facts,temperature,note", "q,1,3,a", "q,0,2,b")
    assert rubrank.fuse_file(path, criteria=["Facts"]).left_out == ("temperature", "note")
    rows = [{"uid": "q", "response": "a", "scores": {"Facts": 1}, "Tone": 3}, {"uid": "q", "response": "b", "Tone": 4}]
    rows[1]["scores"] = {"Facts": 0}
    assert rubrank.fuse_file(rows).left_out == ("Tone",)
    written = CliRunner().invoke(app, ["fuse", str(path), "--criteria", "Facts", "-o", str(tmp_path / "o.csv")])
    assert "not used: temperature, note" in written.output


@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("has_texts", [True, False])
def test_rollouts_in_another_order_than_a_plain_table_are_refused(tmp_path, has_ids, has_texts):
    rollouts = [{"uid": "q", "prompt": "p", "response_id": id, "response": f"text {id}"} for id in ("a", "b")]
    columns = ["uid"] + ["response_id"] * has_ids + ["response"] * has_texts
    rows = [{name: rollout[name] for name in columns} for rollout in rollouts]
    scores = load_scores([{**row, "scores": {"Facts": i}} for i, row in enumerate(rows)]).table
    assert [rollout.response for rollout in match_rollouts(scores, rollouts)[0].rollouts] == ["text a", "text b"]
    if has_ids or has_texts:
        with pytest.raises(InvalidInput, match="rollout 0 of group 'q' must be"):
            match_rollouts(scores, rollouts[::-1])


def test_a_list_of_responses_that_is_there_twice_is_refused():
    row = {"id": "q", "prompt": "p", "responses": ["a", "a", "b"]}
    assert len(read_groups([row, {**row, "responses": ["a", "c"]}])[0].rollouts) == 5
    with pytest.raises(InvalidInput, match="the rollout must be there once; got the responses of row 1 again"):
        read_groups([row, row])


def test_names_that_differ_by_an_invisible_character_are_refused():
    rows = [{"uid": "q", "scores": {"Facts": 1}}, {"uid": "q", "scores": {"Fa\u200bcts": 0}}]
    with pytest.raises(BadTable, match="of different names; got 'Facts' and"):
        load_scores(rows)


def test_a_set_of_criteria_has_no_order():
    with pytest.raises(InvalidInput, match=r"criteria must be a list of names; .* A set has no order"):
        rubrank.fuse([[1, 2], [0, 3]], criteria={"Facts", "Style"})


def test_digests_of_some_rows_are_not_compared_with_the_responses_of_others(tmp_path):
    rows = [{"group": "q", "prompt": "p", "response": "word " * i} for i in range(3)]
    path = tmp_path / "scores.jsonl"
    rubrank.grade(rows, [{"name": "WordCount", "params": {"low": 2}}], workers=0).write(path)
    header, first, *others = path.read_text().splitlines()
    without_digest = {key: value for key, value in json.loads(first).items() if key != "digest"}
    path.write_text("\n".join([header, json.dumps(without_digest), *others]) + "\n")
    table = load_scores(path).table
    assert table.groups[0].digests == ()
    assert len(match_rollouts(table, rows)[0].rollouts) == 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "at least one column; got an empty mapping"),
        ({"prompt": "p", "response": ["a"]}, "column 'prompt' must be a list of cells; got a text"),
        ({"prompt": ["p", "p"], "response": ["a"]}, "columns of one length; got 'prompt' with 2, 'response' with 1"),
    ],
)
def test_what_is_wrong_with_a_mapping_of_columns_is_said(columns, message):
    with pytest.raises(InvalidInput, match=message):
        list(read_rows(columns))


def test_the_scale_of_a_file_is_asked_for_by_its_option(tmp_path, monkeypatch):
    """It used to name an argument of Python that files do not have: domains={"Style": (LOW, HIGH)}."""
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "t.csv", "uid,Facts,Style", "q,1,2", "q,0,5")
    refused = CliRunner().invoke(app, ["fuse", "t.csv", "--criteria", "Facts,Style", "--rule", "focal+"])
    assert refused.exit_code == 2
    assert "domain.Style=LOW:HIGH" in refused.output
