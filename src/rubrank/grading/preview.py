"""Preview the calls of judges and their cost without sending anything.

    preview = estimate("rollouts.jsonl", "rubric.yaml", judges="judges.yaml")
    preview.judges[0].calls, preview.judges[0].input_tokens, preview.judges[0].cost        1280, 1404160, 3.9

    preview = show_calls("rubric.yaml", "rollouts.jsonl", judges="judges.yaml")
    preview.calls[0].messages          ({"role": "system", "content": …}, {"role": "user", "content": …})

Both run the code that asks judges, with a client that counts or records the calls instead of sending them.

`estimate` is an upper bound: verifiers do not run, so every cell that a judge may have to decide counts, even those of
responses that a gate will stop. Input tokens are estimated from the text; output tokens are the maximum of a reply.

`show_calls` runs the verifiers first, as grading does, and shows the calls about one rollout, or about its group for
judges that compare. Without rollouts, placeholders stand in for the query and the responses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from rubrank._plain import plain
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.grading.grade import run_grading
from rubrank.grading.judge_table import find_cells_to_judge
from rubrank.grading.plan import GradeOptions, find_rubrics
from rubrank.judges import COMPARES
from rubrank.judges.client.batch_api import choose_batch_endpoint, compute_batch_price
from rubrank.judges.judge import Call, Judge, Judges, Reply, load_judges
from rubrank.judges.prompting.tokens import estimate_tokens, load_token_counter
from rubrank.judges.step import judge_groups
from rubrank.rollouts.groups import read_groups
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.catalogue import PROMPTED
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import NOT_ASKED

_OWNER = "show_calls"  # named by errors
PLACEHOLDER_JUDGE = {"endpoints": [{"base_url": "http://localhost/v1", "model": "none"}]}
"""The judge of `show_calls` if none is given; all its options have their defaults."""


# ----------------------------------------------------------------------------------------------------------- estimate


@dataclass(frozen=True)
class JudgeEstimate:
    """The calls that one judge would get."""

    judge: str
    kind: str
    model: str
    """The models of all its endpoints, separated by commas."""
    calls: int
    input_tokens: int
    output_tokens: int
    """Upper bound."""
    cost: float
    """Upper bound, in the currency of the judge's prices; 0 if no price is given."""
    priced: bool
    """Does an endpoint have a price?"""
    batches: int = 0
    """Minimum number of batches; 0 if calls are sent one by one."""


@dataclass(frozen=True)
class RunEstimate:
    """How many verdicts and judge calls a run would make, and what they would cost."""

    rollouts: int
    groups: int
    verdicts: int
    """Number of verdicts by verifiers."""
    judged: int
    """Cells (a criterion of a rollout) that a judge may have to decide."""
    undecided: tuple[str, ...]
    """Judged criteria that no judge of the file decides."""
    judges: tuple[JudgeEstimate, ...]

    @property
    def calls(self) -> int:
        """Calls of all judges."""
        return sum(judge.calls for judge in self.judges)

    @property
    def cost(self) -> float:
        """Cost of all judges; an upper bound."""
        return sum(judge.cost for judge in self.judges)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self) | {"calls": self.calls, "cost": self.cost}


@only_our_errors
def estimate(
    rollouts: Any,
    rubric: Any = None,
    judges: Any = None,
    *,
    columns: Mapping[str, Any] | None = None,
    batch: bool = False,
) -> RunEstimate:
    """Count the calls that `grade` would make with these parameters. Nothing is sent or written.

    batch: use the prices of the batch API, and count batches.
    """
    groups = read_groups(rollouts, columns)
    criteria = [rubric.criteria for rubric in find_rubrics(groups, rubric)]  # of each group
    loaded_judges = None if judges is None else load_judges(judges)
    verdicts = 0
    judged = 0
    undecided: set[str] = set()
    for group, group_criteria in zip(groups, criteria, strict=True):
        size = len(group.rollouts)
        for criterion in group_criteria:
            if not criterion.judged:
                verdicts += size
            if _may_be_judged(criterion):
                judged += size
            has_judge = loaded_judges is not None and loaded_judges.judge_of(criterion.name)
            if criterion.judged and not has_judge:
                undecided.add(criterion.name)
    # Members of a panel may share the name of a judge, but not its models, and so their prices.
    counters: dict[tuple[str, str], _CallCounter] = {}  # by (name, models) of the judge
    if loaded_judges is not None:
        cells = [
            _find_cells_that_may_be_judged(group, group_criteria, loaded_judges)
            for group, group_criteria in zip(groups, criteria, strict=True)
        ]

        def count(judge: Judge, call: Call) -> None:
            models = ", ".join(sorted({endpoint.model for endpoint in judge.endpoints}))
            counters.setdefault((judge.name, models), _CallCounter(judge, models)).add(call)

        _make_calls(groups, criteria, cells, loaded_judges, count)
    return RunEstimate(
        rollouts=sum(len(group.rollouts) for group in groups),
        groups=len(groups),
        verdicts=verdicts,
        judged=judged,
        undecided=tuple(sorted(undecided)),
        judges=tuple(counter.make_estimate(batch) for counter in counters.values()),
    )


class _CallCounter:
    """Counts the calls of one judge."""

    def __init__(self, judge: Judge, models: str) -> None:
        self._judge = judge
        self._models = models
        self._calls = 0
        self._tokens = 0
        self._bytes = 0

    def add(self, call: Call) -> None:
        """Count a call."""
        self._calls += 1
        for message in call.messages:
            text = str(message.get("content") or "")
            self._tokens += estimate_tokens(text)
            self._bytes += len(text.encode("utf-8", "replace"))

    def make_estimate(self, batch: bool) -> JudgeEstimate:
        """Return the estimate, priced by the endpoint that takes batches, or by the most expensive endpoint."""
        output_tokens = self._calls * self._judge.sampling.max_tokens
        if self._judge.kind == "decision":  # it answers with probabilities, without writing
            output_tokens = 0
        if batch:
            endpoint = choose_batch_endpoint(self._judge)
            limits = endpoint.batch
            prices = [compute_batch_price(endpoint)]
            batches = max(
                ceil(self._calls / limits.requests), ceil(self._bytes / (1e6 * limits.megabytes))
            )
        else:
            prices = [endpoint.price for endpoint in self._judge.endpoints]
            batches = 0
        costs = [
            (self._tokens * price.input + output_tokens * price.output) / 1e6 for price in prices
        ]
        return JudgeEstimate(
            judge=self._judge.name,
            kind=self._judge.kind,
            model=self._models,
            calls=self._calls,
            input_tokens=self._tokens,
            output_tokens=output_tokens,
            cost=max(costs, default=0.0),
            priced=any(price.input or price.output for price in prices),
            batches=batches,
        )


# ------------------------------------------------------------------------------- used by `estimate` and `show_calls`


def _may_be_judged(criterion: Criterion) -> bool:
    """Does a judge decide it, or may its verifier pass it on to one?"""
    if criterion.judged:
        return True
    return criterion.decided_by.how == "both" and criterion.prompt_name in PROMPTED


def _find_cells_that_may_be_judged(
    group: Group, criteria: Sequence[Criterion], judges: Judges
) -> np.ndarray:
    """Return a (rollouts, criteria) mask of the cells that these judges may have to decide."""
    mask = np.zeros((len(group.rollouts), len(criteria)), dtype=bool)
    for column, criterion in enumerate(criteria):
        has_judge = judges.judge_of(criterion.name) is not None
        mask[:, column] = has_judge and _may_be_judged(criterion)
    return mask


def _make_calls(
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    cells: Sequence[np.ndarray],
    judges: Judges,
    handle: Callable[[Judge, Call], None],
) -> None:
    """Make all calls as a real run does; each is passed to `handle` instead of being sent."""
    # Nothing is sent, so no limit applies; and a cache would answer instead of the client.
    unlimited = judges.model_copy(update={"deadline": None, "cache": None, "cache_only": False})
    # check=False, because no call is answered, which would otherwise raise an error.
    judge_groups(
        groups,
        criteria,
        cells,
        unlimited,
        asker_of=lambda judge: _SilentClient(judge, handle),
        check=False,
    )


class _SilentClient:
    """The client of a judge that answers no call."""

    def __init__(self, judge: Judge, handle: Callable[[Judge, Call], None]) -> None:
        self._judge = judge
        self._handle = handle

    async def ask(self, call: Call) -> Reply:
        """Pass the call on; there is no answer."""
        self._handle(self._judge, call)
        return Reply(None, NOT_ASKED, attempts=0)


# --------------------------------------------------------------------------------------------------------- show_calls


@dataclass
class ShownCall:
    """One call as it would be sent."""

    judge: str
    kind: str
    """The kind of the judge, such as "absolute" or "pairwise"."""
    purpose: str
    messages: tuple[Mapping[str, str], ...]
    tokens: tuple[int, ...]
    """Tokens of each message."""
    schema: Mapping[str, Any] | None
    """The JSON schema of the reply; None if any text may be replied."""
    version: str
    """Version of the prompt."""
    times: int = 0
    """How often the same call is sent, for samples or members of a panel."""


@dataclass(frozen=True)
class CallPreview:
    """All calls that judges would get about one rollout or group."""

    calls: tuple[ShownCall, ...]
    tokenizer: str
    """ "estimate", or the name of the tokenizer file."""

    @property
    def tokens(self) -> int:
        """Tokens of all messages, as often as they are sent."""
        return sum(call.times * sum(call.tokens) for call in self.calls)

    def as_dict(self, most: int = 0) -> dict[str, Any]:
        """Return plain data, for JSON: the first `most` calls (0: all of them), with the number and tokens of all."""
        calls = [plain(vars(call)) for call in self.calls[: most or None]]
        return {
            "calls": calls,
            "all_calls": len(self.calls),
            "tokens": self.tokens,
            "tokenizer": self.tokenizer,
        }


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
) -> CallPreview:
    """Return the calls that judges would get about one rollout (counted from 0) of one group, by default the first.

    rubric, rollouts, judges, columns: as in `grade`. tokenizer: a file that counts tokens; without one, an estimate.
    """
    count_tokens, tokenizer_name = load_token_counter(
        None if tokenizer is None else Path(tokenizer)
    )
    loaded_judges = load_judges(PLACEHOLDER_JUDGE if judges is None else judges)
    shown_group = _read_group(rollouts, columns, group)
    size = len(shown_group.rollouts)
    if not 0 <= rollout < size:
        raise InvalidInput(
            _OWNER,
            "rollout",
            allowed=f"from 0 to {size - 1} in group {shown_group.id!r}",
            got=str(rollout),
        )
    criteria = find_rubrics([shown_group], rubric)[0].criteria
    if not any(map(_may_be_judged, criteria)):
        raise InvalidInput(
            _OWNER,
            "rubric",
            allowed="one with a criterion that a judge decides",
            got="programs alone",
        )
    if rollouts is None:
        cells = _find_cells_that_may_be_judged(shown_group, criteria, loaded_judges)
    else:
        options = GradeOptions(workers=0, judged_later=True)
        scored = run_grading([shown_group], rubric, options).groups[0]
        cells = find_cells_to_judge(scored, criteria, loaded_judges)

    # `cells` says what judges decide about the group. A judge that scores is shown this rollout alone; a judge that
    # compares needs the whole group. Rollout 1 of three, a criterion that is scored and one that is compared:
    #
    #     cells      scored_cells      compared_cells
    #     1 1        0 0               0 1
    #     1 1        1 0               0 1
    #     1 0        0 0               0 0               the last rollout is not compared: a gate has stopped it
    is_compared = np.zeros(len(criteria), dtype=bool)
    for column, criterion in enumerate(criteria):
        judge = loaded_judges.judge_of(criterion.name)
        is_compared[column] = judge is not None and judge.kind in COMPARES
    scored_cells = cells & ~is_compared
    scored_cells[np.arange(size) != rollout] = False
    compared_cells = cells & is_compared
    # (judge, texts of the messages) → the call; identical calls are counted
    shown_calls: dict[tuple[str, ...], ShownCall] = {}

    def record(judge: Judge, call: Call) -> None:
        texts = [message["content"] for message in call.messages]
        key = (judge.name, *texts)
        if key not in shown_calls:
            shown_calls[key] = ShownCall(
                judge=judge.name,
                kind=judge.kind,
                purpose=call.purpose,
                messages=call.messages,
                tokens=tuple(map(count_tokens, texts)),
                schema=call.schema,
                version=call.prompt_version,
            )
        shown_calls[key].times += 1

    # Calls that score are made first, so that they are shown first.
    for chosen_cells in (scored_cells, compared_cells):
        if chosen_cells.any():
            _make_calls([shown_group], [criteria], [chosen_cells], loaded_judges, record)
    return CallPreview(tuple(shown_calls.values()), tokenizer_name)


def _read_group(rollouts: Any, columns: Mapping[str, Any] | None, id: str | None) -> Group:
    """Return the group with this id, by default the first; without rollouts, a group of placeholders.

    Raises UnknownName if there is no such group.
    """
    if rollouts is None:
        texts = ("(the response)", "(another response)")
        placeholders = [
            Rollout.model_validate({"prompt": "(the query)", "response": text}) for text in texts
        ]
        return Group(id="placeholder", rollouts=tuple(placeholders))
    groups = {candidate.id: candidate for candidate in read_groups(rollouts, columns)}
    if id is None:
        id = next(iter(groups))
    if id not in groups:
        raise UnknownName.of(_OWNER, "group", id, groups)
    return groups[id]
