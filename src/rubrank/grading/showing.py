"""What judges would be asked, word for word: the messages as they are sent, and their tokens.

    shown = show_calls("rubric.yaml", "rollouts.jsonl", judges="judges.yaml")
    shown.calls[0].messages          ({"role": "system", "content": …}, {"role": "user", "content": …})
    shown.calls[0].tokens            (812, 96): of each message
    shown.tokenizer                  "estimate", or the file that counted

The calls are made by the very code that asks, and recorded instead of sent. Programs run first, as in grading, so that
only what is left to a judge is shown. Kinds that look at one response show one rollout; those that compare, its group.
Without rollouts, a query and responses in brackets stand in, and everything that a judge may have to decide is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rubrank._plain import plain
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.grading.estimate import ask_nobody, criteria_of, may_be_judged, may_be_wanted
from rubrank.grading.grade import grade
from rubrank.grading.judged import wanted_of
from rubrank.judges import COMPARES
from rubrank.judges.judge import Call, Judge, Judges, Reply, load_judges
from rubrank.judges.prompting.tokens import token_counter
from rubrank.rollouts.reading import read_groups
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Criterion

_OWNER = "judge show"
STAND_IN = {"endpoints": [{"base_url": "http://localhost/v1", "model": "none"}]}
"""A judge for those who have none yet: the defaults of every option."""


@dataclass(frozen=True)
class ShownCall:
    """One call as it would be sent."""

    judge: str
    kind: str
    purpose: str
    messages: tuple[Mapping[str, str], ...]
    tokens: tuple[int, ...]
    """Of each message."""
    schema: Mapping[str, Any] | None
    version: str
    times: int = 1
    """How often it is sent: samples of a panel, members that are asked the same."""


@dataclass(frozen=True)
class Shown:
    """All calls about one rollout or group."""

    calls: tuple[ShownCall, ...]
    tokenizer: str

    @property
    def tokens(self) -> int:
        """Of all messages, as often as they are sent."""
        return sum(call.times * sum(call.tokens) for call in self.calls)

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        calls = [plain(vars(call)) for call in self.calls]
        return {"calls": calls, "tokens": self.tokens, "tokenizer": self.tokenizer}


@only_our_errors
def show_calls(
    rubric: Any,
    rollouts: Any = None,
    judges: Any = None,
    *,
    group: str | None = None,
    rollout: int = 0,
    columns: Mapping[str, Any] | None = None,
    tokenizer: str | Path | None = None,
) -> Shown:
    """What the judges would be asked about one rollout (counted from 0) of one group, by default the first.

    rubric, rollouts, judges, columns: as in `grade`. tokenizer: a file that counts tokens; without one, an estimate.
    """
    count, name = token_counter(None if tokenizer is None else Path(tokenizer))
    asked = load_judges(STAND_IN if judges is None else judges)
    about = _stand_in() if rollouts is None else _group(read_groups(rollouts, columns), group)
    [criteria] = criteria_of([about], rubric)
    if not any(map(may_be_judged, criteria)):
        raise InvalidInput(_OWNER, "rubric", "one with a criterion that a judge decides", "programs alone", "")
    wanted = _wanted(about, criteria, rubric, asked, real=rollouts is not None)
    _check(rollout, about)
    recorded: dict[tuple[Any, ...], list[Any]] = {}
    for compares in (False, True):
        chosen = _only(wanted, criteria, asked, compares, rollout)
        if chosen.any():
            ask_nobody([about], [criteria], [chosen], asked, lambda judge: _Recorder(judge, recorded))
    calls = [
        ShownCall(
            judge,
            kind,
            call.purpose,
            call.messages,
            tuple(count(m["content"]) for m in call.messages),
            call.schema,
            call.prompt_version,
            times,
        )
        for judge, kind, call, times in recorded.values()
    ]
    return Shown(tuple(calls), name)


def _stand_in() -> Group:
    responses = ("(the response)", "(another response)")
    return Group(
        id="stand-in",
        rollouts=tuple(Rollout.model_validate({"prompt": "(the query)", "response": text}) for text in responses),
    )


def _group(groups: Sequence[Group], id: str | None) -> Group:
    if id is None:
        return groups[0]
    found = next((group for group in groups if group.id == id), None)
    if found is None:
        raise UnknownName.of(_OWNER, "--group", id, [group.id for group in groups])
    return found


def _check(rollout: int, group: Group) -> None:
    size = len(group.rollouts)
    if not 0 <= rollout < size:
        raise InvalidInput(_OWNER, "--rollout", f"from 0 to {size - 1} in group {group.id!r}", str(rollout), "")


def _wanted(group: Group, criteria: Sequence[Criterion], rubric: Any, judges: Judges, real: bool) -> np.ndarray:
    """(G, K): what is left to a judge after programs have run; for a stand-in, whatever may be."""
    if not real:
        return may_be_wanted(group, criteria, judges)
    return wanted_of(grade([group], rubric, workers=0).groups[0], criteria, judges)


def _only(
    wanted: np.ndarray, criteria: Sequence[Criterion], judges: Judges, compares: bool, rollout: int
) -> np.ndarray:
    """The columns of judges that compare, or the others' for one rollout."""
    owners = [judges.judge_of(criterion.name) for criterion in criteria]
    columns = np.array([owner is not None and (owner.kind in COMPARES) == compares for owner in owners], dtype=bool)
    rows = np.ones(len(wanted), dtype=bool) if compares else np.arange(len(wanted)) == rollout
    return wanted & columns & rows[:, None]


class _Recorder:
    """An asker that answers nothing and keeps the calls; the same call again is counted."""

    def __init__(self, judge: Judge, kept: dict[tuple[Any, ...], list[Any]]) -> None:
        self._judge, self._kept = judge, kept

    async def ask(self, call: Call) -> Reply:
        """No answer."""
        texts = (self._judge.name, *(message["content"] for message in call.messages))
        self._kept.setdefault(texts, [self._judge.name, self._judge.kind, call, 0])[3] += 1
        return Reply(None, "not asked", attempts=0)
