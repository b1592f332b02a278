"""Criteria and a response → requests to a decision model, in the System One protocol.

    POST {base_url}/systemone
    {"model": "jev-latest",
     "state": {"conversation": […], "response": "West Lake."},
     "questions": {"Tone": {"type": "noul", "instructions": "Is it polite?", "criteria": {"true": …, "false": …}},
                   "Depth": {"type": "score", "instructions": "How deep is it?", "criteria": ["shallow", …, "deep"]}}}

A decision model reads the state once and answers every question with probabilities instead of a text. A criterion is
asked as the type that fits its scale:

    two values                        noul: the probability of the better one
    three to ten values, or a range   score: one level for each value, or for each anchor of a range
    more, or criteria of the library  choice: one option for each value, and "cannot be judged"
    that need material

Requests are limited in size (`Judge.request_tokens`, `Judge.state_tokens`): criteria that do not fit into one request
are asked in several, each with the whole state.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rubrank._plain import shortened
from rubrank.judges.judge import SYSTEM_ONE, Call, Judge
from rubrank.judges.prompting.calls import describe_guidelines, describe_question, find_prompt
from rubrank.judges.prompting.fence import defuse
from rubrank.judges.prompting.material import as_json, choose_language, group_references
from rubrank.judges.prompting.prompt_files import PromptLanguage, load_prompt
from rubrank.judges.prompting.reply_form import ReplyForm, batch_keys, make_form, spell
from rubrank.judges.prompting.tokens import estimated_tokens
from rubrank.rollouts.rollout import Rollout, ToolCall
from rubrank.rubrics.rubric import Criterion

CANNOT_JUDGE = "cannot be judged"
"""The option of a choice that gives no verdict."""
_MAX_SCORE_LEVELS = 10
_VERSION = "decision 1"
_DENSER = 4 / 3  # JSON has more tokens for its length than prose, by which tokens are estimated


@dataclass(frozen=True)
class DecisionQuestion:
    """One criterion as a question to a decision model."""

    key: str
    body: Mapping[str, Any]
    values: tuple[float, ...]
    """The score of each level, lowest first."""

    @property
    def type(self) -> str:
        """noul, score or choice."""
        return str(self.body["type"])

    @property
    def options(self) -> tuple[str, ...]:
        """The names under which the answer has its probabilities, in the order of `values`."""
        if self.type == "noul":
            return ("false", "true")
        if self.type == "score":
            return tuple(str(level) for level in range(len(self.values)))
        return tuple(self.body["criteria"])[: len(self.values)]


@dataclass(frozen=True)
class DecisionRequest:
    """One call, and the criteria that it is about; or why it cannot be made."""

    criteria: tuple[Criterion, ...]
    questions: tuple[DecisionQuestion, ...]
    call: Call | None
    problem: str = ""


def make_requests(criteria: Sequence[Criterion], rollout: Rollout, judge: Judge) -> list[DecisionRequest]:
    """The requests about one response: one, or several if the criteria do not fit into one."""
    language = choose_language(judge.language, rollout)
    questions = []
    for key, criterion in zip(batch_keys(criteria), criteria, strict=True):
        questions.append(make_question(key, criterion, language))
    state = make_state(criteria, rollout, language)
    state_tokens = count_tokens(state)
    question_tokens = [count_tokens(question.body) for question in questions]

    limit, limit_name = min((judge.state_tokens, "state_tokens"), (judge.request_tokens, "request_tokens"))
    requests: list[DecisionRequest] = []
    first = 0
    while first < len(criteria):
        if state_tokens + question_tokens[first] > limit:
            total = state_tokens + question_tokens[first]
            problem = f"too long for the judge: about {total:,} tokens, at most {limit:,} ({limit_name})"
            requests.append(DecisionRequest((criteria[first],), (questions[first],), None, problem))
            first += 1
            continue
        end = first + 1
        total = state_tokens + question_tokens[first]
        while end < len(criteria) and total + question_tokens[end] <= judge.request_tokens:
            if state_tokens + question_tokens[end] > judge.state_tokens:
                break
            total += question_tokens[end]
            end += 1
        part = tuple(questions[first:end])
        requests.append(DecisionRequest(tuple(criteria[first:end]), part, _make_call(state, part, criteria[first:end])))
        first = end
    return requests


def _make_call(state: Mapping[str, Any], questions: Sequence[DecisionQuestion], criteria: Sequence[Criterion]) -> Call:
    body = {"state": state, "questions": {question.key: question.body for question in questions}}
    names = ", ".join(criterion.name for criterion in criteria)
    return Call(
        ({"role": "user", "content": json.dumps(body, ensure_ascii=False)},),
        prompt_version=_VERSION,
        purpose=f"{shortened(names, 80)} (decision)",
        protocol=SYSTEM_ONE,
    )


def make_state(criteria: Sequence[Criterion], rollout: Rollout, language: PromptLanguage) -> dict[str, Any]:
    """What all questions are about: conversation, tools, references, the response."""
    state: dict[str, Any] = {}
    if any(criterion.question is not None for criterion in criteria):
        state["how to read questions"] = describe_guidelines(load_prompt("_question", language))
    conversation = []
    for message in rollout.prompt:
        shown = {"role": message.role, "content": defuse(message.content)}
        if message.tool_calls:
            shown["tool_calls"] = _show_tool_calls(message.tool_calls)
        conversation.append(shown)
    if conversation:
        state["conversation"] = conversation
    if rollout.tools:
        state["tools"] = defuse("\n".join(map(as_json, rollout.tools)))
    prompts = [find_prompt(criterion, language) for criterion in criteria]
    references = group_references(criteria, prompts, [rollout])
    if references:
        state["reference"] = {names: defuse(text) for names, text in references.items()}
    if rollout.tool_calls:
        state["tool_calls"] = _show_tool_calls(rollout.tool_calls)
    state["response"] = defuse(rollout.answer)
    return state


def _show_tool_calls(calls: Sequence[ToolCall]) -> str:
    return defuse(as_json([call.model_dump(exclude_defaults=True) for call in calls]))


def make_question(key: str, criterion: Criterion, language: PromptLanguage) -> DecisionQuestion:
    """The question about one criterion, of the type that fits its scale."""
    prompt = find_prompt(criterion, language)
    form = make_form(criterion, prompt, whole=True)
    instructions = describe_question(criterion, prompt, alone=criterion.question is not None)
    levels = _list_levels(criterion, form)
    values = tuple(value for value, _, _ in levels)
    texts = [text for _, _, text in levels]
    # A user's question can nearly always be answered; criteria of the library that need material say when not.
    may_abstain = bool(form.cannot_judge) and criterion.question is None
    if may_abstain or len(levels) > _MAX_SCORE_LEVELS:
        options = {name: text for _, name, text in levels}
        if may_abstain:
            options[CANNOT_JUDGE] = form.cannot_judge
        body: dict[str, Any] = {"type": "choice", "instructions": instructions, "criteria": options}
    elif len(levels) == 2:
        body = {"type": "noul", "instructions": instructions, "criteria": {"true": texts[1], "false": texts[0]}}
    else:
        body = {"type": "score", "instructions": instructions, "criteria": texts}
    return DecisionQuestion(key, body, values)


def _list_levels(criterion: Criterion, form: ReplyForm) -> list[tuple[float, str, str]]:
    """(score, name, meaning) of every level, lowest first; for a range its anchors."""
    scale = form.scale
    if not scale.steps:
        meanings = [text for _, text in reversed(form.lines)]
        return [(value, spell(n), text) for n, value, text in zip(scale.asked, scale.scores, meanings, strict=True)]
    domain = criterion.value_domain
    levels = []
    for label, text in reversed(form.lines):  # such as ("7–8", "good, with lapses")
        numbers = [float(number) for number in label.split("–")]
        share = math.fsum(numbers) / len(numbers) / scale.asked[-1]
        levels.append((round(domain.low + share * (domain.high - domain.low), 8), label, text))
    return levels


def count_tokens(data: Any) -> int:
    """About how many tokens a part of a request has; rather too many than too few."""
    return math.ceil(_DENSER * estimated_tokens(json.dumps(data, ensure_ascii=False)))
