"""Prompts and completions, as trainers have them → rollouts.

    rollout_of("Name a lake.", "<think>Hangzhou…</think>West Lake.")
    rollout_of([{"role": "user", "content": "Name a lake."}], [{"role": "assistant", "content": "West Lake."}])

A completion in messages may call tools on the way: its last assistant message is the answer, `reasoning_content` its
reasoning, and every call goes with what came back. Columns of the dataset are metadata, whatever they are called: a
column `reasoning` is what the dataset says, not what the policy thought.

Chat templates of reasoning models may end in `<think>`: the completion begins in its thoughts, and one that is cut off
there has no tag to tell by. `thinking` says how completions begin: "prefilled", in thoughts; "tags", as they are;
"auto", in thoughts where the prompt, as far as the trainer shows it, ends in an opening tag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from rubrank.errors import only_our_errors
from rubrank.rollouts.columns import reasoning_in
from rubrank.rollouts.messages import are_messages, prompt_message, said_message
from rubrank.rollouts.rollout import Group, Rollout, to_rollout
from rubrank.texts.reasoning import TAGS, opening_tag

_ASKED = [{"role": "user", "content": "?"}]
Thinking: TypeAlias = Literal["auto", "tags", "prefilled"]
"""How completions begin; see above."""


@only_our_errors
def rollout_of(
    prompt: Any,
    completion: Any,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    finish_reason: str | None = None,
    token_counts: Mapping[str, int] | None = None,
    thinking: Thinking = "auto",
    opened: str | None = None,
    ids: Any = None,
    tokenizer: Any = None,
    where: str = "rollout",
) -> Rollout:
    """One rollout; `where` names it in errors.

    finish_reason: why sampling ended, where known ("stop", "length"). token_counts: of "reasoning" and "answer".
    opened: the tag in which the templated prompt ends, where the trainer knows it and `prompt` does not show it.
    ids, tokenizer: what was sampled, for completions that a parser has taken the tags out of.
    """
    data: dict[str, Any] = {"prompt": _prompt(prompt), "response": _response(completion), "metadata": metadata or {}}
    if tools:
        data["tools"] = tools
    if finish_reason:
        data["finish_reason"] = finish_reason
    if token_counts:
        data["token_counts"] = dict(token_counts)
    rollout = to_rollout(data, where)
    tag = opened or opened_by(prompt)
    if thinking == "tags" or (thinking == "auto" and not tag):
        return rollout
    if _closed_at_once(completion, ids, tokenizer):
        return rollout.model_copy(update={"reasoning": ""})
    return rollout.begun_in_thoughts(tag)


def begun_in_thoughts(group: Group) -> Group:
    """The group, its responses read as thoughts that the prompt had opened."""
    rollouts = tuple(rollout.begun_in_thoughts() for rollout in group.rollouts)
    same = all(new is old for new, old in zip(rollouts, group.rollouts, strict=True))
    return group if same else Group.model_construct(id=group.id, rollouts=rollouts, rubric=group.rubric)


def opened_by(prompt: Any) -> str | None:
    """The tag in which the prompt ends: a text as it was sampled from, or the beginning of the assistant's turn."""
    if isinstance(prompt, str):
        return opening_tag(prompt)
    last = prompt[-1] if are_messages(prompt) and prompt else {}
    content = last.get("content") if last.get("role") == "assistant" else None
    return opening_tag(content) if isinstance(content, str) else None


_BEFORE = 16  # tokens at the end of a prompt in which a tag would stand


def opened_in(tokenizer: Any, ids: Sequence[int]) -> str | None:
    """The tag in which the tokens before a response end, if there is one."""
    return opening_tag(tokenizer.decode(ids[-_BEFORE:]))


def template_opens(tokenizer: Any, **options: Any) -> str | None:
    """The tag in which a tokenizer's chat template ends before the assistant's turn; None: in none.

    options: of the template, such as `enable_thinking`.
    """
    found = getattr(tokenizer, "tokenizer", tokenizer)  # a processor has one
    if not getattr(found, "chat_template", None):
        return None
    try:
        text = found.apply_chat_template(_ASKED, tokenize=False, add_generation_prompt=True, **options)
    except Exception:  # a template may refuse this conversation, in whatever way: then it is not known
        return None
    return opening_tag(text) if isinstance(text, str) else None


def _closed_at_once(said: Any, ids: Any, tokenizer: Any) -> bool:
    """Did a trainer's parser take thoughts away that were closed without a word, `</think>West Lake.`?

    What is left has no tag, as a completion that was cut off in its thoughts has none: only the tokens tell them apart.
    """
    last = said[-1] if isinstance(said, list | tuple) and said else None
    if not isinstance(last, Mapping) or ids is None or reasoning_in(last):
        return False
    text, decode = last.get("content"), getattr(tokenizer, "decode", None)
    if not isinstance(text, str) or not text.strip() or decode is None:
        return False
    before, found, _ = str(decode(list(ids))).rpartition(text.strip())
    return bool(found) and before.rstrip().endswith(tuple(last for _, last in TAGS))


def _prompt(prompt: Any) -> Any:
    return [prompt_message(message) for message in prompt] if are_messages(prompt) else prompt


def _response(completion: Any) -> Any:
    if isinstance(completion, Mapping):
        completion = [completion]
    if are_messages(completion):
        return [said_message(message) for message in completion]
    # An empty list is an empty conversation.
    return "" if completion is None or (isinstance(completion, list) and not completion) else completion
