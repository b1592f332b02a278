"""Verifiers, rules, models, attributes and judge kinds of one's own: by decorator, by package, by `--import`."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cases import folded

import rubrank
from rubrank import judges
from rubrank.fusion.control import attributes
from rubrank.fusion.models import model
from rubrank.judges.judge import Call, Judge, Judges, Judgment, Reply, Usage
from rubrank.judges.step import judge_groups
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.catalogue import KNOWN
from rubrank.verifiers import verifier

ROOT = Path(__file__).parents[2]
GROUPS = [{"prompt": "Ask for tea.", "responses": ["Tea, please.", "TEA!"]}]


def scores_of(rubric, **options):
    return rubrank.grade(GROUPS, rubric, **options).groups[0].scores[:, 0].tolist()


# -------------------------------------------------------------------------------------------------------- verifiers


def test_a_verifier_without_parentheses_that_returns_a_bool():
    @rubrank.verifier
    def polite(text):
        return "please" in text

    assert scores_of(["polite"]) == [1.0, 0.0]
    assert polite("please") is True  # the function stays what it was


@folded(
    ("answer", "score"),
    [(True, 1), (0.25, 0.25), ((0.5, "half"), 0.5), ((False, "no"), 0), (np.float32(0.5), 0.5), (np.True_, 1)],
)
def test_what_a_verifier_may_return(answer, score):
    rubrank.verifier("Mine")(lambda text: answer)
    assert scores_of(["Mine"]) == [score, score]


@folded("answer", [None, "1", 7, -1, float("nan"), [], (None, "why")])
def test_what_is_no_verdict_is_missing_with_a_reason(answer):
    rubrank.verifier("Mine")(lambda text: answer)
    group = rubrank.grade(GROUPS, ["Mine"]).groups[0]
    assert np.isnan(group.scores).all()
    assert all(row[0] for row in group.reasons)


def test_what_a_verifier_sees():
    seen = {}

    @rubrank.verifier("AsText")
    def as_text(text: rubrank.Text):
        seen["text"] = type(text)
        return True

    @rubrank.verifier("AsString")
    def as_string(text: str):
        seen["str"] = text
        return True

    @rubrank.verifier("AsRollout")
    def as_rollout(rollout: rubrank.Rollout):
        seen["rollout"] = rollout.prompt[0].content
        return True

    answer = [{"prompt": "q", "responses": ["<think>hm</think>Yes."]}]
    rubrank.grade(answer, ["AsText", "AsString", "AsRollout"], workers=0)
    assert seen == {"text": rubrank.Text, "str": "Yes.", "rollout": "q"}


def test_parameters_and_the_loose_mode_of_a_verifier_of_strings():
    @rubrank.verifier
    def begins(text: str, *, word: str) -> bool:
        return text.startswith(word)

    rubric = [{"name": "begins", "params": {"word": "TEA"}}]
    assert scores_of(rubric) == [0.0, 1.0]
    found = rubrank.find_verifier("begins")
    assert found.domain == rubrank.BINARY
    loose = found.verify(Rollout(response="Sure:\nTEA"), found.check_parameters({"word": "TEA"}), mode="loose")
    assert loose.value == 1.0
    with pytest.raises(rubrank.InvalidInput, match="word"):
        scores_of(["begins"])


def test_parameters_need_not_be_keyword_only():
    @rubrank.verifier("few words")
    def few(text, most: int = 1):
        return len(text.words) <= most

    assert scores_of([{"name": "few words", "params": {"most": 10**6}}]) == [1.0, 1.0]
    with pytest.raises(rubrank.InvalidInput, match="it has the parameters: most"):
        scores_of([{"name": "few words", "params": {"least": 2}}])


def test_partial_functions_and_objects():
    class Has:
        def __call__(self, text, *, part: str = "T"):
            return part in text

    rubrank.verifier("Partial")(functools.partial(lambda text, part: part in text, part="please"))
    rubrank.verifier("Object")(Has())
    assert scores_of(["Partial"]) == [1.0, 0.0]
    assert scores_of([{"name": "Object", "params": {"part": "!"}}]) == [0.0, 1.0]


@pytest.mark.parametrize("name", ["WordCount", "keywords:existence", "GeneralQuality", "EmptyAnswer"])
def test_a_name_of_the_library_is_refused_at_once(name):
    with pytest.raises(rubrank.InvalidInput, match=f"verifier: name must be new; got '{name}', a built-in name"):
        rubrank.verifier(name)(lambda text: True)


def test_names_of_judged_criteria_are_those_of_the_catalogue():
    assert {name for name, known in KNOWN.items() if known.how == "judge"} == verifier.JUDGED_NAMES


@pytest.mark.slow
def test_a_library_name_is_refused_before_anything_was_looked_up():
    code = "import rubrank\n@rubrank.verifier('WordCount')\ndef mine(text): return True"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "a built-in name" in done.stderr


def test_the_same_function_again_replaces_it_and_another_is_refused():
    def define(answer):
        @rubrank.verifier("Again")
        def again(text):
            return answer

    define(True)
    define(False)
    assert scores_of(["Again"]) == [0.0, 0.0]
    with pytest.raises(rubrank.InvalidInput, match="got 'Again', which belongs to test_extending"):
        rubrank.verifier("Again")(lambda text: True)


@pytest.mark.parametrize("wrong", [lambda text: True, lambda: True, lambda *, text: True])
def test_what_cannot_be_a_verifier(wrong):
    with pytest.raises(rubrank.InvalidInput):
        rubrank.verifier(wrong)


@pytest.mark.slow
def test_workers_know_what_a_module_registers(tmp_path, monkeypatch):
    (tmp_path / "own_checks.py").write_text(CHECKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("own_checks")
    rubric = ["polite", "HasA", {"name": "begins", "params": {"word": "TEA"}}]
    here, there = (rubrank.grade(GROUPS, rubric, workers=n).groups[0].scores.tolist() for n in (0, 1))
    assert here == there == [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert [rubrank.find_verifier(name).home for name in ("polite", "HasA")] == ["own_checks"] * 2


CHECKS = """
import rubrank

@rubrank.verifier
def polite(text):
    return "please" in text

@rubrank.verifier
def begins(text: str, *, word: str) -> bool:
    return text.startswith(word)

for letter in "ab":
    rubrank.verifier(f"Has{letter.upper()}")(lambda text, letter=letter: letter in text)
"""


# ------------------------------------------------------------------------------------- rules, models, attributes


@dataclass(frozen=True)
class Best:
    """The best score."""

    bounded = True

    def __call__(self, batch):
        return rubrank.find_rule("worst-case")(batch)


def test_a_rule_under_a_name_of_its_own():
    assert rubrank.rule("best-of-all")(Best) is Best
    assert type(rubrank.find_rule("best-of-all")) is Best
    assert "best-of-all" in rubrank.rule_names()
    rubrank.rule("best-of-all")(Best)


@pytest.mark.parametrize("name", ["gdpo", "rlvr2", "cardinal"])
def test_a_rule_of_the_library_is_refused(name):
    with pytest.raises(rubrank.InvalidInput, match="a built-in name"):
        rubrank.rule(name)(type("Own", (), {"bounded": True, "__call__": lambda self, batch: None}))


def test_a_model_as_a_class_or_as_a_function():
    def signs(wins, ridge):
        return np.sign(wins - wins.swapaxes(-1, -2)).sum(-1) / ridge

    rubrank.utility_model("signs")(signs)

    @rubrank.utility_model
    class Signs:
        name = "class-of-signs"

        def fit(self, wins, ridge):
            return signs(wins, ridge)

    scores = [[3, 1], [2, 2], [1, 4]]
    found = [rubrank.utilities(scores, model=name).tolist() for name in ("signs", "class-of-signs")]
    assert found[0] == found[1]
    assert found[0][0][0] > found[0][1][0] > found[0][2][0]


@pytest.mark.parametrize("name", ["bradley-terry", "thurstone", "borda"])
def test_a_model_of_the_library_is_refused(name):
    with pytest.raises(rubrank.InvalidInput, match="a built-in name"):
        rubrank.utility_model(name)(lambda wins, ridge: wins)
    assert model.find_model(name).name == name


def test_no_model_of_the_library_can_be_replaced():
    names = model.model_names()
    ours = [name for name in names if type(model.find_model(name)).__module__.startswith("rubrank.fusion")]
    assert len(ours) >= 3
    for name in ours:
        with pytest.raises(rubrank.InvalidInput, match="a built-in name"):
            rubrank.utility_model(name)(lambda wins, ridge: wins)


def test_attributes_of_one_and_of_several_columns():
    @rubrank.attribute
    def exclamations(text):
        return text.count("!")

    @rubrank.attribute("marks", columns=["commas", "dots"])
    def marks(text):
        return text.count(","), text.count(".")

    values, columns = attributes.measure([["a!", "b"], ["c, d.", "!!"]], ["exclamations", "marks"])
    assert columns == ("exclamations", "commas", "dots")
    assert values.tolist() == [[[1, 0, 0], [0, 0, 0]], [[0, 1, 1], [2, 0, 0]]]
    assert "marks" in attributes.attribute_names()


@pytest.mark.parametrize("wrong", [(1.0, 2.0), -1.0, float("nan")])
def test_an_attribute_that_breaks_its_word_is_named(wrong):
    rubrank.attribute("odd")(lambda text: wrong)
    with pytest.raises(rubrank.InvalidInput, match="attribute 'odd'"):
        attributes.measure(["a"], ["odd"])


def test_an_attribute_of_the_library_is_refused():
    with pytest.raises(rubrank.InvalidInput, match="a built-in name"):
        rubrank.attribute("markdown")(len)
    with pytest.raises(rubrank.InvalidInput, match="a built-in name"):
        rubrank.attribute("answer_length")(lambda text: len(text))


# ------------------------------------------------------------------------------------------------------ judge kinds

CRITERION = rubrank.Criterion(name="Kind", question="Is it kind?")


class Says:
    """An asker that finds kindness in "please"."""

    def __init__(self):
        self.calls = []

    async def ask(self, call):
        self.calls.append(call)
        return Reply("yes" if "please" in call.messages[0]["content"] else "no", usage=Usage())


async def yes_or_no(question, judge, asker):
    judgment = Judgment()
    for i, rollout in enumerate(question.group.rollouts):
        reply = await asker.ask(Call(messages=({"role": "user", "content": rollout.response},)))
        judgment.verdicts[i, "Kind"] = rubrank.Verdict(float(reply.text == "yes"), reply.text)
    judgment.asked = len(judgment.verdicts)
    return judgment


def ask(kind):
    judge = Judge(kind=kind, endpoints=({"base_url": "http://localhost:1/v1", "model": "m"},))
    group = Group(id="tea", rollouts=tuple(Rollout(prompt="q", response=text) for text in GROUPS[0]["responses"]))
    asker = Says()
    wanted = [np.ones((2, 1), dtype=bool)]
    found = judge_groups([group], [(CRITERION,)], wanted, Judges(judges=(judge,)), asker_of=lambda _: asker)
    return found, asker


def test_a_judge_kind_as_a_function_or_as_a_class():
    class YesOrNo:
        async def judge(self, question, judge, asker):
            return await yes_or_no(question, judge, asker)

    rubrank.judge_kind("by-function")(yes_or_no)
    rubrank.judge_kind("by-class")(YesOrNo)
    for kind in ("by-function", "by-class"):
        found, asker = ask(kind)
        assert len(asker.calls) == 2
        assert [found.groups[0].verdicts[i, "Kind"].value for i in range(2)] == [1.0, 0.0]
    assert {"pairwise", "listwise"} == judges.COMPARES


def test_a_kind_that_compares_says_so():
    rubrank.judge_kind("duel", compares=True)(yes_or_no)
    assert "duel" in judges.COMPARES
    judges.COMPARES.discard("duel")


def test_kinds_that_are_refused():
    with pytest.raises(rubrank.InvalidInput, match="a built-in name"):
        rubrank.judge_kind("pairwise")(yes_or_no)
    with pytest.raises(rubrank.InvalidInput, match="async judge"):
        rubrank.judge_kind("sync")(lambda question, judge, asker: None)
    with pytest.raises(rubrank.InvalidInput, match="Did you mean 'batched'"):
        rubrank.load_judges({"kind": "bached", "endpoints": [{"base_url": "http://x/v1", "model": "m"}]})


# -------------------------------------------------------------------------------------- the command line and packages


def run(folder, *arguments):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(folder / "site")])}
    command = [sys.executable, "-m", "rubrank", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rollouts.jsonl").write_text(json.dumps({"id": "tea", **GROUPS[0]}) + "\n")
    (tmp_path / "rubric.json").write_text(json.dumps([{"name": "polite", "verifier": "polite"}]))
    return tmp_path


GRADE = ("grade", "rollouts.jsonl", "--rubric", "rubric.json", "--workers", "1", "-o", "scores.jsonl")


@pytest.mark.slow
def test_import_on_the_command_line(folder):
    (folder / "own_checks.py").write_text(CHECKS)
    assert run(folder, *GRADE).returncode == 2
    done = run(folder, "--import", "own_checks", *GRADE)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert [row.scores.tolist() for row in rubrank.read_scores(folder / "scores.jsonl").groups] == [[[1.0], [0.0]]]
    assert run(folder, "--import", "own_checks", "check", "rubric.json").returncode == 0
    assert "polite" in run(folder, "--import", "own_checks", "criteria", "--family", "user").stdout


@pytest.mark.parametrize(("module", "said"), [("none", "No module named"), ("own_checks.py", "not its file")])
def test_a_module_that_cannot_be_imported_is_one_line(folder, module, said):
    done = run(folder, "--import", module, "check", "rubric.json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


@pytest.mark.slow
def test_a_module_that_takes_a_name_of_the_library_is_one_line(folder):
    (folder / "own_checks.py").write_text("import rubrank\nrubrank.verifier('WordCount')(lambda text: True)\n")
    done = run(folder, "--import", "own_checks", "check", "rubric.json")
    assert done.returncode == 2
    assert done.stderr == ("rubrank: verifier: name must be new; got 'WordCount', a built-in name.\n")


def install(folder, code):
    """A package with an entry point, as pip would leave it."""
    site = folder / "site"
    info = site / "own_checks-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-checks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rubrank.plugins]\nown_checks = own_checks\n")
    (site / "own_checks.py").write_text(code)


@pytest.mark.slow
def test_an_installed_package_is_known_without_being_asked_for(folder):
    install(folder, CHECKS)
    done = run(folder, *GRADE)
    assert done.returncode == 0, done.stderr
    assert [row.scores.tolist() for row in rubrank.read_scores(folder / "scores.jsonl").groups] == [[[1.0], [0.0]]]
    assert "polite" in run(folder, "criteria", "--family", "user").stdout


@pytest.mark.slow
def test_a_broken_package_is_left_out_with_a_warning(folder):
    install(folder, "import rubrank\nrubrank.verifier('WordCount')(len)\n")
    done = run(folder, "criteria", "--family", "agentic")
    assert done.returncode == 0, done.stderr
    assert "the plug-in 'own_checks' of own-checks is skipped: InvalidInput: verifier: name" in done.stderr
