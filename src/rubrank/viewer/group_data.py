"""Turn the record of a group into what the page shows: its states, plain lists, explanations in words.

    State.STOPPED in find_states(record)      a hard gate stopped a rollout
    make_title(record.prompt)                 the beginning of what the user asked
    group = make_group_data(record, text_limit=4000)
    group["reward"], group["explanations"][3], group["outcomes"][0][3]       "WWT.L…"

Explanations are written here, by `rubrank.fusion.explain`, and shipped as text. Outcomes are one letter per opponent:
W wins, T ties, L loses, "." was not compared.

States are bits for what is noteworthy about a group; the page filters by them. The functions about states take a
`GroupRecord` or anything with the same fields, such as the light records of run.py. They use plain Python, which is
faster than arrays for groups of this size: the viewer looks at up to 100,000 of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import IntFlag
from typing import Any

import numpy as np

from rubrank.records.record import GroupRecord, to_fused_group
from rubrank.verifiers.verifier import NEEDS_JUDGE, NOT_ASKED

# Characters of a title: one line of the page's list.
_TITLE_LENGTH = 110
# How the reason of a missing score begins if no judge was asked for it.
_NO_JUDGE_ASKED = (NEEDS_JUDGE, NOT_ASKED)
# Keys of messages and calls that are never cut.
_NOT_TEXT = ("role", "name")
# Enough digits for the page to round a number to the same text as Python does in explanations.
_DECIMALS = 7
# Levels of a judge's distribution that are shown, the likeliest ones.
_MOST_LEVELS = 5
# Characters of a reason: a judge of whole lists gives one long reason for all responses.
_LONGEST_REASON = 4000
TEXT_KEYS = ("prompt", "responses", "reasoning", "turns")
"""Keys of a group whose texts may be cut; numbers, reasons and explanations never are."""


# --------------------------------------------------------------------------------------------- states


class State(IntFlag):
    """A set of noteworthy facts about a group. `assets/filters.js` has the same numbers."""

    NO_SIGNAL = 1
    """All rewards are equal."""
    STOPPED = 2
    """A hard gate stopped a rollout."""
    SOFTENED = 4
    """A soft gate lowered a reward."""
    MISSING = 8
    """A ranked criterion has no score and no comparison for a rollout."""
    RULES_DISAGREE = 16
    """Another rule chooses another winner."""
    GATE_MISSING = 32
    """A gate criterion has no score for a rollout."""
    LONGEST_WINS = 64
    """The longest response, longer than all others, has the highest reward."""
    JUDGES_FAILED = 128
    """A judge was asked and gave no verdict."""
    CONSTANT = 256
    """A ranked criterion ties all rollouts."""
    # The two highest bits say what kind of line it is.
    EVALUATION = 1 << 14
    """Written by an evaluation, and therefore no part of the training curves."""
    UNREADABLE = 1 << 15
    """The line is not a record."""


def find_states(record: Any) -> State:
    """Return everything noteworthy about a group."""
    states = State(0)
    if record.no_signal:
        states |= State.NO_SIGNAL
    # Criteria that rank come first, those of the gate follow.
    ranked_count = len(record.weights)
    for k, criterion in enumerate(record.criteria):
        # A criterion that is only watched decides nothing, so it may be missing.
        if criterion.layer != "watch" and _is_missing_somewhere(record, k):
            states |= State.MISSING if k < ranked_count else State.GATE_MISSING
    stopped, softened = count_gated(record)
    if stopped:
        states |= State.STOPPED
    if softened:
        states |= State.SOFTENED
    best = find_best(record.reward)
    for rewards in record.others.values():
        # Another rule disagrees if it has none of the best rollouts in common with the record's rule.
        if len(rewards) == len(record.reward) and best and best.isdisjoint(find_best(rewards)):
            states |= State.RULES_DISAGREE
    lengths = [len(text) for text in record.responses or ()]
    if len(lengths) > 1 and not record.no_signal:
        longest = max(lengths)
        if lengths.count(longest) == 1 and lengths.index(longest) in best:
            states |= State.LONGEST_WINS
    if _judges_failed(record):
        states |= State.JUDGES_FAILED
    if any(flag.startswith("constant: ") for flag in record.flags):
        states |= State.CONSTANT
    if record.metadata.get("mode") == "eval":
        states |= State.EVALUATION
    return states


def count_gated(record: Any) -> tuple[int, int]:
    """Count the rollouts that a hard gate stopped, and those whose reward a soft gate lowered."""
    if record.gate is None:
        return 0, 0
    stopped = 0
    softened = 0
    for passed, factor in zip(record.gate.passed, record.gate.factor, strict=True):
        if not passed:
            stopped += 1
        elif factor < 1.0:
            softened += 1
    return stopped, softened


def make_title(prompt: Sequence[Mapping[str, Any]] | None) -> str:
    """Return the beginning of the user's last message."""
    if not prompt:
        return ""
    from_user = [message for message in prompt if message.get("role") == "user"]
    last = from_user[-1] if from_user else prompt[-1]
    # A prompt may be very long: split only what can end up in the title, with room for white space.
    words = " ".join(str(last.get("content", ""))[: 4 * _TITLE_LENGTH].split())
    if len(words) <= _TITLE_LENGTH:
        return words
    return words[: _TITLE_LENGTH - 1] + "…"


def find_best(reward: Sequence[float]) -> set[int]:
    """Return the rollouts that share the highest reward."""
    highest = max(reward, default=0.0)
    return {i for i, value in enumerate(reward) if value == highest}


def _is_missing_somewhere(record: Any, k: int) -> bool:
    """Return whether criterion k neither scores nor compares some rollout."""
    outcomes = record.outcomes.get(record.criteria[k].name)
    if outcomes is None:
        return any(row[k] is None or row[k] != row[k] for row in record.scores)
    for i, row in enumerate(outcomes):
        opponents = [*row[:i], *row[i + 1 :]]
        if all(outcome is None for outcome in opponents):
            return True
    return False


def _judges_failed(record: Any) -> bool:
    """Return whether a judge was asked and gave no verdict.

    The metadata say so if a trainer wrote the record; otherwise the reasons of missing scores do.
    """
    judges = record.metadata.get("judges")
    if isinstance(judges, Mapping) and isinstance(judges.get("missing"), int):
        return bool(judges["missing"])
    if not record.reasons:
        return False
    for k, criterion in enumerate(record.criteria):
        is_judged = criterion.verifier in (None, "judge")
        if not is_judged or criterion.name in record.outcomes:
            continue
        for scores, reasons in zip(record.scores, record.reasons, strict=True):
            if scores[k] is None and reasons[k] and not reasons[k].startswith(_NO_JUDGE_ASKED):
                return True
    return False


# ------------------------------------------------------------------------------------ the whole group


def make_group_data(record: GroupRecord, text_limit: int) -> dict[str, Any]:
    """Return everything that the page shows of a group; what the record does not have is left out.

    text_limit: characters that are kept of each text (see `cut_texts`).
    """
    group = to_fused_group(record)
    reasons = None
    if record.reasons is not None and any(any(row) for row in record.reasons):
        reasons = [[reason[:_LONGEST_REASON] for reason in row] for row in record.reasons]
    data: dict[str, Any] = {
        "id": record.group,
        "step": record.step,
        "rule": record.rule,
        "states": int(find_states(record)),
        "stopped": count_gated(record)[0],
        "flags": list(record.flags),
        "criteria": [_describe_criterion(record, k) for k in range(len(record.criteria))],
        "ranked": len(record.weights),
        "scores": _replace_nan(record.scores),
        "reasons": reasons,
        "probabilities": _describe_probabilities(record),
        "utilities": _round(record.utilities),
        "values": _round(record.values),
        "reward": _round(record.reward),
        "ranking": _round(record.ranking),
        "effective_weights": _round(record.effective_weights),
        "outcomes": [_write_outcomes(group.outcomes[:, :, k]) for k in range(len(record.weights))],
        "explanations": [group.explain(i) for i in range(record.size)],
        "others": {rule: _round(reward) for rule, reward in record.others.items()} or None,
        "metadata": json.loads(json.dumps(dict(record.metadata), default=str)) or None,
        **cut_texts(_list_texts(record), text_limit),
    }
    if record.gate is not None:
        data["gate"] = {
            "passed": list(record.gate.passed),
            "factor": _round(record.gate.factor),
            "stopped_by": [list(names) for names in record.gate.stopped_by],
            "missing": list(record.gate.missing),
        }
    if record.attribute_names:
        data |= {
            "attribute_names": list(record.attribute_names),
            "attributes": _round(record.attributes),
            "gamma": _round(record.gamma),
            "gamma_error": _round(record.se),
            "gamma_groups": _round(record.n),
            "taken": _round(record.taken),
        }
    return {key: value for key, value in data.items() if value is not None}


def cut_texts(data: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Return a copy in which a text longer than `limit` is {"text": its beginning, "length": its whole length}."""
    cut_data = dict(data)
    for key in TEXT_KEYS:
        if key in data:
            cut_data[key] = _cut(data[key], limit, [])
    return cut_data


def list_text_lengths(data: Mapping[str, Any]) -> list[int]:
    """Return the lengths of all texts that can be cut; of a text that was cut, its whole length."""
    lengths: list[int] = []
    for key in TEXT_KEYS:
        _cut(data.get(key), 0, lengths)
    return lengths


def _describe_criterion(record: GroupRecord, k: int) -> dict[str, Any]:
    """Return what the page shows of criterion k; ranked criteria have the weight that the rule used."""
    criterion = record.criteria[k]
    return {
        "name": criterion.name,
        "weight": record.weights[k] if k < len(record.weights) else criterion.weight,
        "layer": criterion.layer,
        "decided_by": criterion.verifier or "judge",
        "domain": [criterion.domain.low, criterion.domain.high],
        "compared": criterion.name in record.outcomes,
    }


def _describe_probabilities(record: GroupRecord) -> dict[str, list[str]] | None:
    """Return criterion → a text such as "0: 0.20, 1: 0.80" for each rollout, likeliest last; "" without any."""
    described = {}
    for name, distributions in record.probabilities.items():
        texts = []
        for distribution in distributions:
            likely = sorted(distribution, key=lambda pair: pair[1])[-_MOST_LEVELS:]
            texts.append(
                ", ".join(f"{value:g}: {probability:.2f}" for value, probability in likely)
            )
        described[name] = texts
    return described or None


def _write_outcomes(outcomes: np.ndarray) -> list[str]:
    """Return one text per rollout, with a letter for each opponent. outcomes: (G, G), 1 = row beats column."""
    letters = np.full(outcomes.shape, "T")
    letters[outcomes > 0.5] = "W"
    letters[outcomes < 0.5] = "L"
    letters[np.isnan(outcomes)] = "."
    np.fill_diagonal(letters, ".")
    return ["".join(row) for row in letters]


def _list_texts(record: GroupRecord) -> dict[str, Any]:
    """Return the prompt, turns, responses and reasoning that the record has, whole."""
    texts: dict[str, Any] = {}
    if record.prompt:
        texts["prompt"] = [_describe_message(message) for message in record.prompt]
    if record.turns and any(record.turns):
        texts["turns"] = [
            [_describe_message(message) for message in turns] for turns in record.turns
        ]
    if record.responses is not None:
        texts["responses"] = list(record.responses)
    if record.reasoning and any(record.reasoning):
        texts["reasoning"] = list(record.reasoning)
    return texts


def _describe_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return role and content; reasoning, error and tool calls if the message has them."""
    described: dict[str, Any] = {
        "role": str(message.get("role", "")),
        "content": str(message.get("content") or ""),
    }
    if message.get("reasoning"):
        described["reasoning"] = str(message["reasoning"])
    if message.get("error"):
        described["error"] = True
    calls = [
        _describe_call(call)
        for call in message.get("tool_calls") or ()
        if isinstance(call, Mapping)
    ]
    if calls:
        described["calls"] = calls
    return described


def _describe_call(call: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": str(call.get("name", "")),
        "arguments": _write_value(call.get("arguments")),
    }
    if call.get("result") is not None:
        described["result"] = _write_value(call["result"])
    if call.get("error"):
        described["error"] = True
    return described


def _write_value(value: Any) -> str:
    """Return a text unchanged, and anything else as JSON, indented if it is long."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    on_one_line = json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, Mapping | Sequence) and len(on_one_line) > 80:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return on_one_line


def _cut(value: Any, limit: int, lengths: list[int]) -> Any:
    """Return the same value with long texts cut; texts that were cut before are cut again.

    lengths: gets the whole length of every text.
    """
    if isinstance(value, str):
        lengths.append(len(value))
        return value if len(value) <= limit else {"text": value[:limit], "length": len(value)}
    if isinstance(value, list):
        return [_cut(part, limit, lengths) for part in value]
    if not isinstance(value, dict):
        return value
    if "length" in value:  # a text that was cut before
        lengths.append(value["length"])
        return {"text": value["text"][:limit], "length": value["length"]}
    parts = {}
    for key, part in value.items():
        parts[key] = part if key in _NOT_TEXT else _cut(part, limit, lengths)
    return parts


def _round(numbers: Any) -> Any:
    """Round a row or a table of numbers for the page; NaN becomes None, and None stays None."""
    if numbers is None:
        return None
    # + 0.0, because −0 then becomes 0.
    return _replace_nan(np.round(np.array(numbers, dtype=float), _DECIMALS) + 0.0)


def _replace_nan(numbers: Any) -> Any:
    """Return a row or a table of numbers as plain lists, with None for NaN."""
    array = np.array(numbers, dtype=float)
    values = array.astype(object)
    values[np.isnan(array)] = None
    return values.tolist()
