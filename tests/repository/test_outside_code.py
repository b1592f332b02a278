"""What users add may be wrong in every way: each gives one clear error, and never a wrong reward or a traceback."""

from __future__ import annotations

import asyncio
import functools
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from cases import folded
from typer.testing import CliRunner

import rubrank
from rubrank._plugins import find_failed_line
from rubrank.cli.app import app
from rubrank.fusion.files import fuse_file
from rubrank.judges import judge_question
from rubrank.options import FuseOptions
from rubrank.records.record import record_table
from rubrank.studies.replay import run_rule
from rubrank.training.engine import RewardEngine

NAN = float("nan")
BATCH = rubrank.ScoreBatch.of_arrays([[1, 0.5], [0, 1.0], [0.5, 0.2]])


RUBRIC = ["Postscript", {"name": "WordCount", "params": {"low": 1}}]


def rule_that(returns, bounded=True):
    """An object that keeps the contract of a rule, but for what it returns."""
    members = {"bounded": bounded, "name": "made", "__call__": lambda self, batch: returns(batch)}
    return type("Made", (), members)()


def scores_of(function, **options):
    rubrank.verifier("outside-test", **options)(function)
    rubric = [{"name": "Own", "verifier": "outside-test"}]
    group = rubrank.grade([{"prompt": "p", "response": "One two"}], rubric, workers=0).groups[0]
    return group.scores[0, 0], group.reason(0, "Own")


# ---------------------------------------------------------------------------------------------------------- verifiers


def exits(text):
    sys.exit(3)


@folded(
    ("answer", "score", "said"),
    [
        (np.array([0.5]), 0.5, "gives [0.5]"),
        (np.array([0.5, 1.0]), NAN, "a bool, a number, or (value, reason), not array"),
        ((1,), NAN, "a bool, a number, or (value, reason), not (1,)"),
        ((1, "a", "b"), NAN, "a bool, a number, or (value, reason), not (1, 'a', 'b')"),
        (rubrank.Verdict("1", "text"), NAN, "a bool, a number, or (value, reason), not '1'"),  # type: ignore[arg-type]
        (rubrank.Verdict(True, None), NAN, "a reason is a text, not None"),  # type: ignore[arg-type]
        (rubrank.Verdict(np.float32(0.5), "half"), 0.5, "half"),  # type: ignore[arg-type]
    ],
)
def test_answers_of_every_form_are_scores_or_missing(answer, score, said):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, reason = scores_of(lambda text: answer)
    assert found == score or (np.isnan(found) and np.isnan(score))
    assert said in reason


def test_a_verifier_that_ends_the_program_gives_no_verdict():
    score, reason = scores_of(exits)
    assert np.isnan(score)
    assert reason.startswith("outside-test failed: SystemExit: 3 (")


def test_a_class_without_arguments_is_a_verifier():
    @rubrank.verifier
    class HasE:
        """Is there an e?"""

        def __call__(self, text: str, *, letter: str = "e") -> bool:
            return letter in text

    assert isinstance(HasE, type)
    table = rubrank.grade([{"prompt": "p", "responses": ["tea", "cup"]}], ["HasE"], workers=0)
    assert table.groups[0].scores.tolist() == [[1.0], [0.0]]


async def later(*_):
    return True


class NeedsAnArgument:
    def __init__(self, it):
        self.it = it

    def __call__(self, text):
        return True


class OfTheResponse:
    def __init__(self, text):
        self.text = text


class CalledLater:
    async def __call__(self, text):
        return True


@folded("wrong", [later, functools.partial(later, 1), NeedsAnArgument, OfTheResponse, CalledLater, CalledLater(), 5])
def test_what_can_never_decide_is_refused_when_it_is_registered(wrong):
    with pytest.raises(rubrank.InvalidInput, match="verifier: function must be a function of one response") as error:
        rubrank.verifier("never-decides")(wrong)
    assert " at 0x" not in error.value.got or wrong == 5 or isinstance(wrong, functools.partial | CalledLater)


def test_a_partial_function_has_the_words_of_its_own():
    def at_least(text, *, words: int):
        """So many words."""
        return len(text.words) >= words

    rubrank.verifier("partly-given")(functools.partial(at_least, words=2))
    assert rubrank.find_verifier("partly-given").doc == "So many words."


# -------------------------------------------------------------------------------------------------------------- rules


@folded(
    ("returns", "said"),
    [
        (lambda batch: None, "what it returns must be a rubrank.Fused"),
        (lambda batch: [0.5, 0.5, 0.5], "what it returns must be a rubrank.Fused"),
        (lambda batch: np.zeros(3), "what it returns must be a rubrank.Fused"),
        (lambda batch: rubrank.Fused(batch, "made", np.zeros(1)), "a number for each of the 3 rollouts; got array"),
        (lambda batch: rubrank.Fused(batch, "made", batch.unit_MK), r"3 rollouts; got array"),
        (lambda batch: rubrank.Fused(batch, "made", 1.0), "a number for each of the 3 rollouts; got 1.0"),
        (lambda batch: rubrank.Fused(batch, "made", ["a", "b", "c"]), r"got \['a', 'b', 'c'\]"),
        (lambda batch: rubrank.Fused(batch, "made", [1, [2], 3]), r"got \[1, \[2\], 3\]"),
        (lambda batch: rubrank.Fused(batch, "made", [0, NAN, 1]), "a finite number .* got nan for rollout 1"),
        (lambda batch: rubrank.Fused(batch, "made", [0, 1, np.inf]), "a finite number .* got inf for rollout 2"),
        (
            lambda batch: rubrank.Fused(batch, "made", np.zeros(3), np.ones(3)),
            r"weights_NK must be of the shape \(1, 2",
        ),
    ],
)
def test_a_rule_that_breaks_its_word_is_named(returns, said):
    rule = rule_that(returns)
    groups = [rubrank.Group(id="q", rollouts=tuple(rubrank.Rollout(prompt="p", response=str(i)) for i in range(3)))]
    engine = RewardEngine(rule=rule, rubric=RUBRIC)
    asked = (
        lambda: rubrank.Gated(rule)(BATCH),
        lambda: run_rule(rule, BATCH),
        lambda: rubrank.Gated(rule)(rubrank.grade(groups, RUBRIC).batch()),
        lambda: list(record_table(rubrank.grade(groups, RUBRIC), rule)),
        lambda: engine.fuse(groups, engine.grade(groups), 0),
    )
    for ask in asked:
        with pytest.raises(rubrank.InvalidInput, match=f"rule 'made': .*{said}"):
            ask()


@folded("values", [[1, 0, 1], [True, False, True], np.float32([0.5, 0.25, 1]), np.array([1, 0, 1], dtype=object)])
def test_numbers_of_every_kind_are_rewards(values):
    fused = rubrank.Fused(BATCH, "made", values)
    assert fused.reward.dtype == np.float64
    assert fused.reward.tolist() == [float(value) for value in values]
    assert fused.no_signal.tolist() == [False]


def test_a_rollout_without_any_score_has_the_mean_of_its_group():
    """As under the library's rules: the rule need not know what to say about it."""
    scores = [[1, 0.5], [NAN, NAN], [0, 0.5], [NAN, NAN]]
    batch = rubrank.ScoreBatch.of_arrays(scores, groups=[0, 0, 0, 1])
    best = rule_that(lambda batch: rubrank.Fused(batch, "made", np.fmax.reduce(batch.unit_MK, axis=1)))
    assert best(batch).reward.tolist() == [1.0, 0.75, 0.5, 0.5]
    assert rubrank.find_rule("worst-case")(batch).reward.tolist() == [0.5, 0.25, 0.0, 0.5]


def test_a_gate_holds_a_rule_to_what_it_says_of_itself():
    """A factor below 1 would raise a negative value."""
    below = rule_that(lambda batch: rubrank.Fused(batch, "made", [-1.0, 0.5, 1.0]))
    with pytest.raises(
        rubrank.InvalidInput, match=r"'made': the value must be from 0 to 1, as its `bounded` says; got -1"
    ):
        rubrank.Gated(below)(BATCH)
    free = rule_that(lambda batch: rubrank.Fused(batch, "made", [-1.0, 0.5, 1.0]), bounded=False)
    assert rubrank.Gated(free)(BATCH).reward.tolist() == [0.0, 0.75, 1.0]


@dataclass(frozen=True)
class Shared:
    """A rule with one constant that has to be given, and one that need not be."""

    share: float
    double: bool = False
    most: int = 1
    bounded = True

    def __call__(self, batch):
        return rubrank.Fused(batch, "made", self.share * batch.unit_MK.mean(1))


class Plain:
    """A rule that is no dataclass."""

    bounded = True

    def __init__(self, start=0):
        self.start = start

    def __call__(self, batch):
        return rubrank.Fused(batch, "made", batch.unit_MK.mean(1))


@folded(
    ("expression", "said"),
    [
        ("outside-shared", "outside-shared: share must be given, as it has no default; got nothing. Such as"),
        ("outside-shared:share=1:most=many", "outside-shared: most must be a number; got 'many'"),
        ("outside-shared:share=1:double=perhaps", "outside-shared: double must be true or false; got 'perhaps'"),
        ("outside-plain:begin=1", "outside-plain: parameter must be one of 'start'; got 'begin'"),
    ],
)
def test_constants_of_a_rule_are_checked_by_name_and_kind(expression, said):
    rubrank.rule("outside-shared")(Shared)
    rubrank.rule("outside-plain")(Plain)
    with pytest.raises(rubrank.InvalidInput, match=said):
        rubrank.find_rule(expression)
    assert rubrank.find_rule("outside-shared:share=0.5").share == 0.5
    assert rubrank.find_rule("outside-plain:start=3").start == 3


# ------------------------------------------------------------------------------ what cannot be called as it will be


class OfTwo:
    bounded, name = True, "of-two"

    def __call__(self, batch, other):
        return None


class AsksNothing:
    async def judge(self, question):
        return None


class JudgeOfTwo:
    def __init__(self, other):
        self.other = other

    async def judge(self, question, judge, asker):
        return None


class NoFit:
    name = "no-fit"


class Slotted:
    __slots__ = ()

    def fit(self, wins, ridge):
        return wins


@folded(
    ("register", "wrong"),
    [
        (rubrank.rule, OfTwo),
        (rubrank.judge_kind("outside-kind"), AsksNothing),
        (rubrank.judge_kind("outside-kind"), JudgeOfTwo),
        (rubrank.judge_kind(""), AsksNothing),
        (rubrank.utility_model("outside-model"), lambda wins: wins),
        (rubrank.utility_model("outside-model"), NeedsAnArgument),
        (rubrank.utility_model("outside-model"), NoFit),
        (rubrank.utility_model("outside-model"), Slotted()),
        (rubrank.utility_model("outside-model"), 5),
        (rubrank.attribute("outside-attribute"), lambda: 1),
        (rubrank.attribute("outside-attribute"), later),
        (rubrank.attribute("outside-attribute"), CalledLater()),
        (rubrank.attribute("outside-attribute", columns="ab"), len),
    ],
)
def test_what_cannot_be_called_as_it_will_be_is_refused_at_once(register, wrong):
    with pytest.raises(rubrank.InvalidInput):
        register(wrong)


@folded("result", ["x", "3", {"a": 1}, (1, 2), [[1]], object()])
def test_what_an_attribute_returns_is_a_number(result):
    rubrank.attribute("outside-attribute")(lambda text: result)
    with pytest.raises(rubrank.InvalidInput, match="'outside-attribute': what the function returns must be a number"):
        rubrank.measure(["Tea."], ["outside-attribute"])


@folded("found", [lambda x: x, lambda x: (x, x), lambda x: (x, x, x[0]), lambda x: (x, x, x / 0), lambda x: 3])
def test_a_link_is_checked_before_it_is_used(found):
    def link(self, x):
        with np.errstate(all="ignore"):
            return found(x)

    fit = lambda self, wins, ridge: (wins.sum(-1) - wins.sum(-2)) / ridge  # noqa: E731
    model = type("Bad", (), {"name": "bad-link", "fit": fit, "link": link})()
    scores, tokens = np.arange(20.0).reshape(10, 2, 1) % 7, np.arange(20.0).reshape(10, 2, 1)
    with pytest.raises(rubrank.InvalidInput, match=r"utility model 'bad-link': link\(x\) must be log F\(x\) and its"):
        rubrank.fuse(scores, attributes=tokens, model=model)


def judgment_of(**fields):
    """What a kind of one's own that returns this says about two rollouts."""

    @rubrank.judge_kind("outside-judge")
    async def outside_judge(question, judge, asker):
        return fields["it"] if "it" in fields else rubrank.Judgment(**fields)

    rollouts = tuple(rubrank.Rollout(prompt="p", response=text) for text in "ab")
    question = rubrank.Question(rubrank.Group(id="q", rollouts=rollouts), (CRITERION,), np.ones((2, 1), dtype=bool))
    judge = rubrank.Judge(kind="outside-judge", endpoints=[{"base_url": "http://localhost:1/v1", "model": "m"}])
    return asyncio.run(judge_question(question, judge, lambda _: None))


CRITERION = rubrank.Criterion(name="Tea", question="Is it about tea?")
GOOD = rubrank.Verdict(1.0, "yes")


@folded(
    ("fields", "said"),
    [
        ({"it": None}, "what it returns must be a rubrank.Judgment; got None"),
        ({"it": {}}, "what it returns must be a rubrank.Judgment; got {}"),
        ({"verdicts": {(0, "Tea"): 1.0}}, r"verdicts must be rubrank.Verdict by .*got 1.0 for \(0, 'Tea'\)"),
        ({"verdicts": {(0, "Tea"): rubrank.Verdict("1", "x")}}, "verdicts must be rubrank.Verdict by"),
        ({"verdicts": {(2, "Tea"): GOOD}}, r"for \(2, 'Tea'\)"),
        ({"verdicts": {(0, "Milk"): GOOD}}, r"for \(0, 'Milk'\)"),
        ({"verdicts": {"Tea": GOOD}}, "for 'Tea'"),
        (
            {"outcomes": {"Tea": np.ones(2)}},
            r"outcomes must be an array of shape \(2, 2\) by criterion; got shape \(2,\)",
        ),
        ({"outcomes": {"Milk": np.ones((2, 2))}}, "outcomes must be .* for 'Milk'"),
    ],
)
def test_a_kind_of_judge_that_breaks_its_word_is_named(fields, said):
    with pytest.raises(rubrank.InvalidInput, match=f"judge kind 'outside-judge': .*{said}"):
        judgment_of(**fields)


def test_a_value_of_a_judge_outside_the_domain_is_missing():
    found = judgment_of(verdicts={(0, "Tea"): GOOD, (1, "Tea"): rubrank.Verdict(7.0, "very")}).verdicts
    assert found[0, "Tea"] == GOOD
    assert found[1, "Tea"].value is None
    assert found[1, "Tea"].reason.startswith("outside-judge gave 7, which is not in its domain (")


# ------------------------------------------------------------------------------------------------ on the command line


def run(*line):
    return CliRunner().invoke(app, list(map(str, line)))


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A folder of the user's, with a table of scores and nothing of ours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "wide.csv").write_text("group,F,S\nq,1,0.2\nq,0,0.3\nr,1,1\nr,0,0.5\n")
    return tmp_path


FAILS = """
import rubrank
@rubrank.rule("failing-rule-{n}")
class Failing:
    bounded = True
    def __call__(self, batch):
        return {{}}["x"]
@rubrank.utility_model("failing-model-{n}")
def fit(wins, ridge):
    return 1 / 0
"""


@pytest.mark.parametrize(
    "line",
    [
        ["fuse", "wide.csv", "--criteria", "F,S", "--rule", "failing-rule-{n}"],
        ["fuse", "wide.csv", "--criteria", "F,S", "--rule", "failing-rule-{n}+"],
        ["fuse", "wide.csv", "--criteria", "F,S", "--set", "model=failing-model-{n}"],
        ["explain", "wide.csv", "--criteria", "F,S", "--group", "q", "--rule", "failing-rule-{n}"],
        ["record", "wide.csv", "--criteria", "F,S", "--rule", "failing-rule-{n}", "-o", "records.jsonl"],
        ["replay", "wide.csv", "--criteria", "F,S", "--rules", "rlvr2,failing-rule-{n}"],
        ["robustness", "wide.csv", "--criteria", "F,S", "--rules", "failing-rule-{n}"],
        ["report", "wide.csv", "--criteria", "F,S", "--rule", "failing-rule-{n}", "-o", "report.html"],
    ],
    ids=lambda line: f"{line[0]} {line[-1]}",
)
def test_code_of_the_users_that_fails_is_one_line_with_its_place(line, outside, request):
    n = abs(hash(request.node.name))
    (outside / f"failing_{n}.py").write_text(FAILS.format(n=n))
    done = run("--import", f"failing_{n}", *(word.format(n=n) for word in line))
    assert done.exit_code == 2, done.output
    *_, last = done.stderr.splitlines()
    assert last.startswith(f"rubrank: failing_{n}.py, line ")
    assert done.stderr.count("rubrank: ") == 1
    assert "failed: KeyError: 'x'" in done.stderr or "failed: ZeroDivisionError: division by zero" in done.stderr
    assert not {path.name for path in outside.iterdir()} - {"wide.csv", f"failing_{n}.py", "__pycache__"}


def test_faults_of_our_own_keep_their_traceback():
    def fails():
        rubrank.errors.counted("x", "group")  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="Cannot specify") as caught:
        fails()
    assert "test_outside_code.py, line " in (find_failed_line(caught.value) or "")
    caught.value.__traceback__ = caught.tb.tb_next.tb_next  # type: ignore[union-attr]
    assert find_failed_line(caught.value) is None


@folded("name", ["", ".", ".x", "a b", "./mod.py", "mod.py", "/tmp/mod.py", "a..b", "a-b", "mod."])
def test_what_is_no_name_of_a_module_is_refused_before_anything_is_imported(name):
    with pytest.raises(rubrank.InvalidInput, match="import: module must be the name of a module, such as") as error:
        rubrank._plugins.import_module(name)
    assert ("not its file" in error.value.remedy) == ("mod.py" in name)


@folded(
    "code", ["import sys; sys.exit(3)", "raise SystemExit", "raise KeyError('boom')", "def f(:", "import none_such"]
)
def test_a_module_that_ends_or_fails_while_it_is_imported_is_one_line(code, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ending")
    name = f"ending_{abs(hash(code))}"
    (folder / f"{name}.py").write_text(code)
    sys.path.insert(0, str(folder))
    try:
        done = run("--import", name, "criteria")
    finally:
        sys.path.remove(str(folder))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert f"import: module must be a module that can be imported; got '{name}'" in done.stderr


def test_files_and_options_know_a_rule_from_outside(outside):
    rubrank.rule("outside-plain")(Plain)
    fuse_file("wide.csv", "out.csv", FuseOptions(rule="outside-plain:start=2+"), criteria="all")
    assert "reward" in (outside / "out.csv").read_text()


# -------------------------------------------------------------------------------------- lines that cannot be read


@folded(
    ("line", "said"),
    [
        ("fus", "rubrank: no such command 'fus'. Did you mean 'fuse'? See `rubrank --help`."),
        ("fuse", "rubrank: fuse: missing argument 'file'. See `rubrank fuse --help`."),
        ("fuse a.csv --rul x", "rubrank: fuse: no such option: --rul. Did you mean --rule? See `rubrank fuse --help`."),
        ("fuse a.csv --weight", "rubrank: fuse: option '--weight' requires an argument. See `rubrank fuse --help`."),
        (
            "fuse a.csv --import x",
            "rubrank: fuse: no such option: --import. Put it before the verb",
        ),
        (
            "replay a.csv --step x",
            "rubrank: replay: --step must be a whole number; got 'x'. See `rubrank replay --help`.",
        ),
        ("fuse a.csv --engine moon", "rubrank: fuse: --engine must be one of 'local', 'ray'; got 'moon'. See"),
        ("view x --port -1", "rubrank: view: --port must be ≥ 0; got '-1'. See `rubrank view --help`."),
        ("judge sho", "rubrank: judge: no such command 'sho'. Did you mean 'show'? See `rubrank judge --help`."),
        ("--bogus", "rubrank: no such option: --bogus. See `rubrank --help`."),
        ("--import", "rubrank: option '--import' requires an argument. See `rubrank --help`."),
        ("explain a.csv", "rubrank: explain: missing option '--group'. See `rubrank explain --help`."),
    ],
)
def test_a_line_that_cannot_be_read_is_one_line(line, said):
    done = CliRunner().invoke(app, line.split(), prog_name="rubrank")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
