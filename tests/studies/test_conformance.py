"""Agreement with published verdicts: the tool on files of both shapes, and the bars on the real data."""

import gzip
import json
from pathlib import Path

import pytest

from rubrank.errors import InvalidInput
from rubrank.studies.conformance import measure
from rubrank.verifiers import load

load()

DATA = Path(__file__).parents[3] / "shared" / "data" / "m_ifeval"


def row(**more):
    return {"key": 1, "prompt": "q", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}], **more}


def write(path, *rows):
    text = "\n".join(json.dumps(r) for r in rows) + "\n"
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        file.write(text)
    return path


@pytest.mark.parametrize("name", ["one.jsonl", "one.jsonl.gz"])
def test_rows_with_one_response(tmp_path, name):
    path = write(tmp_path / name, row(response="a b", strict=[True], loose=[True]), row(response="a,", strict=[True]))
    result = measure(path)
    assert (result.strict, result.loose, result.n) == (0.5, 1.0, 2)
    (only,) = result.disagreements
    assert (only.id, only.mode, only.published, only.ours) == ("punctuation:no_comma", "strict", True, False)
    assert "1 comma found" in only.reason


def test_rows_with_responses(tmp_path):
    answers = [
        {"model": m, "response": t, "strict": [s], "loose": [s]} for m, t, s in (("x", "a", True), ("y", ",", False))
    ]
    result = measure(write(tmp_path / "r.jsonl", row(responses=answers)))
    assert result.strict == result.loose == 1.0
    assert result.to_dict()["per_id"] == {"punctuation:no_comma": {"strict": 1.0, "loose": 1.0, "n": 2}}
    json.dumps(result.to_dict())


def test_unknown_ids_and_unusable_arguments_are_counted_apart(tmp_path):
    ids = ["no:such", "keywords:existence", "punctuation:no_comma"]
    known = row(response="a", strict=[True] * 3, loose=[True] * 3, instruction_id_list=ids, kwargs=[{}, {}, None])
    result = measure(write(tmp_path / "u.jsonl", known))
    assert result.unknown == {"no:such": 1, "keywords:existence": 1}
    assert result.strict == 1.0


@pytest.mark.parametrize("kwargs", [None, [], "[]"])
def test_rows_without_arguments(tmp_path, kwargs):
    verdict = {"response": "a b", "strict": [True], "loose": [True], "kwargs": kwargs}
    assert measure(write(tmp_path / "none.jsonl", row(**verdict))).strict == 1.0
    for name in ("keywords:existence", "length_constraints:number_words", "count:numbers"):
        path = write(tmp_path / "needed.jsonl", row(**verdict, instruction_id_list=[name]))
        with pytest.raises(InvalidInput, match=r"row 1: row: lists must be kwargs and verdicts for each of 1 ids"):
            measure(path)


def test_reasoning_tags_are_part_of_the_response(tmp_path):
    result = measure(write(tmp_path / "t.jsonl", row(response="<think>a, b</think>c", strict=[False], loose=[False])))
    assert result.strict == result.loose == 1.0


def test_errors_say_where(tmp_path):
    (tmp_path / "bad.jsonl").write_text("{\n")
    with pytest.raises(InvalidInput, match=r"bad\.jsonl: line 1"):
        measure(tmp_path / "bad.jsonl")
    with pytest.raises(InvalidInput, match=r"other.jsonl: row 1: instruction_id_list must be given"):
        measure(write(tmp_path / "other.jsonl", {"prompt": "q", "response": "a"}))


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data folder is not here")
@pytest.mark.parametrize(("language", "least"), [("en", 0.9988), ("fr", 0.999)])
def test_agreement_with_the_published_verdicts(language, least):
    pytest.importorskip("langdetect")
    result = measure(DATA / f"{language}_groups.jsonl.gz")
    assert not result.unknown
    assert result.strict >= least
    assert result.loose >= least
