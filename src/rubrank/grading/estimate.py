"""What judges would be asked and would cost, before any is asked: rubric × groups × the judges' kinds.

    found = estimate("rollouts.jsonl", "rubric.yaml", judges="judges.yaml")
    found.judges[0].calls, found.judges[0].input_tokens, found.judges[0].cost        1280, 1404160, 3.9

The prompts are made as in a real run and counted instead of sent, so calls are exact for the cells that are asked. It
is an upper bound: programs have not run, so every cell that a judge may have to decide counts, also of responses that a
gate will stop. Tokens of input are estimated from the text; those of output are the most that a reply may have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import numpy as np

from rubrank.grading.plan import rubrics_of
from rubrank.judges.asking import AskerOf
from rubrank.judges.batches.api import batch_endpoint, batch_price
from rubrank.judges.judge import Call, Judge, Judges, Reply, load_judges
from rubrank.judges.judging import judge_groups
from rubrank.judges.prompting.tokens import estimated_tokens
from rubrank.rollouts.reading import read_groups
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.catalogue import PROMPTED
from rubrank.rubrics.rubric import Criterion


@dataclass(frozen=True)
class JudgeEstimate:
    """What one judge would be asked."""

    judge: str
    kind: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    """At most."""
    cost: float
    """At most, in the currency of the judge's prices; 0 where no price is given."""
    priced: bool
    """Does an endpoint say what it costs?"""
    batches: int = 0
    """In which the calls would be sent, at least; 0 where they are asked one by one."""


@dataclass(frozen=True)
class RunEstimate:
    """What a run would do."""

    rollouts: int
    groups: int
    verdicts: int
    """By programs."""
    judged: int
    """Cells that a judge may have to decide."""
    undecided: tuple[str, ...]
    """Judged criteria that no judge of the file decides."""
    judges: tuple[JudgeEstimate, ...]

    @property
    def calls(self) -> int:
        """Of all judges."""
        return sum(one.calls for one in self.judges)

    @property
    def cost(self) -> float:
        """Of all judges, at most."""
        return sum(one.cost for one in self.judges)

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self) | {"calls": self.calls, "cost": self.cost}


def estimate(
    rollouts: Any,
    rubric: Any = None,
    judges: Any = None,
    *,
    columns: Mapping[str, Any] | None = None,
    batch: bool = False,
) -> RunEstimate:
    """Count what `grade` would ask for; parameters as there. No call is made, and nothing is written.

    batch: at the price of a batch, and with the number of batches.
    """
    groups = read_groups(rollouts, columns)
    criteria = criteria_of(groups, rubric)
    found = None if judges is None else load_judges(judges)
    wanted = [may_be_wanted(group, own, found) for group, own in zip(groups, criteria, strict=True)]
    names = {c.name for own in criteria for c in own if c.judged and (found is None or not found.judge_of(c.name))}
    return RunEstimate(
        rollouts=sum(len(group.rollouts) for group in groups),
        groups=len(groups),
        verdicts=sum(len(g.rollouts) * sum(not c.judged for c in own) for g, own in zip(groups, criteria, strict=True)),
        judged=int(
            sum(len(g.rollouts) * sum(map(may_be_judged, own)) for g, own in zip(groups, criteria, strict=True))
        ),
        undecided=tuple(sorted(names)),
        judges=() if found is None else _counted(groups, criteria, wanted, found, batch),
    )


def criteria_of(groups: list[Group], rubric: Any) -> list[tuple[Criterion, ...]]:
    """What every group is asked: its own rubric on top of the shared one."""
    return [one.criteria for one in rubrics_of(groups, rubric)]


def may_be_judged(criterion: Criterion) -> bool:
    """Does a judge decide it, or may the verifier pass it on to one?"""
    return criterion.judged or (criterion.decided_by.how == "both" and criterion.prompt_name in PROMPTED)


def may_be_wanted(group: Group, criteria: Sequence[Criterion], judges: Judges | None) -> np.ndarray:
    """(G, K): what may be left to a judge of these."""
    asked = [may_be_judged(c) and judges is not None and judges.judge_of(c.name) is not None for c in criteria]
    return np.tile(np.array(asked, dtype=bool), (len(group.rollouts), 1))


def _counted(
    groups: list[Group], criteria: list[tuple[Criterion, ...]], wanted: list[np.ndarray], judges: Judges, batch: bool
) -> tuple[JudgeEstimate, ...]:
    counters: dict[tuple[str, str], _Counter] = {}

    def asker_of(judge: Judge) -> _Counter:
        models = ", ".join(sorted({endpoint.model for endpoint in judge.endpoints}))
        return counters.setdefault((judge.name, models), _Counter(judge, models))

    ask_nobody(groups, criteria, wanted, judges, asker_of)
    return tuple(counter.estimate(batch) for counter in counters.values())


def ask_nobody(
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    wanted: Sequence[np.ndarray],
    judges: Judges,
    asker_of: AskerOf,
) -> None:
    """Make all calls as a real run does, for askers that answer none."""
    free = judges.model_copy(update={"deadline": None, "cache": None, "cache_only": False})
    judge_groups(groups, criteria, wanted, free, asker_of=asker_of, check=False)


class _Counter:
    """An asker that counts calls and answers none."""

    def __init__(self, judge: Judge, models: str) -> None:
        self._judge, self._models = judge, models
        self._calls, self._tokens, self._size = 0, 0, 0

    async def ask(self, call: Call) -> Reply:
        """No answer."""
        self._calls += 1
        texts = [str(message.get("content") or "") for message in call.messages]
        self._tokens += sum(map(estimated_tokens, texts))
        self._size += sum(len(text.encode("utf-8", "replace")) for text in texts)
        return Reply(None, "not asked", attempts=0)

    def estimate(self, batch: bool) -> JudgeEstimate:
        """What was counted; of several endpoints the dearest counts, of batches the one that they go to."""
        said, to = self._calls * self._judge.sampling.max_tokens, batch_endpoint(self._judge)
        prices = [batch_price(to)] if batch else [endpoint.price for endpoint in self._judge.endpoints]
        files = max(ceil(self._calls / to.batch.requests), ceil(self._size / (1e6 * to.batch.megabytes)))
        cost = max(((self._tokens * price.input + said * price.output) / 1e6 for price in prices), default=0.0)
        priced = any(price.input or price.output for price in prices)
        return JudgeEstimate(
            self._judge.name,
            self._judge.kind,
            self._models,
            self._calls,
            self._tokens,
            said,
            cost,
            priced,
            files if batch else 0,
        )
