"""The judges of the demo: they answer from a cache of replies that were written for it; no model is called.

    judges = demo_judges(Path("out/replies.sqlite"))         writes the cache: 19 rankings, 21 verdicts
    judges.judge_of("GeneralQuality").kind                   'listwise'
    judges.cache_only                                        True: no calls are made

`demo_judge.yaml` holds the rankings and verdicts, which refer to rollouts by number. This module builds the calls that
the judges will make for the demo's rollouts, with the responses in the same order, and stores a reply for each in the
format that a model would use. So the demo exercises prompts, cache, parsing and ranking without a server.

A reply is found by its call. Changing a weight does not change a call; changing the domain, question or seed of a
criterion does, and then its reply is missing.
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
from rubrank.judges.kinds.comparisons import make_orders
from rubrank.judges.prompting import absolute_call, listwise_call
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.files import load_yaml
from rubrank.rubrics.rubric import Criterion

MODEL = "none (replies written for the demo)"
NOTICE = (
    "The judges' replies were written for this demo, as an illustration: no judge model was asked."
)
"""Printed by the demo, so that nobody mistakes the replies for those of a model."""

_REPLIES_FILE = "demo_judge.yaml"

Places: TypeAlias = Sequence[Mapping[int, str]]
"""A ranking from best to worst. Each place maps the numbers of the rollouts that share it to a comment on each."""

CallsWithReplies: TypeAlias = Iterator[tuple[Call, str]]
"""Calls, each with the text of its reply."""


def demo_judges(cache: Path) -> Judges:
    """Return the judges of the demo, after writing their replies to the file `cache`."""
    text = read_replies_file()
    replies = load_yaml(text)
    digest = blake2b(text.encode(), digest_size=8).hexdigest()
    ranker = _make_judge("listwise", tuple(replies["listwise"]), digest)
    assessor = _make_judge("absolute", tuple(replies["absolute"]), digest)
    groups = {group.id: group for group in load_demo_groups()}
    with ReplyCache(cache) as store:
        _store_replies(store, ranker, _make_rankings(replies["listwise"], groups, ranker))
        _store_replies(store, assessor, _make_verdicts(replies["absolute"], groups, assessor))
    return Judges(judges=(ranker, assessor), cache=str(cache), cache_only=True, most_missing=0.0)


def read_replies_file() -> str:
    """Return the bundled rankings and verdicts, as YAML."""
    return (files("rubrank") / "cli" / "demo" / _REPLIES_FILE).read_text(encoding="utf-8")


def _make_judge(kind: Any, criteria: tuple[str, ...], digest: str) -> Judge:
    """Make a judge without a server. digest: of the file of replies.

    The digest is part of every call, so that cached replies of another version of the file are not used.
    """
    endpoint = Endpoint(base_url="http://demo.invalid", model=MODEL, extra_body={"replies": digest})
    return Judge(name=f"demo, {kind}", kind=kind, criteria=criteria, endpoints=(endpoint,))


def _store_replies(store: ReplyCache, judge: Judge, replies: CallsWithReplies) -> None:
    """Put replies into the cache, unless an earlier run has done so."""
    keys = CallKeys(judge)
    for call, text in replies:
        key = keys.key(call)
        if store.get(key, keys.servers) is None:
            reply = Reply(
                text, model=MODEL, endpoint=judge.endpoints[0].where, finish_reason="stop"
            )
            store.put(key, call, reply, requests=0)


def _make_rankings(
    rankings: Mapping[str, Mapping[str, Places]], groups: Mapping[str, Group], judge: Judge
) -> CallsWithReplies:
    """Yield the listwise calls with their replies. rankings: by criterion and query."""
    for name, by_query in rankings.items():
        criterion = Criterion(name=name)
        for query, places in by_query.items():
            group = groups[query]
            is_ranked = np.zeros((len(group.rollouts), 1), dtype=bool)
            is_ranked[[i for place in places for i in place]] = True
            question = Question(group, (criterion,), is_ranked)
            for order in make_orders(question, 0, judge):
                rollouts = [group.rollouts[i] for i in order]
                yield (
                    listwise_call(criterion, rollouts, language=judge.language),
                    _format_ranking(places, order),
                )


def _format_ranking(places: Places, order: Sequence[int]) -> str:
    """Write the reply, with the responses numbered as in the prompt: `order[0]` is response 1."""
    rank_of_rollout = {}
    comment_on_rollout = {}
    for rank, place in enumerate(places, 1):
        for i, comment in place.items():
            rank_of_rollout[i] = rank
            comment_on_rollout[i] = comment
    comments = []
    best_numbers = []
    ranks = {}
    for number, i in enumerate(order, 1):
        comments.append(f"{number}: {comment_on_rollout[i]}")
        ranks[str(number)] = rank_of_rollout[i]
        if rank_of_rollout[i] == 1:
            best_numbers.append(number)
    return _format_reply(reasoning="\n".join(comments), finding=best_numbers, verdict=ranks)


def _make_verdicts(
    verdicts: Mapping[str, Mapping[str, Mapping[int, Mapping[str, Any]]]],
    groups: Mapping[str, Group],
    judge: Judge,
) -> CallsWithReplies:
    """Yield the calls about one response each, with their replies. verdicts: by criterion, query and rollout."""
    for name, by_query in verdicts.items():
        criterion = Criterion(name=name)
        for query, by_rollout in by_query.items():
            for i, verdict in by_rollout.items():
                call = absolute_call(criterion, groups[query].rollouts[i], language=judge.language)
                yield call, _format_reply(**verdict)


def _format_reply(**fields: Any) -> str:
    return json.dumps(fields, ensure_ascii=False)
