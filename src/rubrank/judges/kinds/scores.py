"""Kinds of judges that score responses.

    absolute    a chat model is asked about one criterion in a call       8 rollouts × 3 criteria: 24 calls
    batched     a chat model is asked about all criteria in a call        8 rollouts × 3 criteria: 8 calls
    decision    a decision model returns probabilities for all criteria   8 rollouts × 3 criteria: 8 calls

"batched" is cheaper than "absolute", because the response is read once. If its call fails, the verdicts about that
response are missing for all criteria; if only one entry of the reply cannot be read, its verdict alone is missing.

`probabilities: true` keeps beside each score how likely the model found the other values, if the server returns
log-probabilities. `expected: true` (absolute and decision) scores by their mean, 0.83 instead of 1: that breaks ties
which a coarse domain leaves, but may lie between the values of the domain.

Duplicate rollouts that are judged on the same criteria share a call.

What a `Question` asks about a whole group is divided in steps. Kind "decision" takes all three, the others the first:

    Request             one rollout and the criteria that it is judged on
    _DecisionCall       the criteria of a request that fit into one call
    _CallEntry          one criterion in such a call
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rubrank._plain import shorten
from rubrank.errors import InvalidInput
from rubrank.judges.design import find_duplicates
from rubrank.judges.judge import (
    SYSTEM_ONE,
    Asker,
    Call,
    Declined,
    Judge,
    Judgment,
    Question,
    Reply,
    gather_all,
    report_if_unreadable,
)
from rubrank.judges.parsing import add_probabilities, read_absolute, read_batched, read_expected
from rubrank.judges.prompting import absolute_call, batched_call, select_prompt_options
from rubrank.judges.prompting.calls import describe_guidelines, describe_question
from rubrank.judges.prompting.material import as_json, choose_language, defuse, group_references
from rubrank.judges.prompting.prompt_files import PromptLanguage, load_criterion_prompt, load_prompt
from rubrank.judges.prompting.reply_form import make_batch_keys, make_form
from rubrank.judges.prompting.tokens import estimate_tokens
from rubrank.rollouts.rollout import Rollout, ToolCall
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.distribution import Distribution, make_distribution, mean_of, most_probable
from rubrank.verifiers.verifier import Verdict, missing


class Request(NamedTuple):
    """What is asked about one response: a rollout, and the criteria that it is judged on."""

    shown: int
    """The number of the rollout in the group that is shown to the judge: of duplicates the first."""
    columns: tuple[int, ...]
    """The places of the criteria in `Question.criteria`."""


def list_requests(question: Question, *, one_criterion: bool = False) -> list[tuple[int, Request]]:
    """Return (number of a rollout, request about its wanted cells) for every rollout that has any.

    Duplicates have equal requests, which are asked once: if rollout 2 repeats rollout 0, the list has
    (0, Request(0, …)) and (2, Request(0, …)).

    one_criterion: a request for each of the cells, instead of one for all of them.
    """
    first_of = find_duplicates(question.group.rollouts)
    requests = []
    for i, row in enumerate(question.wanted):
        columns = row.nonzero()[0].tolist()
        if one_criterion:
            requests += [(i, Request(first_of[i], (k,))) for k in columns]
        elif columns:
            requests.append((i, Request(first_of[i], tuple(columns))))
    return requests


def count_distinct(requests: Sequence[tuple[int, Request]]) -> int:
    """Return how many calls these requests take."""
    return len({request for _, request in requests})


async def judge_requests(
    requests: Sequence[tuple[int, Request]],
    ask: Callable[[Request], Coroutine[Any, Any, dict[str, Verdict]]],
) -> Judgment:
    """Make each request once, and give its verdicts to all rollouts that share it."""
    distinct = list(dict.fromkeys(request for _, request in requests))
    answers = dict(zip(distinct, await gather_all(map(ask, distinct)), strict=True))
    verdicts = {}
    for i, request in requests:
        for name, verdict in answers[request].items():
            verdicts[i, name] = verdict
    missing_count = sum(verdict.value is None for verdict in verdicts.values())
    return Judgment(verdicts, asked=len(verdicts), lost=missing_count)


class Absolute:
    """Kind "absolute"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """Return one call for every wanted cell, not counting duplicates."""
        return count_distinct(list_requests(question, one_criterion=True))

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """Return a verdict for every wanted cell."""
        needs_logprobs = judge.expected or judge.probabilities

        async def ask(request: Request) -> dict[str, Verdict]:
            criterion = question.criteria[request.columns[0]]  # the only one
            examples = judge.examples.get(criterion.name, ())
            rollout = question.group.rollouts[request.shown]
            call = absolute_call(
                criterion,
                rollout,
                examples=examples,
                whole=needs_logprobs,
                **select_prompt_options(judge),
            )
            if needs_logprobs:
                call = replace(call, logprobs=True)

            reply = await asker.ask(call)
            if judge.expected:
                verdict = read_expected(reply, criterion, call=call)
            else:
                verdict = read_absolute(reply, criterion, call=call)
                if judge.probabilities:
                    verdict = add_probabilities(verdict, reply, criterion)
            report_if_unreadable(asker, call, reply, [verdict])
            return {criterion.name: verdict}

        return await judge_requests(list_requests(question, one_criterion=True), ask)


class Batched:
    """Kind "batched"."""

    def calls(self, question: Question, judge: Judge) -> int:
        """Return one call for every rollout with a wanted cell, not counting duplicates."""
        return count_distinct(list_requests(question))

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """Return a verdict for every wanted cell."""

        async def ask(request: Request) -> dict[str, Verdict]:
            criteria = [question.criteria[k] for k in request.columns]
            rollout = question.group.rollouts[request.shown]
            call = batched_call(
                criteria, rollout, examples=judge.examples, **select_prompt_options(judge)
            )
            if judge.probabilities:
                call = replace(call, logprobs=True)

            reply = await asker.ask(call)
            verdicts = read_batched(reply, criteria, call=call)
            if judge.probabilities:
                for key, criterion in zip(make_batch_keys(criteria), criteria, strict=True):
                    verdicts[criterion.name] = add_probabilities(
                        verdicts[criterion.name], reply, criterion, key
                    )
            report_if_unreadable(asker, call, reply, verdicts.values())
            return verdicts

        return await judge_requests(list_requests(question), ask)


# ---------------------------------------------------------------------------------------------------- decision models

_CANNOT_JUDGE = "cannot be judged"  # the option of a choice that gives no verdict
_MAX_SCORE_LEVELS = 10
_VERSION = "decision 1"
# The estimate of tokens is made for prose; JSON has more tokens for its length.
_JSON_FACTOR = 4 / 3


@dataclass(frozen=True)
class _CallEntry:
    """One criterion as an entry of `questions` in a call."""

    criterion: Criterion
    key: str
    """The key of the entry, and of its answer."""
    body: Mapping[str, Any]
    """Type, instructions and levels, as they are sent."""
    values: tuple[float, ...]
    """The score of each level, lowest first."""
    options: tuple[str, ...]
    """The names of the levels in the answer, in the order of `values`; last "cannot be judged", if that is allowed."""


@dataclass(frozen=True)
class _DecisionCall:
    """Some entries about one response, and the call that sends them; or why it cannot be made."""

    entries: tuple[_CallEntry, ...]
    call: Call | None
    problem: str = ""


class Decision:
    """Kind "decision": all judged criteria of a response in one call to a decision model.

    A decision model reads the response once, and returns a probability for each possible answer to each question. It
    writes no text: a call costs only its input tokens, and the probabilities are the only reason for a verdict. The
    model is called by the System One protocol:

        POST {base_url}/systemone
        {"model": "jev-latest",
         "state": {"conversation": […], "response": "West Lake."},
         "questions": {"Tone": {"type": "noul", "instructions": "Is it polite?", "criteria": {"true": …, "false": …}},
                       "Depth": {"type": "score", "instructions": "How deep?", "criteria": ["shallow", …, "deep"]}}}

        {"answers": {"Tone": {"type": "noul", "noul": 0.83},
                     "Depth": {"type": "score", "score": 1.6, "probabilities": {"0": 0.1, …}}}}

    Each criterion becomes an entry of `questions`, whose type follows from the scale of the criterion. (A `Question` in
    the code is something larger: a group of rollouts and all criteria that they are judged on.)

        may be declined            choice: one option for each level, and "cannot be judged"
        more than ten levels       choice: one option for each level
        two levels                 noul, the protocol's word for yes or no: the probability of the higher level
        three to ten levels        score: the levels in order

    The levels are the values of the criterion or, if it is a range, its anchors. Criteria of the library that say when
    they cannot be judged may be declined; a user's own question may not.

    The score is the likeliest level (of equally likely ones the least favourable), or the mean if the criterion is a
    range or the judge is asked for expected values. If "cannot be judged" is likelier than every level, the judge
    declines: the verdict is missing, and the call is not sent again. Otherwise the probabilities of the levels are
    scaled to sum to 1. If an answer is absent, of another type, or its probabilities are not those of the levels, the
    verdict is missing with a reason.

    Requests are limited in size (`Judge.request_tokens`, `Judge.state_tokens`): criteria that do not fit into one
    request are asked in several, each with the whole state. If the response and a single question are too long
    together, that verdict is missing, without a call; the other criteria are asked as usual.
    """

    def calls(self, question: Question, judge: Judge) -> int:
        """Return the number of calls: one for every different rollout; more if its criteria do not fit into one."""
        calls = 0
        for request in {request for _, request in list_requests(question)}:
            parts = _split_request(question, request, judge)
            calls += sum(part.call is not None for part in parts)
        return calls

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """Return a verdict for every wanted cell."""

        async def ask_part(part: _DecisionCall) -> dict[str, Verdict]:
            if part.call is None:
                return {entry.criterion.name: missing(part.problem) for entry in part.entries}
            reply = await asker.ask(part.call)
            verdicts = _read_answers(reply, part.entries, judge.expected)
            report_if_unreadable(asker, part.call, reply, verdicts.values())
            return verdicts

        async def ask(request: Request) -> dict[str, Verdict]:
            parts = _split_request(question, request, judge)
            verdicts: dict[str, Verdict] = {}
            for verdicts_of_part in await gather_all(map(ask_part, parts)):
                verdicts |= verdicts_of_part
            return verdicts

        return await judge_requests(list_requests(question), ask)


def _split_request(question: Question, request: Request, judge: Judge) -> list[_DecisionCall]:
    """Return the calls about one response: one, or several if the criteria do not fit into one."""
    rollout = question.group.rollouts[request.shown]
    criteria = [question.criteria[k] for k in request.columns]
    language = choose_language(judge.language, rollout)
    state = _make_state(criteria, rollout, language)
    state_size = _count_tokens(state)
    # The state and one entry must fit into both limits; the lower one decides.
    limit = min(judge.request_tokens, judge.state_tokens)
    limit_name = "request_tokens" if limit == judge.request_tokens else "state_tokens"
    calls: list[_DecisionCall] = []
    batches: list[list[_CallEntry]] = []
    batch_size = 0  # in tokens, like all sizes here
    for key, criterion in zip(make_batch_keys(criteria), criteria, strict=True):
        entry = _make_entry(key, criterion, language)
        entry_size = _count_tokens(entry.body)
        if state_size + entry_size > limit:
            total = f"about {state_size + entry_size:,} tokens, at most {limit:,} ({limit_name})"
            problem = f"too long for the judge: {total}"
            calls.append(_DecisionCall((entry,), None, problem))
            continue
        if not batches or batch_size + entry_size > judge.request_tokens:
            batches.append([])
            batch_size = state_size
        batches[-1].append(entry)
        batch_size += entry_size
    for batch in batches:
        body = {"state": state, "questions": {entry.key: entry.body for entry in batch}}
        names = ", ".join(entry.criterion.name for entry in batch)
        call = Call(
            ({"role": "user", "content": json.dumps(body, ensure_ascii=False)},),
            prompt_version=_VERSION,
            purpose=f"{shorten(names, 80)} (decision)",
            protocol=SYSTEM_ONE,
        )
        calls.append(_DecisionCall(tuple(batch), call))
    return calls


def _make_state(
    criteria: Sequence[Criterion], rollout: Rollout, language: PromptLanguage
) -> dict[str, Any]:
    """Return what all entries are about: conversation, tools, references, the response."""
    state: dict[str, Any] = {}
    if any(criterion.question is not None for criterion in criteria):
        state["how to read questions"] = describe_guidelines(load_prompt("_question", language))
    conversation = []
    for message in rollout.prompt:
        turn = {"role": message.role, "content": defuse(message.content)}
        if message.tool_calls:
            turn["tool_calls"] = _show_tool_calls(message.tool_calls)
        conversation.append(turn)
    if conversation:
        state["conversation"] = conversation
    if rollout.tools:
        state["tools"] = defuse("\n".join(map(as_json, rollout.tools)))
    prompts = [load_criterion_prompt(criterion, language) for criterion in criteria]
    references = group_references(criteria, prompts, [rollout])
    if references:
        state["reference"] = {names: defuse(text) for names, text in references.items()}
    if rollout.tool_calls:
        state["tool_calls"] = _show_tool_calls(rollout.tool_calls)
    state["response"] = defuse(rollout.answer)
    return state


def _show_tool_calls(calls: Sequence[ToolCall]) -> str:
    return defuse(as_json([call.model_dump(exclude_defaults=True) for call in calls]))


def _make_entry(key: str, criterion: Criterion, language: PromptLanguage) -> _CallEntry:
    """Return the entry of one criterion, of the type that fits its scale."""
    prompt = load_criterion_prompt(criterion, language)
    form = make_form(criterion, prompt, whole=True)
    instructions = describe_question(criterion, prompt, alone=criterion.question is not None)
    # The levels: the values of the domain or, if it is a range, its anchors. A form lists them best first; here they
    # and their values are in the order of the scale, lowest first.
    levels = form.lines[::-1]
    values = form.scale.scores
    if form.scale.is_range:
        # The anchors stand at numbers from 0 to the highest of the scale, such as 7.5 of 10.
        domain = criterion.value_domain
        highest = form.scale.numbers[-1]
        shares = [level.number / highest for level in levels]
        values = tuple(round(domain.low + s * (domain.high - domain.low), 8) for s in shares)
    # A user's question can nearly always be answered. Criteria of the library state when they cannot be judged.
    may_abstain = bool(form.cannot_judge) and criterion.question is None
    meanings: Any
    if may_abstain or len(levels) > _MAX_SCORE_LEVELS:
        type_name = "choice"
        meanings = {level.label: level.meaning for level in levels}
        if may_abstain:
            meanings[_CANNOT_JUDGE] = form.cannot_judge
        options = tuple(meanings)
    elif len(levels) == 2:
        type_name = "noul"
        meanings = {"true": levels[1].meaning, "false": levels[0].meaning}
        options = ("false", "true")
    else:
        type_name = "score"
        meanings = [level.meaning for level in levels]
        options = tuple(map(str, range(len(levels))))
    return _CallEntry(
        criterion,
        key,
        body={"type": type_name, "instructions": instructions, "criteria": meanings},
        values=values,
        options=options,
    )


def _count_tokens(data: Any) -> int:
    """Estimate the tokens in a part of a request; the estimate errs on the high side."""
    return math.ceil(_JSON_FACTOR * estimate_tokens(json.dumps(data, ensure_ascii=False)))


def _read_answers(
    reply: Reply, entries: Sequence[_CallEntry], expected: bool
) -> dict[str, Verdict]:
    """Return a verdict, or a missing one, for every criterion by its name.

    The text of the reply is what the server sent as `answers`. expected: see `_read_answer`.
    """
    problem = reply.failure
    answers: Any = None
    if problem is None:
        try:
            answers = dict(json.loads(reply.text or ""))
        except (ValueError, TypeError):
            problem = f"malformed reply: {(reply.text or '')[:100]}"
    verdicts = {}
    for entry in entries:
        if problem is None:
            verdicts[entry.criterion.name] = _read_answer(answers.get(entry.key), entry, expected)
        else:
            verdicts[entry.criterion.name] = missing(problem)
    return verdicts


def _read_answer(answer: Any, entry: _CallEntry, expected: bool) -> Verdict:
    """Return the verdict of one answer, or a missing one. expected: score by the mean, whatever the domain."""
    if not isinstance(answer, Mapping):
        return missing("no answer about it in the reply")
    try:
        probabilities = _read_probabilities(answer, entry)
    except (InvalidInput, TypeError, ValueError) as error:
        return missing(f"unusable answer: {error}")
    cannot_judge = probabilities.pop(_CANNOT_JUDGE, 0.0)
    if cannot_judge > max(probabilities.values()):
        return Declined(None, f"the judge cannot tell: {cannot_judge:.0%} for {_CANNOT_JUDGE!r}")
    total = math.fsum(probabilities.values())
    if not total > 0.0:
        return missing("unusable answer: no probability on any level")
    # What remains in `probabilities` are the levels, in the order of their values.
    distribution: Distribution = tuple(
        (value, probability / total)
        for value, probability in zip(entry.values, probabilities.values(), strict=True)
    )
    is_range = not entry.criterion.value_domain.values
    if expected or is_range:
        value = mean_of(distribution)
    else:
        value = most_probable(distribution, entry.criterion.direction == "higher")
    likeliest = sorted(distribution, key=lambda pair: -pair[1])[:5]
    reason = ", ".join(f"{level:g}: {probability:.2f}" for level, probability in likeliest)
    return Verdict(value, reason, distribution)


def _read_probabilities(answer: Mapping[str, Any], entry: _CallEntry) -> dict[str, float]:
    """Return option → probability, in the order of the entry's options and with a sum of 1.

        {"type": "noul", "noul": 0.83}                                          {"false": 0.17, "true": 0.83}
        {"type": "score", "probabilities": {"1": 0.3, "0": 0.1, "2": 0.6}}      {"0": 0.1, "1": 0.3, "2": 0.6}

    Raises ValueError unless the answer is of the entry's type and has a probability for exactly its options, and
    InvalidInput if they are not probabilities.
    """
    entry_type = entry.body["type"]
    if answer.get("type") != entry_type:
        raise ValueError(f"type {str(answer.get('type'))[:40]!r} instead of {entry_type!r}")
    options = entry.options
    stated = answer.get("probabilities")
    if entry_type == "noul":
        yes = answer.get("noul")
        stated = {"false": None if yes is None else 1.0 - yes, "true": yes}
    if not isinstance(stated, Mapping) or set(map(str, stated)) != set(options):
        raise ValueError("its probabilities are not those of the levels that were asked for")
    by_name = {str(name): probability for name, probability in stated.items()}
    if any(isinstance(probability, bool) for probability in by_name.values()):
        raise ValueError("its probabilities are not numbers")
    # `make_distribution` checks the probabilities and scales their sum to 1. It takes numbers in place of names, and
    # sorts by them: with its position in place of each option, the order stays.
    checked = make_distribution({number: by_name[option] for number, option in enumerate(options)})
    return {option: probability for option, (_, probability) in zip(options, checked, strict=True)}
