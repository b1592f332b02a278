"""Criterion and responses → the `Call` that asks a judge.

    absolute_call(Criterion(name="CoreIntentMatch"), rollout)      one response, one criterion
    batched_call(criteria, rollout)                                one response, all judged criteria at once
    pairwise_call(criterion, first, second)                        two responses, shown as A and B
    listwise_call(criterion, rollouts)                             a whole group, numbered from 1

Every call has two messages. The system message holds what does not depend on the query: how to judge, the criterion
from its file, the form of the reply, examples. The user message begins with conversation and reference material and
ends with the response. So all calls about one criterion share a prefix, and those about one query share all but the
response: servers with a prefix cache read the rest once. Where the wording lives and how its files look:
`prompt_files.py`.

In comparisons "better" is already turned round for a criterion whose direction is "lower": A better means A has less of
what is described. Absolute verdicts are values of the domain, whatever the direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.judges.judge import Call, Language
from rubrank.judges.prompting.answer_form import (
    batch_keys,
    cannot_word,
    entry_schema,
    levels,
    listed,
    listwise_schema,
    pairs_in_words,
    pairwise_schema,
    spelled,
    strict,
    values_in_words,
)
from rubrank.judges.prompting.examples import examples_of_entry, examples_of_list, examples_of_pair
from rubrank.judges.prompting.fencing import harmless
from rubrank.judges.prompting.files import Prompt, Tongue, fill, load_prompt, prompt_names, prompt_of
from rubrank.judges.prompting.material import conversation, one_line, parameters, references, response, tongue
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.rubric import Criterion, shortened
from rubrank.verifiers.verifier import Domain

Example = Mapping[str, Any]


def has_prompt(name: str) -> bool:
    """Is there a prompt for the criterion of this name? One with a question of its own needs none."""
    return name in prompt_names()


@only_our_errors
def absolute_call(
    criterion: Criterion, rollout: Rollout, *, language: Language = "auto", examples: Sequence[Example] = ()
) -> Call:
    """One response by one criterion; the verdict is a value of its domain."""
    spoken = tongue(language, rollout)
    prompt, frame, domain = _prompt(criterion, spoken), load_prompt("_absolute", spoken), criterion.value_domain
    words = listed([f'"{prompt.findings[level]}"' for level in levels(domain)], spoken)
    reply = fill(
        frame["reply"], findings=words, values=values_in_words(domain, spoken), pairs=pairs_in_words(prompt, domain)
    )
    shown = examples_of_entry(criterion, prompt, examples)
    system = [frame["task"], described(criterion, prompt), reply, _cannot(prompt), shown]
    end = fill(frame["end"], name=one_line(criterion.name))
    user = [_before([criterion], [prompt], [rollout]), _shown(rollout, spoken), end]
    return Call(
        _messages(spoken, system, user),
        entry_schema(prompt, domain),
        _version("absolute", spoken, [prompt]),
        purpose=f"{shortened(criterion.name, 80)} (absolute)",
    )


def batched_call(
    criteria: Sequence[Criterion],
    rollout: Rollout,
    *,
    language: Language = "auto",
    examples: Mapping[str, Sequence[Example]] | None = None,
) -> Call:
    """One response by several criteria; the reply has an entry for each."""
    if not criteria:
        raise InvalidInput("batched_call", "criteria", "at least one", "none", "Ask about something.")
    spoken = tongue(language, rollout)
    prompts = [_prompt(criterion, spoken) for criterion in criteria]
    frame, keys = load_prompt("_batched", spoken), batch_keys(criteria)
    quoted = ", ".join(f'"{key}"' for key in keys)
    rules = [_rule(frame, *each) for each in zip(keys, criteria, prompts, strict=True)]
    parts = [
        part
        for key, criterion, prompt in zip(keys, criteria, prompts, strict=True)
        for part in (
            described(criterion, prompt, key),
            examples_of_entry(criterion, prompt, (examples or {}).get(criterion.name, ())),
        )
    ]
    reply = fill(frame["reply"], keys=quoted, rules="\n".join(rules))
    system = [fill(frame["task"], count=len(criteria)), *parts, reply]
    user = [_before(criteria, prompts, [rollout]), _shown(rollout, spoken), frame["end"]]
    entries = [entry_schema(p, c.value_domain) for p, c in zip(prompts, criteria, strict=True)]
    return Call(
        _messages(spoken, system, user),
        strict(dict(zip(keys, entries, strict=True))),
        _version("batched", spoken, prompts),
        purpose=f"{shortened(', '.join(criterion.name for criterion in criteria), 80)} (batched)",
    )


def pairwise_call(
    criterion: Criterion,
    first: Rollout,
    second: Rollout,
    *,
    language: Language = "auto",
    examples: Sequence[Example] = (),
) -> Call:
    """Two responses to one query, shown as A and B; the verdict says which is better, or that neither is."""
    spoken = tongue(language, first)
    prompt, frame = _prompt(criterion, spoken), load_prompt("_pairwise", spoken)
    labels = load_prompt("_common", spoken).labels
    words = listed([f'"{word}"' for word in frame.findings.values()], spoken)
    reply = fill(frame["reply"], findings=words)
    shown = examples_of_pair(criterion, prompt, examples)
    system = [frame["task"], _compared(criterion, prompt, frame), reply, _cannot(prompt), shown]
    responses = [response(first, labels, "_A"), response(second, labels, "_B")]
    end = fill(frame["end"], name=one_line(criterion.name))
    user = [_before([criterion], [prompt], [first, second]), labels["response"], *responses, end]
    return Call(
        _messages(spoken, system, user),
        pairwise_schema(prompt, spoken),
        _version("pairwise", spoken, [prompt]),
        purpose=f"{shortened(criterion.name, 80)} (pairwise)",
    )


def listwise_call(
    criterion: Criterion,
    rollouts: Sequence[Rollout],
    *,
    language: Language = "auto",
    examples: Sequence[Example] = (),
) -> Call:
    """All responses to one query, numbered from 1 in this order; the verdict gives each its rank."""
    if len(rollouts) < 2:
        raise InvalidInput("listwise_call", "rollouts", "two or more", str(len(rollouts)), "There is nothing to rank.")
    spoken = tongue(language, rollouts[0])
    prompt, frame = _prompt(criterion, spoken), load_prompt("_listwise", spoken)
    labels = load_prompt("_common", spoken).labels
    shown = examples_of_list(criterion, prompt, examples)
    system = [frame["task"], _compared(criterion, prompt, frame), frame["reply"], _cannot(prompt, frame), shown]
    responses = [response(rollout, labels, f"_{i}") for i, rollout in enumerate(rollouts, 1)]
    end = fill(frame["end"], name=one_line(criterion.name), count=len(rollouts))
    user = [_before([criterion], [prompt], rollouts), labels["response"], *responses, end]
    return Call(
        _messages(spoken, system, user),
        listwise_schema(prompt, len(rollouts)),
        _version("listwise", spoken, [prompt]),
        purpose=f"{shortened(criterion.name, 80)} (listwise)",
    )


# --------------------------------------------------------------------------------------------------------------- parts


def _prompt(criterion: Criterion, language: Tongue) -> Prompt:
    name = criterion.prompt_name
    if criterion.question is None and name not in prompt_names():
        raise UnknownName.of(f"criterion {criterion.name!r} for a judge", "name", name, prompt_names())
    return prompt_of(criterion, language)


def described(criterion: Criterion, prompt: Prompt, key: str = "") -> str:
    """The criterion: what is asked, what counts, what the values mean."""
    labels = load_prompt("_common", prompt.language).labels
    name = one_line(criterion.name)
    heading = fill(labels["criterion"], name=f"{key} ({name})" if key and key != name else name)
    parts = [f"## {heading}", fill(prompt["question"], question=criterion.question or "")]
    parts += [f"{labels[part]}\n{prompt[part]}" for part in ("counts", "ignore", "edges")]
    parts += [parameters(criterion, prompt, labels), _anchors(prompt, criterion.value_domain, labels)]
    return "\n".join(filter(None, [*parts, labels["lower"] if criterion.direction == "lower" else ""]))


def _compared(criterion: Criterion, prompt: Prompt, frame: Prompt) -> str:
    text = described(criterion, prompt)
    return f"{text}\n{frame['lower']}" if criterion.direction == "lower" else text


def _anchors(prompt: Prompt, domain: Domain, labels: Mapping[str, str]) -> str:
    span = domain.high - domain.low
    marks = {round(domain.low + share * span, 10): text for share, text in prompt.anchors.items()}
    lines = [labels["anchors"]]
    if domain.kind == "continuous":
        lines.append(fill(labels["range"], low=spelled(domain.low), high=spelled(domain.high)))
    values = domain.values or tuple(marks)
    return "\n".join([*lines, *(f"{spelled(v)}: {_anchor(v, marks, labels)}" for v in reversed(values))])


def _anchor(value: float, marks: Mapping[float, str], labels: Mapping[str, str]) -> str:
    """What the value means; between two marks of the file where it has none of its own."""
    exact = next((text for mark, text in marks.items() if abs(mark - value) < 1e-9), None)
    if exact is not None:
        return exact
    low, high = max(mark for mark in marks if mark < value), min(mark for mark in marks if mark > value)
    return fill(labels["interpolated"], low=marks[low].rstrip(".。"), high=marks[high].rstrip(".。"))


def _rule(frame: Prompt, key: str, criterion: Criterion, prompt: Prompt) -> str:
    domain = criterion.value_domain
    values, pairs = values_in_words(domain, prompt.language), pairs_in_words(prompt, domain)
    return " ".join(filter(None, [fill(frame["rule"], key=key, values=values, pairs=pairs), _cannot(prompt)]))


def _cannot(prompt: Prompt, frame: Prompt | None = None) -> str:
    reason = prompt.get("cannot")
    text = (frame or load_prompt("_common", prompt.language))["cannot"]
    return fill(text, reason=reason, word=cannot_word(prompt.language)) if reason else ""


def _before(criteria: Sequence[Criterion], prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> str:
    """What all responses to the query share."""
    if any(rollout.prompt != rollouts[0].prompt for rollout in rollouts[1:]):
        raise InvalidInput("judge", "rollouts", "of one query", "different prompts", "Compare responses to the same.")
    labels = load_prompt("_common", prompts[0].language).labels
    pairs = zip(criteria, prompts, strict=True)
    material = [references(criterion, prompt, rollouts, labels) for criterion, prompt in pairs]
    return "\n\n".join(filter(None, [conversation(rollouts[0], labels), *material]))


def _shown(rollout: Rollout, language: Tongue) -> str:
    labels = load_prompt("_common", language).labels
    return f"{labels['response']}\n{response(rollout, labels)}"


def _messages(language: Tongue, system: Sequence[str], user: Sequence[str]) -> tuple[Mapping[str, str], ...]:
    common = load_prompt("_common", language)
    return (
        {"role": "system", "content": harmless("\n\n".join(filter(None, [common["role"], common["data"], *system])))},
        {"role": "user", "content": harmless("\n\n".join(filter(None, user)))},
    )


def _version(kind: str, language: Tongue, prompts: Sequence[Prompt]) -> str:
    """Versions of every file that the call is made of: "absolute-en common 1, absolute 1, Verbosity 2"."""
    files = [load_prompt("_common", language), load_prompt(f"_{kind}", language), *prompts]
    versions = dict.fromkeys(f"{file.name.strip('_')} {file.version}" for file in files)
    return f"{kind}-{language} {', '.join(versions)}"
