"""Criterion and responses → the `Call` that asks a judge.

    absolute_call(Criterion(name="CoreIntentMatch"), rollout)      one response, one criterion
    batched_call(criteria, rollout)                                one response, all judged criteria at once
    pairwise_call(criterion, first, second)                        two responses, shown as A and B
    listwise_call(criterion, rollouts)                             a whole group, numbered from 1

Every call has two messages. The system message holds what does not depend on the query: how to judge, the criterion
from its file, the form of the reply, examples. The user message begins with conversation and reference material and
ends with the response. So all calls about one criterion share a prefix, and those about one query share all but the
response: servers with a prefix cache read the rest once. With `order="data_first"` the criteria come after the
response, and calls about one response share all but them. A template puts the same parts where its slots are.

In a batch, what all questions of a user share (how to read one, what the usual values mean) is said once. In
comparisons "better" is already turned round for a criterion whose direction is "lower": A better means A has less of
what is described. Absolute verdicts are values of the domain, whatever the direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.judges.judge import Call, Language, Order
from rubrank.judges.prompting.composing import PromptParts
from rubrank.judges.prompting.examples import examples_of_entry, examples_of_list, examples_of_pair
from rubrank.judges.prompting.material import (
    choose_language,
    conversation,
    one_line,
    parameters,
    reference_count,
    references,
    response,
)
from rubrank.judges.prompting.prompt_files import Prompt, PromptLanguage, fill, load_prompt, prompt_names, prompt_of
from rubrank.judges.prompting.reply_form import (
    Form,
    batch_keys,
    cannot_word,
    describe_numbers,
    describe_scale,
    entry_schema,
    form_of,
    join_options,
    listwise_schema,
    pairwise_schema,
    strict_object,
)
from rubrank.judges.template import Template
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.rubric import Criterion

Example = Mapping[str, Any]


def has_prompt(name: str) -> bool:
    """Is there a prompt for the criterion of this name? One with a question of its own needs none."""
    return name in prompt_names()


@only_our_errors
def absolute_call(
    criterion: Criterion,
    rollout: Rollout,
    *,
    language: Language = "auto",
    examples: Sequence[Example] = (),
    order: Order = "question_first",
    template: Template | None = None,
    whole: bool = False,
) -> Call:
    """One response by one criterion; the verdict is a value of its domain.

    whole: ask for one verdict even where the library would have items listed.
    """
    spoken = choose_language(language, rollout)
    prompt, frame = _prompt(criterion, spoken), load_prompt("_absolute", spoken)
    whole = whole or bool(examples)
    form = form_of(criterion, prompt, whole=whole, count=reference_count(criterion, prompt, [rollout]))
    parts = PromptParts(
        spoken,
        "absolute",
        [prompt],
        task=frame["task"],
        criteria=[described(criterion, prompt, form)],
        reply="\n".join(filter(None, [_reply(frame, form, spoken), _cannot(form, spoken)])),
        examples=examples_of_entry(criterion, prompt, form, examples),
        **_shared([criterion], [prompt], [rollout]),
        responses={"response": _shown(rollout, spoken)},
        end=fill(frame["end"], name=one_line(criterion.name)),
        single=_single(criterion, prompt, form),
    )
    return parts.call(entry_schema(form, spoken), criterion.name, order, template)


@only_our_errors
def batched_call(
    criteria: Sequence[Criterion],
    rollout: Rollout,
    *,
    language: Language = "auto",
    examples: Mapping[str, Sequence[Example]] | None = None,
    order: Order = "question_first",
    template: Template | None = None,
) -> Call:
    """One response by several criteria; the reply has an entry for each."""
    if not criteria:
        raise InvalidInput("batched_call", "criteria", "at least one", "none", "")
    spoken = choose_language(language, rollout)
    prompts = [_prompt(criterion, spoken) for criterion in criteria]
    frame, keys = load_prompt("_batched", spoken), batch_keys(criteria)
    given = [(examples or {}).get(criterion.name, ()) for criterion in criteria]
    forms = [
        form_of(c, p, whole=bool(some), count=reference_count(c, p, [rollout]))
        for c, p, some in zip(criteria, prompts, given, strict=True)
    ]
    rows = list(zip(keys, criteria, prompts, forms, strict=True))
    shown = [examples_of_entry(c, p, f, some) for (_, c, p, f), some in zip(rows, given, strict=True)]
    parts = PromptParts(
        spoken,
        "batched",
        prompts,
        task=fill(frame["task"], count=len(criteria)),
        criteria=[*_questions(frame, rows), *_named(rows)],
        reply=_batched_reply(frame, keys, forms),
        examples="\n\n".join(filter(None, shown)),
        **_shared(criteria, prompts, [rollout]),
        responses={"response": _shown(rollout, spoken)},
        end=frame["end"],
    )
    schema = strict_object({key: entry_schema(form, spoken) for key, form in zip(keys, forms, strict=True)})
    return parts.call(schema, ", ".join(criterion.name for criterion in criteria), order, template)


@only_our_errors
def pairwise_call(
    criterion: Criterion,
    first: Rollout,
    second: Rollout,
    *,
    language: Language = "auto",
    examples: Sequence[Example] = (),
    order: Order = "question_first",
    template: Template | None = None,
) -> Call:
    """Two responses to one query, shown as A and B; the verdict says which is better, or that neither is."""
    spoken = choose_language(language, first)
    prompt, frame = _prompt(criterion, spoken), load_prompt("_pairwise", spoken)
    labels = load_prompt("_common", spoken).labels
    words = join_options([f'"{word}"' for word in frame.findings.values()], spoken)
    reply = [fill(frame["reply"], findings=words), _cannot(form_of(criterion, prompt, whole=True), spoken, True)]
    one, two = response(first, labels, "_A"), response(second, labels, "_B")
    parts = PromptParts(
        spoken,
        "pairwise",
        [prompt],
        task=frame["task"],
        criteria=[_compared(criterion, prompt, frame)],
        reply="\n".join(filter(None, reply)),
        examples=examples_of_pair(criterion, prompt, examples),
        **_shared([criterion], [prompt], [first, second]),
        responses={"responses": f"{labels['response']}\n\n{one}\n\n{two}", "response_a": one, "response_b": two},
        end=fill(frame["end"], name=one_line(criterion.name)),
        single=_single(criterion, prompt, form_of(criterion, prompt, whole=True)),
    )
    return parts.call(pairwise_schema(prompt, spoken), criterion.name, order, template)


@only_our_errors
def listwise_call(
    criterion: Criterion,
    rollouts: Sequence[Rollout],
    *,
    language: Language = "auto",
    examples: Sequence[Example] = (),
    order: Order = "question_first",
    template: Template | None = None,
) -> Call:
    """All responses to one query, numbered from 1 in this order; the verdict gives each its rank."""
    if len(rollouts) < 2:
        raise InvalidInput("listwise_call", "rollouts", "two or more", str(len(rollouts)), "")
    spoken = choose_language(language, rollouts[0])
    prompt, frame = _prompt(criterion, spoken), load_prompt("_listwise", spoken)
    labels = load_prompt("_common", spoken).labels
    shown = [response(rollout, labels, f"_{i}") for i, rollout in enumerate(rollouts, 1)]
    cannot = prompt.get("cannot")
    parts = PromptParts(
        spoken,
        "listwise",
        [prompt],
        task=frame["task"],
        criteria=[_compared(criterion, prompt, frame)],
        reply="\n".join(filter(None, [frame["reply"], fill(frame["cannot"], reason=cannot) if cannot else ""])),
        examples=examples_of_list(criterion, prompt, examples),
        **_shared([criterion], [prompt], rollouts),
        responses={"responses": "\n\n".join([labels["response"], *shown])},
        end=fill(frame["end"], name=one_line(criterion.name), count=len(rollouts)),
        single=_single(criterion, prompt, form_of(criterion, prompt, whole=True)),
    )
    return parts.call(listwise_schema(prompt, len(rollouts)), criterion.name, order, template)


# ------------------------------------------------------------------------------------------------------- the criterion


def _prompt(criterion: Criterion, language: PromptLanguage) -> Prompt:
    name = criterion.prompt_name
    if criterion.question is None and name not in prompt_names():
        raise UnknownName.of(f"criterion {criterion.name!r} for a judge", "name", name, prompt_names())
    return prompt_of(criterion, language)


def described(criterion: Criterion, prompt: Prompt, form: Form, key: str = "") -> str:
    """The criterion: what is asked, what counts, what the values mean."""
    labels = load_prompt("_common", prompt.language).labels
    name = one_line(criterion.name)
    heading = fill(labels["criterion"], name=f"{key} ({name})" if key and key != name else name)
    parts = [f"## {heading}", _question(criterion, prompt)]
    parts += [f"{labels[part]}\n{prompt[part]}" for part in ("counts", "ignore", "edges")]
    parts += [parameters(criterion, prompt, labels), *_answered(form, labels)]
    return "\n".join(filter(None, [*parts, _lower(criterion, labels)]))


def _question(criterion: Criterion, prompt: Prompt) -> str:
    return fill(prompt["question"], question=criterion.question or "")


def _lower(criterion: Criterion, labels: Mapping[str, str]) -> str:
    return labels["lower"] if criterion.direction == "lower" else ""


def _answered(form: Form, labels: Mapping[str, str]) -> list[str]:
    """What the values mean, or what is listed."""
    if form.items is None:
        return [labels["anchors"], *describe_scale(form, labels)]
    lines = [f'"{word}": {meaning}' for word, meaning in form.items.words.values()]
    number = "" if form.count is None else fill(labels["items_count"], count=form.count)
    return [" ".join(filter(None, [fill(labels["items"], each=form.items.each), number])), *lines]


def _compared(criterion: Criterion, prompt: Prompt, frame: Prompt) -> str:
    text = described(criterion, prompt, _without_words(form_of(criterion, prompt, whole=True)))
    return f"{text}\n{frame['lower']}" if criterion.direction == "lower" else text


def _without_words(form: Form) -> Form:
    """For comparisons, which have findings of their own."""
    return Form(form.scale, form.lines, {}, form.cannot)


def _single(criterion: Criterion, prompt: Prompt, form: Form) -> dict[str, str]:
    """The slots that a call about one criterion fills."""
    labels = load_prompt("_common", prompt.language).labels
    scale = "\n".join(_answered(form, labels)[0 if form.items else 1 :])
    return {"name": one_line(criterion.name), "question": _question(criterion, prompt), "anchors": scale}


# ------------------------------------------------------------------------------------------------------------ a batch

_Row = tuple[str, Criterion, Prompt, Form]


def _named(rows: Sequence[_Row]) -> list[str]:
    """Criteria with files of their own."""
    own = [row for row in rows if row[2].name != "_question"]
    texts = [(described(c, prompt, form, key), _cannot(form, prompt.language)) for key, c, prompt, form in own]
    return ["\n".join(filter(None, parts)) for parts in texts]


def _questions(frame: Prompt, rows: Sequence[_Row]) -> list[str]:
    """A user's questions: what they share once, then a line for each, and what is its own below it."""
    asked = [row for row in rows if row[2].name == "_question"]
    if not asked:
        return []
    prompt = asked[0][2]
    labels = load_prompt("_common", prompt.language).labels
    scales = ["\n".join(_answered(form, labels)) for *_, form in asked]
    usual, times = Counter(scales).most_common(1)[0]
    rules = "\n".join(prompt[part] for part in ("counts", "ignore", "edges"))
    shared = [frame["questions"], rules, _cannot(asked[0][3], prompt.language, any(form.words for *_, form in asked))]
    if times > 1 or len(asked) == 1:
        shared.append(usual if times == len(asked) else fill(frame["usual"], scale=usual))
    else:
        usual = ""
    lines = [_line(row, "" if scale == usual else scale, labels) for row, scale in zip(asked, scales, strict=True)]
    return ["\n".join(filter(None, [*shared, *lines]))]


def _line(row: _Row, scale: str, labels: Mapping[str, str]) -> str:
    """c3: Is it polite?"""
    key, criterion, prompt, _ = row
    question = _question(criterion, prompt)
    named = key == criterion.name or question.startswith(criterion.name.rstrip(" …"))
    head = f"{key}: {question}" if named else f"{key} ({one_line(criterion.name)}): {question}"
    below = [parameters(criterion, prompt, labels), scale, _lower(criterion, labels)]
    return "\n".join(filter(None, [f"### {head}" if any(below) else head, *below]))


def _batched_reply(frame: Prompt, keys: Sequence[str], forms: Sequence[Form]) -> str:
    kinds = {_reply_kind(form) for form in forms}
    lines = [frame[kind] for kind in ("finding", "plain", "items") if kind in kinds]
    return fill(frame["reply"], keys=_keys(keys), forms="\n".join(lines))


def _keys(keys: Sequence[str]) -> str:
    if len(keys) > 3 and list(keys) == [f"c{i}" for i in range(1, len(keys) + 1)]:
        return f'"{keys[0]}", "{keys[1]}", … "{keys[-1]}"'
    return ", ".join(f'"{key}"' for key in keys)


def _reply_kind(form: Form) -> str:
    return "items" if form.items is not None else "finding" if form.words else "plain"


def _reply(frame: Prompt, form: Form, language: PromptLanguage) -> str:
    return fill(frame["reply"], form=fill(frame[_reply_kind(form)], values=describe_numbers(form.scale, language)))


def _cannot(form: Form, language: PromptLanguage, finding: bool | None = None) -> str:
    if not form.cannot:
        return ""
    common = load_prompt("_common", language)
    with_word = bool(form.words) if finding is None else finding
    section = "nothing" if form.items is not None and finding is None else "cannot" if with_word else "null"
    return fill(common[section], reason=form.cannot, word=cannot_word(language))


# ------------------------------------------------------------------------------------------------------------ the data


def _shared(criteria: Sequence[Criterion], prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """What all responses to the query share: conversation and reference material."""
    if any(rollout.prompt != rollouts[0].prompt for rollout in rollouts[1:]):
        raise InvalidInput("judge", "rollouts", "of one query", "different prompts", "Compare responses to the same.")
    labels = load_prompt("_common", prompts[0].language).labels
    pairs = zip(criteria, prompts, strict=True)
    material = [references(criterion, prompt, rollouts, labels) for criterion, prompt in pairs]
    return {"conversation": conversation(rollouts[0], labels), "reference": "\n\n".join(filter(None, material))}


def _shown(rollout: Rollout, language: PromptLanguage) -> str:
    labels = load_prompt("_common", language).labels
    return f"{labels['response']}\n{response(rollout, labels)}"
