"""Criterion and responses → the `Call` that is sent to a judge.

    absolute_call(Criterion(name="CoreIntentMatch"), rollout)      one response, one criterion
    batched_call(criteria, rollout)                                one response, all judged criteria at once
    pairwise_call(criterion, first, second)                        two responses, shown as A and B
    listwise_call(criterion, rollouts)                             a whole group, numbered from 1

Every call has a system and a user message:

    question_first   system: rules, task, criteria, reply form, examples   user: conversation, reference, response, end
    data_first       system: rules, task   user: conversation, reference, response, criteria, examples, reply form, end
    a template       as its slots say

With question_first all calls about one criterion share a prefix, and those about one query share all but the response;
with data_first calls about one response share all but the criteria. Servers with a prefix cache process a shared prefix
once.

The texts come from two kinds of files (`prompt_files.py`): the *frame* has what all calls of a kind share (task, reply
form), the *prompt* of a criterion has its question and what its values mean.

In a batch, instructions that all questions of a user share (how to read them, what the usual values mean) come once. In
comparisons "better" takes the direction of the criterion into account: if it is "lower", A is better if it has less of
what is described. Absolute verdicts are values of the domain; the direction does not change them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rubrank._plain import shorten
from rubrank.errors import only_our_errors
from rubrank.judges.judge import Call, Language, Order
from rubrank.judges.prompting.material import (
    choose_language,
    count_references,
    defuse,
    group_references,
    put_on_one_line,
    show_conversation,
    show_parameters,
    show_response,
)
from rubrank.judges.prompting.prompt_files import (
    Prompt,
    PromptLanguage,
    fill,
    load_criterion_prompt,
    load_labels,
    load_prompt,
)
from rubrank.judges.prompting.reply_form import (
    Example,
    ReplyForm,
    describe_numbers,
    describe_scale,
    join_options,
    make_batch_keys,
    make_entry_schema,
    make_form,
    make_listwise_schema,
    make_object_schema,
    make_pairwise_schema,
    show_list_examples,
    show_pair_examples,
    show_score_examples,
)
from rubrank.judges.template import SLOTS, Template
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.rubric import Criterion


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
    """Judge one response by one criterion; the verdict is a value of its domain.

    whole: ask for one verdict even if the prompt file asks for a list of items.
    """
    prompt_language = choose_language(language, rollout)
    prompt = load_criterion_prompt(criterion, prompt_language)
    frame = load_prompt("_absolute", prompt_language)
    count = count_references(criterion, prompt, [rollout])
    form = make_form(criterion, prompt, whole=whole or bool(examples), count=count)
    reply_form = fill(
        frame[_choose_reply_section(form)], values=describe_numbers(form.scale, prompt_language)
    )
    labels = load_labels(prompt_language)
    return _make_call_about_criterion(
        frame,
        criterion,
        prompt,
        form,
        [rollout],
        description=_describe_criterion(criterion, prompt, form),
        reply=_join(
            "\n",
            fill(frame["reply"], form=reply_form),
            _describe_cannot_judge(form, prompt_language),
        ),
        examples=show_score_examples(criterion, prompt, form, examples),
        responses={"response": f"{labels['response']}\n{show_response(rollout, labels)}"},
        schema=make_entry_schema(form, prompt_language),
        order=order,
        template=template,
    )


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
    """Judge one response by several criteria; the reply has an entry for each."""
    prompt_language = choose_language(language, rollout)
    frame = load_prompt("_batched", prompt_language)
    entries = []
    example_texts = []
    for key, criterion in zip(make_batch_keys(criteria), criteria, strict=True):
        prompt = load_criterion_prompt(criterion, prompt_language)
        examples_of_criterion = (examples or {}).get(criterion.name, ())
        count = count_references(criterion, prompt, [rollout])
        form = make_form(criterion, prompt, whole=bool(examples_of_criterion), count=count)
        entries.append(_BatchEntry(key=key, criterion=criterion, prompt=prompt, form=form))
        example_texts.append(show_score_examples(criterion, prompt, form, examples_of_criterion))
    library_criteria = []  # those that have prompt files
    for entry in entries:
        if not entry.is_question:
            description = _describe_criterion(entry.criterion, entry.prompt, entry.form, entry.key)
            cannot_judge = _describe_cannot_judge(entry.form, prompt_language)
            library_criteria.append(_join("\n", description, cannot_judge))
    prompts = [entry.prompt for entry in entries]
    labels = load_labels(prompt_language)
    return _make_call(
        frame,
        prompts,
        task=fill(frame["task"], count=len(criteria)),
        criteria=[*_describe_questions(frame, entries), *library_criteria],
        reply=_describe_batch_reply(frame, entries),
        examples=_join("\n\n", *example_texts),
        shared_data=_show_data(criteria, prompts, [rollout]),
        responses={"response": f"{labels['response']}\n{show_response(rollout, labels)}"},
        end=frame["end"],
        schema=make_object_schema(
            {entry.key: make_entry_schema(entry.form, prompt_language) for entry in entries}
        ),
        about=", ".join(criterion.name for criterion in criteria),
        order=order,
        template=template,
    )


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
    """Compare two responses to one query, shown as A and B; the verdict says which is better, or that they tie."""
    prompt_language = choose_language(language, first)
    prompt = load_criterion_prompt(criterion, prompt_language)
    frame = load_prompt("_pairwise", prompt_language)
    labels = load_labels(prompt_language)
    form = make_form(criterion, prompt, whole=True)
    findings = join_options([f'"{word}"' for word in frame.findings.values()], prompt_language)
    cannot_judge = _describe_cannot_judge(form, prompt_language, section="cannot")
    response_a = show_response(first, labels, "_A")
    response_b = show_response(second, labels, "_B")
    return _make_call_about_criterion(
        frame,
        criterion,
        prompt,
        form,
        [first, second],
        description=_describe_comparison(criterion, prompt, form, frame),
        reply=_join("\n", fill(frame["reply"], findings=findings), cannot_judge),
        examples=show_pair_examples(criterion, prompt, examples),
        responses={
            "responses": f"{frame['heading']}\n\n{response_a}\n\n{response_b}",
            "response_a": response_a,
            "response_b": response_b,
        },
        schema=make_pairwise_schema(prompt, prompt_language),
        order=order,
        template=template,
    )


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
    """Rank all responses to one query, numbered from 1 in this order; the verdict gives each its rank."""
    prompt_language = choose_language(language, rollouts[0])
    prompt = load_criterion_prompt(criterion, prompt_language)
    frame = load_prompt("_listwise", prompt_language)
    labels = load_labels(prompt_language)
    form = make_form(criterion, prompt, whole=True)
    responses = [
        show_response(rollout, labels, f"_{number}") for number, rollout in enumerate(rollouts, 1)
    ]
    cannot_judge = fill(frame["cannot"], reason=form.cannot_judge) if form.cannot_judge else ""
    return _make_call_about_criterion(
        frame,
        criterion,
        prompt,
        form,
        rollouts,
        description=_describe_comparison(criterion, prompt, form, frame),
        reply=_join("\n", frame["reply"], cannot_judge),
        examples=show_list_examples(criterion, prompt, examples),
        responses={"responses": "\n\n".join([frame["heading"], *responses])},
        schema=make_listwise_schema(prompt, len(rollouts)),
        order=order,
        template=template,
    )


# --------------------------------------------------------------------------------------------------- parts of a prompt


def _make_call(
    frame: Prompt,
    prompts: Sequence[Prompt],
    *,
    task: str,
    criteria: Sequence[str],
    reply: str,
    examples: str,
    shared_data: tuple[str, str],
    responses: Mapping[str, str],
    end: str,
    schema: Mapping[str, Any],
    about: str,
    order: Order,
    template: Template | None,
    criterion_slots: Mapping[str, str] | None = None,
) -> Call:
    """Return a call with these texts, in the given order or in the slots of the template.

    prompts: of the criteria. about: the names of the criteria.
    shared_data: conversation and reference material, which all responses to a query share.
    responses: text by template slot; the first one contains all responses.
    criterion_slots: slots of a template that only a call about one criterion fills.
    """
    kind = frame.name.strip("_")
    common = load_prompt("_common", frame.language)
    rules = f"{common['role']}\n{common['data']}"
    conversation, reference = shared_data
    data = [conversation, reference, next(iter(responses.values()))]
    # The versions are part of the key in the cache: calls with a changed text are sent again.
    files = [common, frame, *prompts]
    versions = list(dict.fromkeys(f"{file.name.strip('_')} {file.version}" for file in files))
    if template is not None:
        slots = {
            **dict.fromkeys(SLOTS, ""),
            "rules": rules,
            "task": task,
            "criteria": _join("\n\n", *criteria),
            "examples": examples,
            "reply": reply,
            "conversation": conversation,
            "reference": reference,
            **responses,
            **(criterion_slots or {}),
        }
        messages = template.messages(slots)
        versions.append(template.version)
    else:
        if order == "question_first":
            system = [rules, task, *criteria, reply, examples]
            user = [*data, end]
        else:
            system = [rules, task]
            user = [*data, *criteria, examples, reply, end]
            versions.append("data first")
        messages = [
            {"role": "system", "content": _join("\n\n", *system)},
            {"role": "user", "content": _join("\n\n", *user)},
        ]
    # Data is defused when it is fenced; here it is done for the questions and examples of the user.
    safe_messages = [
        {"role": message["role"], "content": defuse(message["content"])} for message in messages
    ]
    return Call(
        tuple(safe_messages),
        schema,
        prompt_version=f"{kind}-{frame.language} {', '.join(versions)}",
        purpose=f"{shorten(about, 80)} ({kind})",
        shares_data=order == "data_first" and template is None,
        data=defuse(_join("\n\n", *data)),
    )


def _make_call_about_criterion(
    frame: Prompt,
    criterion: Criterion,
    prompt: Prompt,
    form: ReplyForm,
    rollouts: Sequence[Rollout],
    *,
    description: str,
    reply: str,
    examples: str,
    responses: Mapping[str, str],
    schema: Mapping[str, Any],
    order: Order,
    template: Template | None,
) -> Call:
    """Return a call about one criterion.

    description: the criterion as the judge reads it. The other texts are as in `_make_call`.
    """
    name = put_on_one_line(criterion.name)
    anchors = _describe_values(form, load_labels(prompt.language))
    if form.items is None:
        anchors = anchors[1:]  # without the heading
    return _make_call(
        frame,
        [prompt],
        task=frame["task"],
        criteria=[description],
        reply=reply,
        examples=examples,
        shared_data=_show_data([criterion], [prompt], rollouts),
        responses=responses,
        end=fill(frame["end"], name=name, count=len(rollouts)),
        schema=schema,
        about=criterion.name,
        order=order,
        template=template,
        criterion_slots={
            "name": name,
            "question": _fill_question(criterion, prompt),
            "anchors": "\n".join(anchors),
        },
    )


def _join(separator: str, *parts: str) -> str:
    """Return the parts that are not empty, as one text."""
    return separator.join(part for part in parts if part)


def _show_data(
    criteria: Sequence[Criterion], prompts: Sequence[Prompt], rollouts: Sequence[Rollout]
) -> tuple[str, str]:
    """Return the conversation and the reference material, which are the same for all rollouts."""
    labels = load_labels(prompts[0].language)
    references = [
        f"{fill(labels['reference'], name=names)}\n{text}"
        for names, text in group_references(criteria, prompts, rollouts).items()
    ]
    return show_conversation(rollouts[0], labels), _join("\n\n", *references)


# ------------------------------------------------------------------------------------------------------ one criterion


def _describe_criterion(
    criterion: Criterion, prompt: Prompt, form: ReplyForm, key: str = ""
) -> str:
    """Return the question, what counts, and what the values mean. key: the criterion's field in a batch reply."""
    labels = load_labels(prompt.language)
    name = put_on_one_line(criterion.name)
    if key and key != name:
        name = f"{key} ({name})"
    lines = [f"## {fill(labels['criterion'], name=name)}", describe_question(criterion, prompt)]
    lines += _describe_values(form, labels)
    if criterion.direction == "lower":
        lines.append(labels["lower"])
    return _join("\n", *lines)


def describe_question(criterion: Criterion, prompt: Prompt, *, alone: bool = False) -> str:
    """Return the question, what counts and what does not, and the parameters. alone: without what counts."""
    labels = load_labels(prompt.language)
    guidelines = "" if alone else describe_guidelines(prompt)
    return _join(
        "\n",
        _fill_question(criterion, prompt),
        guidelines,
        show_parameters(criterion, prompt, labels),
    )


def describe_guidelines(prompt: Prompt) -> str:
    """Return what counts, what does not, and what to do in doubt; the same for all questions of a user."""
    labels = load_labels(prompt.language)
    return _join(
        "\n", *(f"{labels[part]}\n{prompt[part]}" for part in ("counts", "ignore", "edges"))
    )


def _describe_comparison(
    criterion: Criterion, prompt: Prompt, form: ReplyForm, frame: Prompt
) -> str:
    """Return the same for comparisons, without the criterion's findings: comparisons have their own."""
    text = _describe_criterion(criterion, prompt, replace(form, findings={}))
    return f"{text}\n{frame['lower']}" if criterion.direction == "lower" else text


def _fill_question(criterion: Criterion, prompt: Prompt) -> str:
    return fill(prompt["question"], question=criterion.question or "")


def _describe_values(form: ReplyForm, labels: Mapping[str, str]) -> list[str]:
    """Return lines that say what the values mean, or which items the judge lists."""
    if form.items is None:
        return [labels["anchors"], *describe_scale(form, labels)]
    heading = fill(labels["items"], each=form.items.each)
    if form.item_count is not None:
        heading = f"{heading} {fill(labels['items_count'], count=form.item_count)}"
    return [heading, *(f'"{word}": {meaning}' for word, meaning in form.items.words.values())]


def _choose_reply_section(form: ReplyForm) -> str:
    """Return the name of the section of a frame that describes this form."""
    if form.items is not None:
        return "items"
    return "finding" if form.findings else "plain"


def _describe_cannot_judge(form: ReplyForm, language: PromptLanguage, section: str = "") -> str:
    """Return when and how the judge may decline to judge; "" if it may not.

    section: of the common frame; by default chosen by the form.
    """
    if not form.cannot_judge:
        return ""
    if not section:
        section = {"items": "nothing", "finding": "cannot", "plain": "null"}[
            _choose_reply_section(form)
        ]
    text = load_prompt("_common", language)[section]
    return fill(text, reason=form.cannot_judge, word=load_labels(language)["cannot"])


# ------------------------------------------------------------------------------------------------------------ a batch


@dataclass(frozen=True)
class _BatchEntry:
    """One criterion of a batch."""

    key: str
    criterion: Criterion
    prompt: Prompt
    form: ReplyForm

    @property
    def is_question(self) -> bool:
        """Is it a question of the user, without a prompt file of its own?"""
        return self.prompt.name == "_question"


def _describe_questions(frame: Prompt, entries: Sequence[_BatchEntry]) -> list[str]:
    """Return the user's questions: the shared instructions, then a line for each with its own settings."""
    questions = [entry for entry in entries if entry.is_question]
    if not questions:
        return []
    prompt = questions[0].prompt
    labels = load_labels(prompt.language)
    scales = ["\n".join(_describe_values(entry.form, labels)) for entry in questions]
    usual_scale, times = Counter(scales).most_common(1)[0]
    any_findings = any(entry.form.findings for entry in questions)
    lines = [frame["questions"], *(prompt[part] for part in ("counts", "ignore", "edges"))]
    lines.append(
        _describe_cannot_judge(
            questions[0].form, prompt.language, section="cannot" if any_findings else "null"
        )
    )
    if times == len(questions):
        lines.append(usual_scale)
    elif times > 1:
        lines.append(fill(frame["usual"], scale=usual_scale))
    else:
        usual_scale = ""
    for entry, scale in zip(questions, scales, strict=True):
        lines.append(_describe_question_line(entry, "" if scale == usual_scale else scale, labels))
    return [_join("\n", *lines)]


def _describe_question_line(entry: _BatchEntry, scale: str, labels: Mapping[str, str]) -> str:
    """Return a line such as "c3: Is it polite?"; scale: its values, if they are not the usual ones."""
    criterion = entry.criterion
    question = _fill_question(criterion, entry.prompt)
    name_is_shown = entry.key == criterion.name or question.startswith(criterion.name.rstrip(" …"))
    heading = f"{entry.key}: {question}"
    if not name_is_shown:
        heading = f"{entry.key} ({put_on_one_line(criterion.name)}): {question}"
    direction = labels["lower"] if criterion.direction == "lower" else ""
    below = _join("\n", show_parameters(criterion, entry.prompt, labels), scale, direction)
    return f"### {heading}\n{below}" if below else heading


def _describe_batch_reply(frame: Prompt, entries: Sequence[_BatchEntry]) -> str:
    """Return the form of a reply about several criteria, in words."""
    keys = [entry.key for entry in entries]
    are_numbered = keys == [f"c{number}" for number in range(1, len(keys) + 1)]
    if are_numbered and len(keys) > 3:  # not all of them, to save tokens
        shown_keys = f'"{keys[0]}", "{keys[1]}", … "{keys[-1]}"'
    else:
        shown_keys = ", ".join(f'"{key}"' for key in keys)
    kinds = {_choose_reply_section(entry.form) for entry in entries}
    forms = [frame[kind] for kind in ("finding", "plain", "items") if kind in kinds]
    return fill(frame["reply"], keys=shown_keys, forms="\n".join(forms))
