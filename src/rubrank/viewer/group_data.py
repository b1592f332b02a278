"""Turn the record of a group into what the page shows: plain names, plain lists, explanations in words.

    group = make_group_data(record, text_limit=4000)
    group["reward"], group["explanations"][3], group["outcomes"][0][3]       "WWT.L…"

Explanations are written here, by `rubrank.fusion.explain`, and shipped as text. Outcomes are one letter per opponent:
W wins, T ties, L loses, "." was not compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rubrank.records.record import GroupRecord, to_fused_group
from rubrank.viewer.states import count_stopped, find_states

_NOT_TEXT = ("role", "name")  # keys of messages and calls that are never cut
_DECIMALS = 7  # enough for the page to round a number as Python does
_MOST_LEVELS = 5  # of a distribution that are shown
_LONGEST_REASON = 4000  # characters; a judge of whole lists gives one long reason for all responses
TEXT_KEYS = ("prompt", "responses", "reasoning", "turns")
"""Keys of a group whose texts may be cut; numbers, reasons and explanations never are."""


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
        "stopped": count_stopped(record),
        "flags": list(record.flags),
        "criteria": [_describe_criterion(record, k) for k in range(len(record.criteria))],
        "ranked": len(record.weights),
        "scores": [_replace_nan(row) for row in record.scores],
        "reasons": reasons,
        "probabilities": _describe_probabilities(record),
        "utilities": _round(record.utilities),
        "values": _round(record.values),
        "reward": _round(record.reward),
        "ranking": _round(record.ranking),
        "effective_weights": _round(record.effective_weights),
        "outcomes": [_write_outcomes(group.outcomes[:, :, k]) for k in range(len(record.weights))],
        "explanations": [group.explain(i) for i in range(record.size)],
        "gate": _describe_gate(record),
        "others": {rule: _round(reward) for rule, reward in record.others.items()} or None,
        "metadata": json.loads(json.dumps(dict(record.metadata), default=str)) or None,
        **_describe_attributes(record),
        **cut_texts(_list_texts(record), text_limit),
    }
    return {key: value for key, value in data.items() if value is not None}


def cut_texts(data: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Return a copy in which a text longer than `limit` is {"text": its beginning, "length": its whole length}."""
    return {key: _cut(value, limit) if key in TEXT_KEYS else value for key, value in data.items()}


def list_text_lengths(data: Mapping[str, Any]) -> list[int]:
    """Return the lengths of all texts that can be cut; of a text that was cut, its whole length."""
    lengths: list[int] = []
    for key in TEXT_KEYS:
        _collect_lengths(data.get(key), lengths)
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


def _describe_gate(record: GroupRecord) -> dict[str, Any] | None:
    gate = record.gate
    if gate is None:
        return None
    return {
        "passed": list(gate.passed),
        "factor": _round(gate.factor),
        "stopped_by": [list(names) for names in gate.stopped_by],
        "missing": list(gate.missing),
    }


def _describe_attributes(record: GroupRecord) -> dict[str, Any]:
    if not record.attribute_names:
        return {}
    return {
        "attribute_names": list(record.attribute_names),
        "attributes": _round(record.attributes),
        "gamma": _round(record.gamma),
        "gamma_error": _round(record.se),
        "gamma_groups": _round(record.n),
        "taken": _round(record.taken),
    }


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
    """Return a text as it is, anything else as JSON: indented if it is long."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    on_one_line = json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, Mapping | Sequence) and len(on_one_line) > 80:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return on_one_line


def _cut(value: Any, limit: int) -> Any:
    """Return the same value with long texts cut; texts that were cut before are cut again."""
    if isinstance(value, str):
        return value if len(value) <= limit else {"text": value[:limit], "length": len(value)}
    if isinstance(value, dict):
        if "length" in value:  # a text that was cut before
            return {"text": value["text"][:limit], "length": value["length"]}
        cut_parts = {}
        for key, part in value.items():
            cut_parts[key] = part if key in _NOT_TEXT else _cut(part, limit)
        return cut_parts
    if isinstance(value, list):
        return [_cut(part, limit) for part in value]
    return value


def _collect_lengths(value: Any, lengths: list[int]) -> None:
    """Append the lengths of all texts inside a value."""
    if isinstance(value, str):
        lengths.append(len(value))
    elif isinstance(value, dict):
        if "length" in value:
            lengths.append(value["length"])
            return
        for key, part in value.items():
            if key not in _NOT_TEXT:
                _collect_lengths(part, lengths)
    elif isinstance(value, list):
        for part in value:
            _collect_lengths(part, lengths)


def _round(numbers: Any) -> Any:
    """Round a row or a table of numbers; NaN becomes None, and None stays None."""
    if numbers is None:
        return None
    array = np.round(np.array(numbers, dtype=float), _DECIMALS) + 0.0  # −0 becomes 0
    if array.ndim == 1:
        return _replace_nan(array.tolist())
    return [_replace_nan(row) for row in array.tolist()]


def _replace_nan(row: Sequence[float | None]) -> list[float | None]:
    return [None if x is None or x != x else x for x in row]  # only NaN differs from itself
