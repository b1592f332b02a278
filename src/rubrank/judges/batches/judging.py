"""Judges asked through batch APIs: questions are collected, sent in files, and answered from the store later.

    judgments = judge_in_batches(groups, criteria, wanted, judges, wait=True)

A round goes through all questions as an ordinary step does. A call whose reply is in the store is answered from there;
the others are noted, sent together, and waited for. Then the next round begins: kinds that ask again after an answer,
requests that expired or failed for now, and parameters that a server refuses take another round. The last one finds
every reply, or the reason why there is none, and its judgments are the result. With wait=False a round that leaves
something under way ends in `BatchesPending`, and the same call goes on from there later.

Replies go to the same store as those of ordinary calls, under the same keys: neither way pays for what the other has.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from rubrank.errors import BatchesPending, InvalidInput, JudgingInterrupted, UnknownName
from rubrank.judges.batches.book import Book
from rubrank.judges.batches.rounds import Rounds
from rubrank.judges.client.accounting import Account
from rubrank.judges.client.runtime import runtime
from rubrank.judges.judge import Judges
from rubrank.judges.judging import Progress, checked, judge_groups
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Criterion

_MOST_ROUNDS = 32


def check_batched(batch: str, judges: Judges | None) -> None:
    """Refuse what batches cannot do, before anything is spent."""
    if batch not in ("wait", "submit"):
        raise UnknownName.of("grade", "batch", batch, ("wait", "submit"))
    if judges is None:
        raise InvalidInput("grade", "--batch", "used with judges", "none", "Say --judges FILE.")
    if judges.cache is None:
        raise InvalidInput("grade", "--batch", "used with a cache of replies", "none", "Say cache: FILE in the judges.")
    if judges.cache_only:
        raise InvalidInput("grade", "--batch", "used without --cache-only", "both", "")
    if judges.deadline is not None:
        remedy = "Leave it out: a batch takes as long as the server needs, up to a day."
        raise InvalidInput("grade", "--batch", "used without a deadline", f"deadline: {judges.deadline:g}", remedy)


def judge_in_batches(
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    wanted: Sequence[np.ndarray],
    judges: Judges,
    *,
    progress: Progress | None = None,
    wait: bool = True,
) -> Judgments:
    """What `judge_groups` gives, by way of batches; parameters as there. wait: until all of them are over."""
    check_batched("wait" if wait else "submit", judges)
    assert judges.cache is not None
    free = judges.model_copy(update={"cache": None, "on_outage": "continue"})
    with ExitStack() as stack:
        store = stack.enter_context(runtime().store(judges.cache))
        book = stack.enter_context(Book(f"{judges.cache}.batches"))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rubrank-batches-")))
        rounds = Rounds(judges, store, book, folder, progress)
        try:
            runtime().run(rounds.look())
            for _ in range(_MOST_ROUNDS):
                rounds.begin()
                found = judge_groups(groups, criteria, wanted, free, asker_of=rounds.asker_of, check=False)
                if not rounds.open:
                    break
                left = runtime().run(rounds.send(wait))
                if left is not None:
                    raise BatchesPending(*left)
        except KeyboardInterrupt:
            raise JudgingInterrupted(rounds.answered, rounds.noted, judges.cache) from None
        rounds.end()
    account = Account.merged([found.account, rounds.meter.account()])
    return checked(replace(found, account=account), judges)
