"""Make `Rollout`s of prompts and completions, in the shapes in which trainers have them.

    rollout_of("Name a lake.", "<think>Hangzhou…</think>West Lake.")
    rollout_of([{"role": "user", "content": "Name a lake."}], [{"role": "assistant", "content": "West Lake."}])

A completion given as messages may call tools. Its last assistant message is the answer, `reasoning_content` is the
reasoning, and each call is paired with its result. Columns of the dataset are always metadata: a column named
`reasoning` belongs to the dataset, and is not the reasoning of the policy.

The chat template of a reasoning model may end in `<think>`. The completion then starts inside the reasoning, and one
that is cut off there contains no tag at all. The option `thinking` says how to read completions:

    "prefilled"   they start inside the reasoning
    "tags"        only tags in the completion itself count
    "auto"        they start inside the reasoning if the trainer's prompt or chat template ends in an opening tag

The module also counts tokens, finds out why sampling ended, and splits the tokens of an agent into turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from rubrank._choices import Thinking
from rubrank._plain import word_list
from rubrank.errors import only_our_errors
from rubrank.rollouts.rollout import Rollout, make_rollout
from rubrank.rollouts.shapes import (
    are_messages,
    convert_message,
    convert_response_message,
    find_reasoning,
)
from rubrank.texts.reasoning import TAGS, opening_tag


@only_our_errors
def rollout_of(
    prompt: Any,
    completion: Any,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    finish_reason: str | None = None,
    thinking: Thinking = "auto",
    reasoning_tag: str | None = None,
    ids: Any = None,
    tokenizer: Any = None,
    tokens: int | None = None,
    reasoning_tokens: int | None = None,
    where: str = "rollout",
) -> Rollout:
    """Build one rollout, with its token counts if they are known; `where` names it in error messages.

    finish_reason: why sampling ended, if known ("stop", "length").
    thinking: see above.
    reasoning_tag: the tag, such as `<think>`, in which the templated prompt ends, if `prompt` does not show it.
    ids, tokenizer: the sampled tokens. They also tell what a parser removed, such as reasoning tags.
    tokens, reasoning_tokens: their numbers, if they were reported and there are no ids.
    """
    prompt_data = prompt
    if are_messages(prompt):
        prompt_data = [convert_message(message) for message in prompt]
    response = [completion] if isinstance(completion, Mapping) else completion
    if are_messages(response):
        response = [convert_response_message(message) for message in response]
    if response is None or (isinstance(response, list) and not response):
        response = ""
    data: dict[str, Any] = {
        "prompt": prompt_data,
        "response": response,
        "metadata": metadata or {},
    }
    if tools:
        data["tools"] = tools
    if finish_reason:
        data["finish_reason"] = finish_reason
    rollout = make_rollout(data, where)
    tag = reasoning_tag or find_prompt_opening_tag(prompt)
    if thinking == "prefilled" or (thinking == "auto" and tag):
        if _closes_reasoning_at_once(completion, ids, tokenizer):
            rollout = rollout.model_copy(update={"reasoning": ""})
        else:
            rollout = rollout.reopen_thoughts(tag)
    if ids is not None:
        return count_tokens(rollout, ids, tokenizer)
    if tokens is not None and (reasoning_tokens is not None or not rollout.thoughts):
        return _set_token_counts(rollout, tokens, reasoning_tokens or 0)
    return rollout


# ------------------------------------------------------------------------------------------------------- opening tags

_PROMPT_END = 16  # an opening tag at the end of a prompt takes at most this many tokens


def find_prompt_opening_tag(prompt: Any) -> str | None:
    """Find the reasoning tag in which a prompt ends: a templated text, or messages that begin the assistant's turn."""
    if isinstance(prompt, str):
        return opening_tag(prompt)
    if not are_messages(prompt) or not prompt:
        return None
    last_message = prompt[-1]
    content = last_message.get("content")
    if last_message.get("role") != "assistant" or not isinstance(content, str):
        return None
    return opening_tag(content)


def find_token_opening_tag(tokenizer: Any, prompt_ids: Sequence[int]) -> str | None:
    """Find the reasoning tag in which the tokens of a prompt end, or None."""
    return opening_tag(tokenizer.decode(prompt_ids[-_PROMPT_END:]))


def find_template_opening_tag(tokenizer: Any, **options: Any) -> str | None:
    """Find the reasoning tag in which the chat template ends before the assistant's turn, or None.

    options: arguments of the template, such as `enable_thinking`.
    """
    tokenizer = unwrap_tokenizer(tokenizer)
    if not getattr(tokenizer, "chat_template", None):
        return None
    conversation = [{"role": "user", "content": "?"}]
    try:
        text = tokenizer.apply_chat_template(
            conversation, tokenize=False, add_generation_prompt=True, **options
        )
    except Exception:  # templates raise errors of many types for conversations that they refuse
        return None
    return opening_tag(text) if isinstance(text, str) else None


def unwrap_tokenizer(tokenizer: Any) -> Any:
    """Return the tokenizer itself; multimodal trainers pass a processor that holds one."""
    return getattr(tokenizer, "tokenizer", tokenizer)


def _closes_reasoning_at_once(completion: Any, ids: Any, tokenizer: Any) -> bool:
    """Whether the policy closed its reasoning at once (`</think>West Lake.`), and a parser removed the tag.

    The remaining text has no tag, just like a completion that was cut off inside its reasoning. Only the sampled
    tokens tell the two apart.
    """
    last_message = completion[-1] if isinstance(completion, list | tuple) and completion else None
    if not isinstance(last_message, Mapping) or ids is None or find_reasoning(last_message):
        return False
    text = last_message.get("content")
    decode = getattr(tokenizer, "decode", None)
    if not isinstance(text, str) or not text.strip() or decode is None:
        return False
    before_answer, separator, _ = str(decode(list(ids))).rpartition(text.strip())
    closing_tags = tuple(closing for _, closing in TAGS)
    return bool(separator) and before_answer.rstrip().endswith(closing_tags)


# ------------------------------------------------------------------------------------------------------- token counts


def count_tokens(rollout: Rollout, ids: Sequence[int], tokenizer: Any) -> Rollout:
    """Return the rollout with its `token_counts`, or unchanged if they cannot be counted.

    The total is the number of sampled ids. The reasoning is counted with the tokenizer; the answer is the rest, so it
    includes the reasoning tags and the end token. Without a tokenizer only a response without reasoning is counted.
    """
    reasoning_tokens = 0
    if rollout.thoughts:
        encode = getattr(unwrap_tokenizer(tokenizer), "encode", None)
        if not callable(encode):
            return rollout
        reasoning_tokens = len(encode(rollout.thoughts, add_special_tokens=False))
    return _set_token_counts(rollout, len(ids), reasoning_tokens)


def _set_token_counts(rollout: Rollout, total: int, reasoning: int) -> Rollout:
    """Return the rollout with these counts; the answer has the tokens that are not reasoning."""
    reasoning_tokens = min(reasoning, total)
    counts = {"reasoning": reasoning_tokens, "answer": total - reasoning_tokens}
    return rollout.model_copy(update={"token_counts": counts})


# ----------------------------------------------------------------------------------------------------- finish reasons

_FINISH_REASONS = {
    "length": word_list("length max_tokens max_length truncated model_length max_output_tokens"),
    "stop": word_list("stop eos eos_token end_turn stop_sequence stop_token stop_tokens completed"),
    "tool_calls": word_list("tool_calls function_call tool_use"),
}
_FINISH_REASON_OF = {word: reason for reason, words in _FINISH_REASONS.items() for word in words}


def infer_finish_reason(ids: Any, end_ids: Collection[int], max_tokens: int | None) -> str | None:
    """Find out why sampling ended, from the tokens of a completion without padding. The gate `Truncated` uses it.

    infer_finish_reason([5, 9, 2], end_ids={2}, max_tokens=3)      "stop": the last token is an end token
    infer_finish_reason([5, 9, 7], end_ids={2}, max_tokens=3)      "length": the limit is reached without an end token
    infer_finish_reason([5, 9, 7], end_ids={2}, max_tokens=None)   None: unknown
    """
    length = 0 if ids is None else len(ids)
    if not length or not end_ids:
        return None
    if int(ids[-1]) in end_ids:
        return "stop"
    if max_tokens is not None and length >= max_tokens:
        return "length"
    return None


def normalize_finish_reason(reason: Any) -> str | None:
    """Translate a trainer's finish reason, a word or an enum member, to the usual words: "MAX_TOKENS" → "length"."""
    word = getattr(reason, "value", reason)
    if not isinstance(word, str) or not word.strip():
        return None
    word = word.strip().lower()
    return _FINISH_REASON_OF.get(word, word)


def find_end_token_ids(*sources: Any) -> set[int]:
    """Collect the end tokens of tokenizers, models or configurations: anything with an `eos_token_id`."""
    end_ids: set[int] = set()
    for source in sources:
        for holder in (source, getattr(source, "generation_config", None)):
            ids = getattr(holder, "eos_token_id", None)
            if isinstance(ids, int):
                end_ids.add(ids)
            elif isinstance(ids, Sequence) and not isinstance(ids, str):
                end_ids.update(token for token in ids if isinstance(token, int))
    return end_ids


# ---------------------------------------------------------------------------------------------------- turns of agents
#
# Trainers of agents keep a rollout as one row of tokens, with a mask that is 1 where the policy sampled and 0 where
# the environment spoke:
#
#     split_turns([5, 6, 7, 8, 9], [1, 1, 0, 0, 1], decode)
#     [{"role": "assistant", "content": "", "tool_calls": [{"name": "look", "arguments": {"at": "map"}}]},
#      {"role": "tool", "content": "a lake"},
#      {"role": "assistant", "content": "It is a lake."}]

_CALL_OPEN = "<tool_call>"
_CALL_CLOSE = "</tool_call>"
_RESULT_OPEN = "<tool_response>"
_RESULT_CLOSE = "</tool_response>"
_ROLES = ("user", "assistant", "tool", "observation", "ipython", "system")
_EMPTY_TURN = {"role": "assistant", "content": ""}


def split_turns(
    ids: Sequence[int], mask: Sequence[Any] | None, decode: Callable[[Any], str]
) -> list[dict[str, Any]]:
    """Split a response into messages by the mask of sampled tokens; without a mask, it is a single message."""
    messages: list[dict[str, Any]] = []
    for is_sampled, tokens in _split_by_mask(ids, mask):
        text = decode(tokens)
        if is_sampled:
            messages.append(parse_assistant_turn(text))
        elif messages:
            messages += _parse_environment_turn(
                text, after_call=bool(messages[-1].get("tool_calls"))
            )
    if not messages or messages[-1]["role"] != "assistant":
        messages.append(dict(_EMPTY_TURN))  # the rollout ended before the policy spoke again
    return messages


def split_turns_at_end_tokens(
    ids: Sequence[int], end_ids: Collection[int], decode: Callable[[Any], str]
) -> tuple[list[dict[str, Any]], Sequence[int]]:
    """Split a response whose mask is unknown into messages; also returns the tokens of its last turn.

    Sampling stops at an end token, so the policy cannot write past one: text behind it comes from the environment. It
    starts with the name of a role, as chat templates write it.
    """
    ends = [position for position, token in enumerate(ids, start=1) if int(token) in end_ids]
    if not ends or ends[-1] < len(ids):
        ends.append(len(ids))
    pieces = [ids[start:end] for start, end in pairwise([0, *ends])]
    messages = [parse_assistant_turn(decode(pieces[0]))]
    for piece in pieces[1:]:
        text = decode(piece)
        first_line, _, rest = text.strip("\n").partition("\n")
        role = first_line.strip().lower()
        body = rest if role in _ROLES else text
        follows_environment = messages[-1]["role"] != "assistant"
        if role == "assistant" or (role not in _ROLES and follows_environment):
            messages.append(parse_assistant_turn(body))
        else:
            messages += _parse_environment_turn(
                body, after_call=bool(messages[-1].get("tool_calls"))
            )
    if messages[-1]["role"] != "assistant":
        messages.append(dict(_EMPTY_TURN))
        return messages, ids[:0]
    return messages, pieces[-1]


def find_last_turn(ids: Sequence[int], mask: Sequence[Any] | None) -> Sequence[int]:
    """Return the tokens of the last turn, empty if the environment spoke last."""
    tokens: Sequence[int] = ids[:0]
    for is_sampled, run in _split_by_mask(ids, mask):
        tokens = run if is_sampled else ids[:0]
    return tokens


def parse_assistant_turn(text: str) -> dict[str, Any]:
    """Make a message of a turn of the policy; tool calls in the text become `tool_calls`.

    A call that cannot be parsed stays in the text.
    """
    remaining_text = []
    calls = []
    for is_call, piece in _split_tagged(text, _CALL_OPEN, _CALL_CLOSE):
        call = parse_tool_call(piece) if is_call else None
        if call is not None:
            calls.append(call)
        elif is_call:
            remaining_text.append(f"{_CALL_OPEN}{piece}{_CALL_CLOSE}")
        else:
            remaining_text.append(piece)
    if not calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": "".join(remaining_text).strip(), "tool_calls": calls}


def parse_tool_call(text: str) -> dict[str, Any] | None:
    """Read one tool call; None if the text is not one. Open models write calls in two forms:

    {"name": "look", "arguments": {"at": "map"}}
    <function=look><parameter=at>map</parameter></function>
    """
    text = text.strip()
    if text.startswith("<function="):
        name, bracket, rest = text.removeprefix("<function=").partition(">")
        if not bracket or not name.strip():
            return None
        tagged_arguments = {}
        for part in rest.split("<parameter=")[1:]:
            key, bracket, value = part.partition(">")
            if bracket:
                tagged_arguments[key.strip()] = value.partition("</parameter>")[0].strip("\n")
        return {"name": name.strip(), "arguments": tagged_arguments}
    try:
        call = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", call.get("parameters", {}))
    return {"name": call["name"], "arguments": arguments}


def _parse_environment_turn(text: str, after_call: bool) -> list[dict[str, Any]]:
    """Make messages of the text between two turns of the policy: tool results, or a message of the user."""
    pieces = _split_tagged(text, _RESULT_OPEN, _RESULT_CLOSE)
    results = [piece.strip() for is_result, piece in pieces if is_result]
    if results:
        return [{"role": "tool", "content": result} for result in results]
    # Once its special tokens are removed, a chat template leaves the names of roles at both ends.
    lines = text.strip().split("\n")
    while lines and lines[0].strip().lower() in _ROLES:
        lines.pop(0)
    while lines and lines[-1].strip().lower() in ("assistant", "<think>", ""):
        lines.pop()
    role = "tool" if after_call else "user"
    return [{"role": role, "content": "\n".join(lines).strip()}]


def _split_by_mask(
    ids: Sequence[int], mask: Sequence[Any] | None
) -> Iterator[tuple[bool, Sequence[int]]]:
    """Yield runs of tokens: (sampled by the policy?, tokens)."""
    if mask is None:
        yield True, ids
        return
    start = 0
    for is_sampled, run in groupby(mask[: len(ids)], bool):
        end = start + sum(1 for _ in run)
        yield is_sampled, ids[start:end]
        start = end


def _split_tagged(text: str, opening: str, closing: str) -> Iterator[tuple[bool, str]]:
    """Yield (between tags?, text) in order; a tag that is never closed is plain text."""
    position = 0
    while True:
        start = text.find(opening, position)
        end = text.find(closing, start) if start >= 0 else -1
        if end < 0:
            yield False, text[position:]
            return
        yield False, text[position:start]
        yield True, text[start + len(opening) : end]
        position = end + len(closing)
