"""The judges of the demo: they answer from a file, with replies that were written for it; no model is asked.

    judges = demo_judges(Path("out/replies.sqlite"))         makes the file: 19 rankings, 21 verdicts
    judges.judge_of("GeneralQuality").kind                   'listwise'
    judges.cache_only                                        True: no calls are made

`data/demo_judge.yaml` holds rankings and verdicts by the numbers of the rollouts. Here the very calls are made that the
judges will make for these rollouts, responses in the same order, and each gets its reply as a model would have put it:
so the demo shows prompts, cache, parsing and ranking at work, without a server. Weights are no part of a call; another
domain, question or seed is, and its reply would be missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rubrank.cli.demo.groups import load_demo_groups
from rubrank.judges.client.cache import CallKeys, ReplyCache
from rubrank.judges.judge import Call, Endpoint, Judge, Judges, Question, Reply
from rubrank.judges.kinds.listwise import make_orders
from rubrank.judges.prompting import absolute_call, listwise_call
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.files import load_yaml
from rubrank.rubrics.rubric import Criterion

MODEL = "none (replies written for the demo)"
NOTICE = "The judges' replies were written for this demo, as an illustration: no judge model was asked."
"""What the demo must say about them."""

_NAME = "demo_judge.yaml"

Places: TypeAlias = Sequence[Mapping[int, str]]
"""From best to worst: the rollouts that share a place, and what is said about each."""

Answered: TypeAlias = Iterator[tuple[Call, str]]
"""Calls, and the texts of their replies."""


def demo_judges(cache: Path) -> Judges:
    """The judges, and in `cache` all that they will be asked."""
    text = _bundled()
    said = load_yaml(text)
    ranker, assessor = (_judge(kind, tuple(said[kind]), text) for kind in ("listwise", "absolute"))
    groups = {group.id: group for group in load_demo_groups()}
    with ReplyCache(cache) as store:
        _keep(store, ranker, _rankings(said["listwise"], groups, ranker))
        _keep(store, assessor, _verdicts(said["absolute"], groups, assessor))
    return Judges(judges=(ranker, assessor), cache=str(cache), cache_only=True, most_missing=0.0)


def _bundled() -> str:
    return (files("rubrank") / "cli" / "demo" / _NAME).read_text(encoding="utf-8")


def _judge(kind: Any, criteria: tuple[str, ...], text: str) -> Judge:
    """Its model carries a digest of the bundled replies: a file that an older version made answers nothing."""
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    nowhere = Endpoint(base_url="http://demo.invalid", model=MODEL, extra_body={"replies": digest})
    return Judge(name=f"demo, {kind}", kind=kind, criteria=criteria, endpoints=(nowhere,))


def _keep(store: ReplyCache, judge: Judge, answered: Answered) -> None:
    """Into the file, unless they are there from an earlier run; no request was made for any of them."""
    keys = CallKeys(judge)
    for call, text in answered:
        key = keys.key(call)
        if store.get(key) is None:
            store.put(key, call, Reply(text, model=MODEL, endpoint=_NAME, finish_reason="stop"), requests=0)


def _rankings(said: Mapping[str, Mapping[str, Places]], groups: Mapping[str, Group], judge: Judge) -> Answered:
    for name, by_query in said.items():
        criterion = Criterion(name=name)
        for query, places in by_query.items():
            group = groups[query]
            for order in make_orders(_question(group, criterion, places), 0, judge):
                rollouts = [group.rollouts[i] for i in order]
                yield listwise_call(criterion, rollouts, language=judge.language), _ranking(places, order)


def _question(group: Group, criterion: Criterion, places: Places) -> Question:
    """Those take part that the ranking names."""
    wanted = np.zeros((len(group.rollouts), 1), dtype=bool)
    wanted[[i for place in places for i in place]] = True
    return Question(group, (criterion,), wanted)


def _ranking(places: Places, order: Sequence[int]) -> str:
    """The reply, with the responses numbered as they are shown: `order[0]` is response 1."""
    rank = {i: number for number, place in enumerate(places, 1) for i in place}
    note = {i: text for place in places for i, text in place.items()}
    shown = dict(enumerate(order, 1))
    return _as_reply(
        reasoning="\n".join(f"{number}: {note[i]}" for number, i in shown.items()),
        finding=[number for number, i in shown.items() if rank[i] == 1],
        verdict={str(number): rank[i] for number, i in shown.items()},
    )


def _verdicts(
    said: Mapping[str, Mapping[str, Mapping[int, Mapping[str, Any]]]], groups: Mapping[str, Group], judge: Judge
) -> Answered:
    for name, by_query in said.items():
        criterion = Criterion(name=name)
        for query, by_rollout in by_query.items():
            for i, verdict in by_rollout.items():
                call = absolute_call(criterion, groups[query].rollouts[i], language=judge.language)
                yield call, _as_reply(**verdict)


def _as_reply(**said: Any) -> str:
    return json.dumps(said, ensure_ascii=False)
