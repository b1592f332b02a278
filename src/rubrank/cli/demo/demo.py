"""The whole path on bundled rollouts: grade with programs and judges, rank, adjust, gate, explain, report.

`rubrank demo` runs it. It needs no server, no key and no download: the judges answer from replies that were written for
it, in `demo_judge.yaml`.

    demo(Path("out/rewards.jsonl"))                          grades, fuses, explains and writes a report
    demo_judges(Path("out/replies.sqlite"))                  the judges; writes their cache: 19 rankings, 21 verdicts
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Any, TypeAlias

import numpy as np

from rubrank._files import check_output_path
from rubrank.cli.demo.groups import load_demo_groups
from rubrank.cli.terminal import print_line, print_table
from rubrank.fusion.control.adjustment import attenuate
from rubrank.fusion.control.length import lengths
from rubrank.fusion.control.markdown import MARKERS, markdown_density
from rubrank.fusion.group import FusedGroup
from rubrank.fusion.result import Fused
from rubrank.fusion.rules import find_rule
from rubrank.grading.grade import grade
from rubrank.judges.client.cache import CallKeys, ReplyCache
from rubrank.judges.judge import Call, Endpoint, Judge, Judges, Question, Reply
from rubrank.judges.kinds.comparisons import make_orders
from rubrank.judges.prompting import absolute_call, listwise_call
from rubrank.records.files import write_records
from rubrank.records.record import records_of
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.files import load_yaml
from rubrank.rubrics.rubric import Criterion
from rubrank.scores.table import ScoreTable
from rubrank.viewer.report import write_report

ATTRIBUTES = ("reasoning words", "headings", "bold")
"""Attributes of responses whose influence is removed from the rewards."""
OTHER_RULES = ("weighted-mean+", "gdpo+", "focal+", "borda+")
"""Rules whose rewards the report compares with those of the demo."""

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


def demo(output: Path, *, force: bool = False, explain: bool = False) -> Fused:
    """Grade and fuse the bundled rollouts and show one group; `explain` shows all groups and two explanations in full.

    Rewards go to `output`, records and a report beside it.
    """
    check_output_path(output, (".jsonl", ".ndjson"), force=force, verb="demo")
    records = output.with_name("demo_records.jsonl")
    report = output.with_name("demo_report.html")
    for path in (records, report):
        check_output_path(path, force=force, verb="demo")
    groups = load_demo_groups()
    graded = grade(groups, workers=0, judges=demo_judges(output.parent / "demo_replies.sqlite"))
    result = fuse_table(graded, groups)

    rollouts = sum(len(group.rollouts) for group in groups)
    introduction = (
        f"{len(groups)} queries, {rollouts} responses, {len(graded.criteria)} criteria, decided by programs and "
        "judges. Each criterion ranks the responses of a query; the rankings are fused into one reward. The influence "
        "of longer reasoning, headings and bold print is taken out. Gates stop responses that are empty, cut off, "
        "garbled or looping."
    )
    print_line("rubrank: rubrics into rewards, by ranking\n")
    print_line(fill(introduction, 80))
    print_line(f"{fill(NOTICE, 80)}\n")
    first = next(iter(result))
    _show_rewards(first)
    if explain:
        _show_overview(result)
        _show_explanations(result, graded)
    else:
        # The three criteria that moved the reward of the best rollout most.
        heading, *lines = first.explain(int(np.argmax(first.reward))).splitlines()
        print_line("\n".join([f"Why? {heading}", *lines[:3], "  …", ""]))

    write_rewards(groups, result, output)
    batch = graded.batch()
    other_rewards = {name: find_rule(name)(batch).reward for name in OTHER_RULES}
    write_records(records, records_of(result, graded, groups=groups, others=other_rewards))
    write_report(records, report, title="rubrank demo")
    print_line(f"Report to open in a browser: {report}")
    print_line(f"Rewards: {output}    Records: {records}")
    if not explain:
        # After `make demo` the command is in .venv, which is not on the PATH.
        command = "rubrank"
        if not shutil.which("rubrank"):
            command = f"{os.path.relpath(sys.executable)} -m rubrank"
        print_line(f"All groups and reasons: {command} demo --explain --force")
    return result


def fuse_table(table: ScoreTable, groups: Sequence[Group]) -> Fused:
    """Fuse with the weights and gates of the rubrics.

    The influence of reasoning length is reduced; that of headings and bold print is removed.
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    reasoning = lengths(
        [r.answer for r in rollouts], reasoning=[r.thoughts for r in rollouts]
    ).reasoning
    density = markdown_density([r.answer for r in rollouts])
    columns = [MARKERS.index("heading"), MARKERS.index("bold")]
    attributes = np.column_stack([reasoning, density[:, columns]])
    adjust = [attenuate(0.75, draw="fixed"), "remove", "remove"]
    return table.fuse(attributes=attributes, attribute_names=ATTRIBUTES, adjust=adjust)


def _show_rewards(group: FusedGroup) -> None:
    """Print a table of criteria × rollouts, from the best rollout to the worst."""
    order = [int(i) for i in np.argsort(-group.reward, kind="stable")]
    rows = []
    for k, name in enumerate(group.criteria):
        if group.missing[k] == len(order):  # a criterion of other queries
            continue
        cells = []
        for i in order:
            if k in group.compared and group.known[i, k]:
                # Responses were compared: the share of the comparisons that this one won.
                cells.append(f"{np.nanmean(group.compared[k][i]):.0%}")
            elif np.isnan(group.scores[i, k]):
                cells.append("–")
            else:
                cells.append(f"{group.scores[i, k]:.3g}")
        rows.append([name, *cells])
    rows.append(["R̃", *(f"{group.ranking[i]:.2f}" for i in order)])
    gates = []
    for i in order:
        if group.gated is not None and not group.gated.passed[i]:
            gates.append("stop")
        elif group.gated is not None and group.gated.factor[i] != 1.0:
            gates.append(f"× {group.gated.factor[i]:.2f}")
        else:
            gates.append("pass")
    rows.append(["gate", *gates])
    rows.append(["reward", *(f"{group.reward[i]:.2f}" for i in order)])
    print_table(
        f"{group.label}: rollouts from best to worst", ["rollout", *map(str, order)], rows, total=1
    )


def _show_overview(result: Fused) -> None:
    """Print one line per group."""
    rows = []
    for group in result:
        effective_weights = group.effective_weights
        assert effective_weights is not None  # RLVR² has them
        k = int(np.argmax(effective_weights))
        rewards = " ".join(f"{100 * reward:3.0f}" for reward in group.reward)
        rows.append(
            [str(group.label), rewards, f"{group.criteria[k]} ({effective_weights[k]:.0%})"]
        )
    title = (
        "all groups: rewards by rollout (%), and the criterion with the largest effective weight"
    )
    print_table(title, ("group", "rewards", "largest weight"), rows, words=3)


def _show_explanations(result: Fused, graded: ScoreTable) -> None:
    """Print two rollouts in full: every criterion, attribute and gate, and the reason of each verifier and judge.

    They are the best rollout of the first group, and the best-ranked one that a gate stopped.
    """
    first = next(iter(result))
    examples = [(str(first.label), int(np.argmax(first.reward)))]
    stopped = []
    for group in result:
        if group.gated is not None:
            for i in np.flatnonzero(~group.gated.passed):
                stopped.append((float(group.ranking[i]), str(group.label), int(i)))
    if stopped:
        _, label, rollout = max(stopped)
        examples.append((label, rollout))
    print_line("Why that reward?")
    for label, rollout in examples:
        print_line(result[label].explain(rollout))
        scores = graded[label]
        for name in scores.names:
            print_line(f"  · {name}: {scores.reason(rollout, name)}")
    print_line("")


def write_rewards(groups: Sequence[Group], result: Fused, output: Path) -> None:
    """Write one line per rollout: its group, its number, its reward."""
    output.parent.mkdir(parents=True, exist_ok=True)
    places = [(group.id, i) for group in groups for i in range(len(group.rollouts))]
    lines = (
        json.dumps({"group": label, "rollout": i, "reward": float(reward)}, ensure_ascii=False)
        for (label, i), reward in zip(places, result.reward, strict=True)
    )
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")


# ---------------------------------------------------------------------------------------------------------- the judges
#
# `demo_judge.yaml` holds rankings and verdicts, which refer to rollouts by number. These functions build the calls that
# the judges will make for the demo's rollouts, with the responses in the same order, and store a reply for each in the
# format that a model would use. So the demo exercises prompts, cache, parsing and ranking without a server.
#
# A reply is found by its call. Changing a weight does not change a call; changing the domain, question or seed of a
# criterion does, and then its reply is missing.


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
