"""Decision models: what is asked in the System One protocol, and what is made of the answers.

The replies have the forms that the sources of typesafe-sdk 0.7.5, verifiers 0.4.0, autorubric 1.6.1 and deepeval 4.3.1
read and write. A server on the loopback interface stands for the model; no real one was asked.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from scripted import CRITERION, group, judge, question
from server import Answer, Asked, Server

import rubrank
from rubrank.errors import InvalidInput
from rubrank.grading.preview import estimate, show_calls
from rubrank.judges.client.runtime import check_judges
from rubrank.judges.judge import Call, Endpoint, Judge, Judges, Price, Reply, load_judges
from rubrank.judges.kinds.scores import Decision
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Criterion

KIND = Criterion(name="Kind", question="Is it kind?", domain="ternary")
QUALITY = Criterion(name="GeneralQuality")
FACTS = Criterion(name="MaterialFaithfulness")
LOW = Criterion(name="Rude", question="How rude is it?", domain="ternary", direction="lower")


class Decider:
    """Answers each question by its type, with these probabilities of the levels, lowest first."""

    def __init__(self, *probabilities: float, change: Any = None) -> None:
        self.probabilities = probabilities
        self.change = change
        self.calls: list[Call] = []

    async def ask(self, call: Call) -> Reply:
        self.calls.append(call)
        body = json.loads(call.messages[0]["content"])
        answers = {key: answer_to(asked, self.probabilities) for key, asked in body["questions"].items()}
        if self.change is not None:
            self.change(answers)
        return Reply(json.dumps(answers))


def answer_to(asked: dict[str, Any], probabilities: tuple[float, ...]) -> dict[str, Any]:
    if asked["type"] == "noul":
        return {"type": "noul", "noul": probabilities[-1]}
    names = list(asked["criteria"]) if asked["type"] == "choice" else [str(i) for i in range(len(asked["criteria"]))]
    padded = [*probabilities, *[0.0] * (len(names) - len(probabilities))]
    answer = {"type": asked["type"], "probabilities": dict(zip(names, padded, strict=True)), "confidence": 0.5}
    if asked["type"] == "score":
        return {**answer, "score": sum(i * p for i, p in enumerate(padded)), "legend": {}}
    return {**answer, "choice": names[padded.index(max(padded))]}


def ask(asker: Decider, criteria: tuple[Criterion, ...] = (CRITERION,), about: Any = 1, **given: Any) -> Any:
    return asyncio.run(Decision().judge(question(about, criteria), judge(kind="decision", **given), asker))


def test_all_criteria_of_a_response_are_one_call():
    asker = Decider(0.25, 0.75)
    judgment = ask(asker, (CRITERION, KIND, QUALITY), 3)
    assert len(asker.calls) == Decision().calls(question(3, (CRITERION, KIND, QUALITY)), judge(kind="decision")) == 3
    body = json.loads(asker.calls[0].messages[0]["content"])
    assert body["state"]["response"] == "zq-r0-qz"
    assert body["state"]["conversation"] == [{"role": "user", "content": "Say something."}]
    assert {key: asked["type"] for key, asked in body["questions"].items()} == {
        "Clear": "noul",
        "Kind": "score",
        "GeneralQuality": "score",
    }
    assert body["questions"]["Clear"]["instructions"].startswith("Is it clear?")
    assert set(body["questions"]["Clear"]["criteria"]) == {"true", "false"}
    assert len(body["questions"]["Kind"]["criteria"]) == 3
    assert (judgment.asked, judgment.lost) == (9, 0)


def test_the_likeliest_level_is_the_score_and_all_are_kept():
    verdict = ask(Decider(0.25, 0.75)).verdicts[0, "Clear"]
    assert verdict.value == 1.0
    assert verdict.probabilities == ((0.0, 0.25), (1.0, 0.75))
    verdict = ask(Decider(0.5, 0.2, 0.3), (KIND,)).verdicts[0, "Kind"]
    assert verdict.value == 0.0
    assert verdict.probabilities == ((0.0, 0.5), (0.5, 0.2), (1.0, 0.3))
    assert ask(Decider(0.5, 0.2, 0.3), (KIND,), expected=True).verdicts[0, "Kind"].value == pytest.approx(0.4)


def test_equally_likely_levels_give_the_less_favourable_one():
    assert ask(Decider(0.4, 0.2, 0.4), (KIND,)).verdicts[0, "Kind"].value == 0.0
    assert ask(Decider(0.4, 0.2, 0.4), (LOW,)).verdicts[0, "Rude"].value == 1.0


def test_a_range_is_asked_by_its_anchors_and_scored_by_the_mean():
    verdict = ask(Decider(0.0, 0.0, 0.5, 0.5), (QUALITY,)).verdicts[0, "GeneralQuality"]
    values = [value for value, _ in verdict.probabilities]
    assert values == sorted(values)
    assert (values[0], values[-1]) == (0.0, 1.0)
    assert verdict.value == pytest.approx((values[2] + values[3]) / 2)


def test_what_cannot_be_judged_is_a_choice_without_a_verdict():
    asker = Decider(0.2, 0.2)
    ask(asker, (FACTS,))
    asked = json.loads(asker.calls[0].messages[0]["content"])["questions"]["MaterialFaithfulness"]
    assert asked["type"] == "choice"
    options = list(asked["criteria"])
    assert options[-1] == "cannot be judged"
    undecided = ask(Decider(*[0.1] * (len(options) - 1), 1 - 0.1 * (len(options) - 1)), (FACTS,))
    verdict = undecided.verdicts[0, "MaterialFaithfulness"]
    assert verdict.value is None
    assert verdict.reason.startswith("the judge cannot tell")
    decided = ask(
        Decider(*[0.6 / (len(options) - 1)] * (len(options) - 2), 0.3 + 0.6 / (len(options) - 1), 0.1), (FACTS,)
    )
    assert sum(p for _, p in decided.verdicts[0, "MaterialFaithfulness"].probabilities) == pytest.approx(1.0)


def test_many_levels_are_a_choice():
    many = Criterion(name="Many", question="How many?", anchors={n: f"level {n}" for n in range(12)})
    asker = Decider(*[0.0] * 7, 1.0)
    assert ask(asker, (many,)).verdicts[0, "Many"].value == 7.0
    assert json.loads(asker.calls[0].messages[0]["content"])["questions"]["Many"]["type"] == "choice"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda answers: answers.pop("Kind"), "no answer about it"),
        (lambda answers: answers.update(Kind={"type": "noul", "noul": 0.5}), "type 'noul' instead of 'score'"),
        (lambda answers: answers["Kind"].pop("probabilities"), "not those of the levels"),
        (lambda answers: answers["Kind"]["probabilities"].update({"3": 0.0}), "not those of the levels"),
        (lambda answers: answers["Kind"]["probabilities"].update({"2": 0.9}), "unusable answer"),
        (lambda answers: answers["Kind"]["probabilities"].update({"2": "many"}), "unusable answer"),
        (lambda answers: answers["Kind"]["probabilities"].update({"2": -0.1}), "from 0 to 1"),
        (lambda answers: answers["Kind"]["probabilities"].update({"2": 10**400}), "unusable answer"),
        (lambda answers: answers["Kind"].update(probabilities={"0": False, "1": False, "2": True}), "not numbers"),
    ],
)
def test_an_answer_that_cannot_be_used_is_missing_alone(change, reason):
    judgment = ask(Decider(0.1, 0.2, 0.7, change=change), (CRITERION, KIND))
    assert judgment.verdicts[0, "Clear"].value == 1.0
    assert judgment.verdicts[0, "Kind"].value is None
    assert reason in judgment.verdicts[0, "Kind"].reason
    assert (judgment.asked, judgment.lost) == (2, 1)


@pytest.mark.parametrize("noul", [1.2, -0.1, True, None, "yes", float("nan")])
def test_a_probability_must_be_one(noul):
    judgment = ask(Decider(0.5, 0.5, change=lambda answers: answers["Clear"].update(noul=noul)))
    assert judgment.verdicts[0, "Clear"].value is None


def test_criteria_that_do_not_fit_are_asked_in_several_requests():
    criteria = tuple(Criterion(name=f"C{k}", question="Is it " + "very " * 60 + "good?") for k in range(6))
    about = question(2, criteria)
    small = judge(kind="decision", request_tokens=700)
    asker = Decider(0.1, 0.9)
    judgment = asyncio.run(Decision().judge(about, small, asker))
    parts = [list(json.loads(call.messages[0]["content"])["questions"]) for call in asker.calls]
    assert len(parts) == Decision().calls(about, small) > 2
    assert sorted(name for part in parts for name in part) == sorted(2 * [criterion.name for criterion in criteria])
    assert all(json.loads(call.messages[0]["content"])["state"]["response"] for call in asker.calls)
    assert judgment.lost == 0


def test_a_response_that_is_too_long_is_missing_without_a_call():
    long = Group(
        id="q", rollouts=(Rollout(prompt="Write.", response="word " * 5000), Rollout(prompt="Write.", response="w"))
    )
    asker = Decider(0.1, 0.9)
    judgment = ask(asker, (CRITERION,), long, state_tokens=2000)
    assert len(asker.calls) == 1
    assert judgment.verdicts[0, "Clear"].reason.startswith("too long for the judge: about ")
    assert judgment.verdicts[1, "Clear"].value == 1.0


def test_a_question_beyond_the_limit_of_a_request_is_missing_without_a_call():
    asker = Decider(0.1, 0.9)
    judgment = ask(asker, (CRITERION,), request_tokens=10)
    assert asker.calls == []
    assert judgment.verdicts[0, "Clear"].reason.endswith("at most 10 (request_tokens)")


def test_a_criterion_that_is_too_long_leaves_the_others_in_one_request():
    first, last = (Criterion(name=name, question="Is it good?") for name in ("First", "Last"))
    long = Criterion(name="Long", question="Is it " + "very " * 3000 + "good?")
    about = question(1, (first, long, last))
    small = judge(kind="decision", state_tokens=1500)
    asker = Decider(0.1, 0.9)
    judgment = asyncio.run(Decision().judge(about, small, asker))
    (call,) = asker.calls
    assert list(json.loads(call.messages[0]["content"])["questions"]) == ["First", "Last"]
    assert Decision().calls(about, small) == 1
    assert judgment.verdicts[0, "Long"].reason.startswith("too long for the judge: about ")
    assert [judgment.verdicts[0, name].value for name in ("First", "Last")] == [1.0, 1.0]
    assert (judgment.asked, judgment.lost) == (3, 1)


def test_duplicates_share_a_call():
    asker = Decider(0.1, 0.9)
    assert ask(asker, (CRITERION,), group("a", "a", "b")).asked == 3
    assert len(asker.calls) == 2


def test_what_the_protocol_has_no_place_for_is_refused():
    for given in (
        {"prompt": "line\n{criteria} {response} {reply}"},
        {"examples": {"Clear": [{}]}},
        {"probabilities": True},
    ):
        endpoints = [{"base_url": "http://127.0.0.1:1/v1", "model": "m"}]
        with pytest.raises(InvalidInput, match=next(iter(given))):
            load_judges({"kind": "decision", "endpoints": endpoints, **given})


# ---------------------------------------------------------------------------------------------------------- over HTTP


def reply_to(asked: Asked) -> Answer:
    answers = {key: answer_to(body, (0.2, 0.8)) for key, body in asked.body["questions"].items()}
    usage = {"input_tokens": 120, "output_tokens": 12}
    return Answer(body=json.dumps({"model": "jev-1", "answers": answers, "usage": usage}))


def judges_at(url: str, **given: Any) -> Judges:
    endpoint = Endpoint(base_url=url, model="test-model", price=Price(input=0.042), **given.pop("endpoint", {}))
    return Judges(
        judges=(Judge(kind="decision", endpoints=(endpoint,), retry={"attempts": 2, "first_wait": 0.0}, **given),)
    )


ROLLOUTS = [{"prompt": "Greet.", "response": "Hello."}, {"prompt": "Greet.", "response": "Go away."}]
RUBRIC = [CRITERION, KIND]


def test_graded_over_http_with_price_and_cache(tmp_path):
    with Server(reply_to) as server:
        judges = judges_at(server.url).model_copy(update={"cache": str(tmp_path / "replies.sqlite")})
        table = rubrank.grade(ROLLOUTS, RUBRIC, judges=judges)
        again = rubrank.grade(ROLLOUTS, RUBRIC, judges=judges)
        posted = [asked for asked in server.asked if asked.path == "/v1/systemone"]
    assert len(posted) == 2
    assert posted[0].body["model"] == "test-model"
    assert set(posted[0].body) == {"model", "state", "questions"}
    assert table.groups[0].score(0, "Clear") == 1.0
    assert table.groups[0].probabilities["Clear"][0] == ((0.0, pytest.approx(0.2)), (1.0, pytest.approx(0.8)))
    assert table.judging.account.cost == pytest.approx(2 * 120 * 0.042 / 1e6)
    assert again.judging.account.calls == 0
    assert again.groups[0].probabilities == table.groups[0].probabilities


def test_wrapped_replies_and_other_paths_as_other_hosts_have_them():
    def wrapped(asked: Asked) -> Answer:
        answers = {key: answer_to(body, (0.2, 0.8)) for key, body in asked.body["questions"].items()}
        return Answer(body=json.dumps({"result": {"answers": answers, "usage": {"inputTokens": 50}}, "success": True}))

    with Server(wrapped) as server:
        table = rubrank.grade(ROLLOUTS, RUBRIC, judges=judges_at(server.url, endpoint={"path": "/evaluations"}))
        assert {asked.path for asked in server.asked if asked.method == "POST"} == {"/v1/evaluations"}
    assert table.judging.account.input_tokens == 100
    assert table.judging.missing == 0.0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(body="{"), "malformed reply: Expecting"),
        (Answer(body='{"answers": {}}'), "malformed reply: no answers"),
        (Answer(body='{"error": {"message": "busy"}}'), "error beside the reply: busy"),
        (Answer(status=422, body='{"detail": [{"loc": ["body", "state"], "msg": "Field required"}]}'), "HTTP 422"),
        (Answer(status=500), "HTTP 500"),
    ],
)
def test_a_failing_server_gives_missing_with_a_reason(answer, reason):
    with Server([answer]) as server:
        judges = judges_at(server.url).model_copy(update={"most_missing": 1.0})
        with pytest.raises(rubrank.JudgingFailed, match=reason.partition(":")[0]):
            rubrank.grade(ROLLOUTS, [CRITERION], judges=judges)


def test_the_health_check_asks_a_question():
    with Server(reply_to, models=None) as server:
        check_judges(judges_at(server.url))
        assert [asked.path for asked in server.asked][-1] == "/v1/systemone"
    with Server([Answer(status=401, body="{}")], models=None) as server, pytest.raises(InvalidInput, match="key"):
        check_judges(judges_at(server.url))


def test_a_dry_run_counts_calls_and_no_output():
    counted = estimate(ROLLOUTS, RUBRIC, judges_at("http://127.0.0.1:1/v1")).judges[0]
    assert (counted.calls, counted.output_tokens) == (2, 0)
    assert counted.cost == pytest.approx(counted.input_tokens * 0.042 / 1e6)
    shown = show_calls(RUBRIC, ROLLOUTS, judges_at("http://127.0.0.1:1/v1"))
    assert json.loads(shown.calls[0].messages[0]["content"])["state"]["response"] == "Hello."
