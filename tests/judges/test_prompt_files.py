"""Prompt files: every judged criterion has one in both languages, complete, and with its version."""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from pathlib import Path

import pytest
from cases import folded
from prompted import JUDGED, criterion, rollout, system

from rubrank.judges.prompting import absolute_call
from rubrank.judges.prompting.prompt_files import FOLDER, LANGUAGES, list_prompt_names, load_prompt
from rubrank.rubrics.catalogue import KNOWN
from rubrank.rubrics.rubric import Criterion

FRAMES = ("_common", "_question", "_absolute", "_batched", "_pairwise", "_listwise")
VERSIONS = Path(__file__).parent / "prompt_versions.json"


def test_every_judged_criterion_has_a_prompt_in_both_languages():
    for tongue in LANGUAGES:
        files = {path.stem for path in (FOLDER / tongue).glob("*.txt")}
        assert files == {*JUDGED, *FRAMES}
    assert list_prompt_names() >= set(JUDGED)
    assert "WordCount" not in list_prompt_names()
    assert "_common" not in list_prompt_names()


@folded("tongue", LANGUAGES)
@folded("name", [*JUDGED, "_question"])
def test_sections_are_complete(name, tongue):
    prompt = load_prompt(name, tongue)
    allowed = {"version", "question", "counts", "ignore", "edges", "anchors", "findings"}
    assert allowed <= set(prompt.sections) <= allowed | {"needs", "without", "cannot", "params", "items"}
    assert all(prompt.sections.values()), "an empty section"
    assert prompt.version >= 1
    assert set(prompt.findings) == {"high", "between", "low"}
    assert len(set(prompt.findings.values())) == 3
    for part in ("counts", "ignore", "edges"):
        assert all(line.startswith("- ") for line in prompt[part].splitlines())
    assert set(prompt.needs) <= {"reference", "system prompt", "earlier turns"}
    assert not ("without" in prompt.sections and not prompt.needs)


@folded("tongue", LANGUAGES)
@folded("name", JUDGED)
def test_there_is_an_anchor_for_every_value(name, tongue):
    prompt, domain = load_prompt(name, tongue), KNOWN[name].domain
    if domain.values:
        assert set(prompt.anchors) == set(domain.values)
    else:
        assert {0.0, 0.25, 1.0} < set(prompt.anchors)
        assert len(prompt.anchors) >= 5
    assert all(len(text) >= 6 for text in prompt.anchors.values())
    text = system(absolute_call(criterion(name), rollout(), language=tongue, whole=True))
    assert all(anchor in text for anchor in prompt.anchors.values())


@folded("name", [*JUDGED, "_question"])
def test_both_languages_have_the_same_structure(name):
    en, zh = (load_prompt(name, tongue) for tongue in LANGUAGES)
    assert set(en.sections) == set(zh.sections)
    assert en.anchors.keys() == zh.anchors.keys()
    assert en.needs == zh.needs
    assert en.params.keys() == zh.params.keys()
    assert en.version == zh.version
    assert (en.items is None) == (zh.items is None)
    if en.items and zh.items:
        assert list(en.items.words) == list(zh.items.words)
        assert (en.items.rule, en.items.values, en.items.counted) == (zh.items.rule, zh.items.values, zh.items.counted)
    for part in ("counts", "ignore", "edges"):
        assert en[part].count("\n") == zh[part].count("\n"), part


def test_no_text_speaks_of_numbers_of_a_scale():
    """Who has anchors of their own would read two scales in one prompt."""
    for tongue in LANGUAGES:
        for name in JUDGED:
            prompt = load_prompt(name, tongue)
            texts = [prompt.get(part) for part in ("question", "counts", "ignore", "edges", "without", "cannot")]
            found = re.findall(r"(?:worth|give|allows|[:：为给]) ?[01](?:\.\d+)?(?![\w%])", "\n".join(texts))
            assert found == [], name


def test_chinese_prompts_are_chinese():
    for name in JUDGED:
        text = load_prompt(name, "zh")["question"] + load_prompt(name, "zh")["counts"]
        assert sum("\u4e00" <= char <= "\u9fff" for char in text) > 0.6 * len(text), name


def test_a_change_of_wording_raises_the_version():
    """To renew the record: PYTHONPATH=src:tests python tests/judges/test_prompt_files.py, after raising the version."""
    kept = json.loads(VERSIONS.read_text())
    assert kept == recorded(), "a prompt changed: raise its [version] in both languages, then renew the record"


def recorded() -> dict[str, list[object]]:
    files = sorted(FOLDER.glob("*/*.txt"))
    prompts = {f"{path.parent.name}/{path.stem}": path for path in files}
    return {
        name: [load_prompt(path.stem, path.parent.name).version, blake2b(path.read_bytes(), digest_size=8).hexdigest()]
        for name, path in prompts.items()
    }


@folded("name", [*JUDGED, "_question"])
def test_every_value_has_a_finding_and_every_finding_a_value(name):
    judged = criterion(name) if name in KNOWN else Criterion(name="Kind", question="Is it kind?")
    scale = judged.scale
    levels = [scale.find_level(number) for number in scale.numbers]
    assert (levels[0], levels[-1]) == ("low", "high")
    assert set(levels) == ({"low", "high"} if len(levels) == 2 else {"low", "between", "high"})
    for language in LANGUAGES:
        assert set(levels) <= set(load_prompt(name, language).findings)


@pytest.mark.parametrize("tongue", LANGUAGES)
def test_penalties_say_that_one_is_clean(tongue):
    for name in (name for name in JUDGED if KNOWN[name].family == "penalty"):
        prompt = load_prompt(name, tongue)
        assert prompt.findings["high"] == {"en": "clean", "zh": "没有问题"}[tongue]
        assert prompt.anchors[1.0].lower().startswith(prompt.findings["high"])
        assert not prompt.anchors[0.0].lower().startswith(prompt.findings["high"])


if __name__ == "__main__":
    VERSIONS.write_text(json.dumps(recorded(), indent=1) + "\n")
