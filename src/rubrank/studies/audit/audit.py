"""Measure how good a judge is: its agreement with itself, with other judges and with people, and its biases.

    result = audit({"main": [table, table_again], "ranker": table_2}, humans=labels, texts=responses)
    result = audit_files(["main=scores.parquet", "main=again.parquet", "ranker.parquet"], rollouts="rollouts.jsonl")

    result.consistency      the same questions asked again: share of identical verdicts, alpha
    result.position         pairwise, listwise: does the response shown first win?
    result.bias             length, Markdown: γ of our attribute model on its verdicts, odds for twice the length
    result.agreement        judges with each other and with people: kappa, alpha, Kendall within groups and over all
    result.coverage         how many verdicts are missing, how many pairs tie
    result.unmeasured       what could not be measured, and why

Every number has an interval from drawing whole groups again (`bootstrap` times, the same draws everywhere); shares of
wins by position have Wilson's. One judge and one run are enough: what can be measured is measured, the rest is listed
in `unmeasured`. `result.py` makes tables of an audit, `figure.py` a picture.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from rubrank._files import read_text
from rubrank.errors import InvalidInput, only_our_errors
from rubrank.fusion.control.attribute import Attribute, Texts
from rubrank.scores.files import load_scores, match_rollouts
from rubrank.scores.table import ScoreTable
from rubrank.studies.audit.cases import (
    Cases,
    JudgeRun,
    Runs,
    Scores,
    check_independent_runs,
    read_cases,
)
from rubrank.studies.audit.measures import (
    Positions,
    measure_agreement,
    measure_all_consistency,
    measure_biases,
    measure_consistency,
    measure_coverage,
    measure_position,
    read_attributes,
)
from rubrank.studies.audit.result import HUMANS, Audit, Unmeasured
from rubrank.studies.logged import read_logged
from rubrank.studies.statistics import make_resampling
from rubrank.tables.columns import Columns

_OWNER = "audit"


@only_our_errors
def audit(
    scores: Mapping[str, Runs] | Scores,
    *,
    humans: Runs | None = None,
    groups: ArrayLike | Sequence[Hashable] | None = None,
    criteria: Sequence[str] | None = None,
    texts: Texts | None = None,
    measures: Sequence[str | Attribute] | None = None,
    attributes: ArrayLike | None = None,
    attribute_names: Sequence[str] | None = None,
    positions: Mapping[str, Positions] | Positions | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> Audit:
    """Measure the quality of one or more judges on the same rollouts.

    scores: {judge: scores}. The scores are a score table, or an array (M, K) or (N, G, K) in which NaN is missing. A
        list of tables or of NumPy arrays means that the judge was asked several times; a nested list of numbers is one
        array.
    humans: labels in the same form. Several tables or arrays are several raters; judges are compared with their mean.
    groups, criteria: for arrays, the group of every row and the names of the columns. For tables, `criteria` names the
        criteria to look at; by default all that a judge decides.
    texts: the responses, in the order of rows. `measures` are taken of them (see `fusion.attributes`), by default the
        length of the answer and its Markdown.
    attributes, attribute_names: (M, D) numbers ≥ 0 that were measured already, instead of texts.
    positions: {judge: {criterion: (wins of the response shown first, comparisons)}}; for a single judge, the inner
        mapping is enough. By default they are taken from tables that `grade` made or wrote.
    bootstrap, seed: the number of draws of groups, and their seed.

    Raises InvalidInput if the scores are not about the same rollouts, or if two runs of a judge share cached replies.
    """
    cases = read_cases(scores, humans, groups, criteria)
    check_independent_runs(cases.provenance)
    resampling = make_resampling(_OWNER, int(cases.starts[-1]), cases.group_of_row, bootstrap, seed)
    raters = _collect_raters(cases)
    unmeasured: list[Unmeasured] = []
    attribute_values, names = read_attributes(
        cases, texts, measures, attributes, attribute_names, unmeasured
    )
    position = measure_position(cases, positions, unmeasured)
    human_raters = None
    if len(cases.humans) > 1:
        human_raters = measure_consistency(HUMANS, cases.humans, cases, resampling)[-1]
    return Audit(
        judges=tuple(cases.judges),
        criteria=cases.criteria,
        attributes=names,
        groups=cases.group_count,
        rollouts=int(cases.starts[-1]),
        coverage=measure_coverage(cases, resampling),
        consistency=measure_all_consistency(cases, resampling, unmeasured),
        position=position,
        bias=measure_biases(cases, raters, attribute_values, names, resampling),
        agreement=measure_agreement(cases, raters, resampling, unmeasured),
        human_raters=human_raters,
        unmeasured=tuple(unmeasured),
    )


def _collect_raters(cases: Cases) -> dict[str, JudgeRun]:
    """Return the raters that are compared with each other: the first run of every judge, and the mean of the humans."""
    if cases.humans and HUMANS in cases.judges:
        raise InvalidInput(
            _OWNER,
            "scores",
            allowed=f"of judges with other names than {HUMANS!r}",
            got=repr(HUMANS),
        )
    raters = {name: runs[0] for name, runs in cases.judges.items()}
    if len(cases.humans) == 1:
        raters[HUMANS] = cases.humans[0]
    elif cases.humans:
        scores = np.stack([run.scores for run in cases.humans])
        present = ~np.isnan(scores)
        count = present.sum(axis=0)
        mean = np.where(present, scores, 0.0).sum(axis=0) / np.maximum(count, 1)
        raters[HUMANS] = JudgeRun(
            scores=np.where(count > 0, mean, np.nan),
            asked=np.any([run.asked for run in cases.humans], axis=0),
            margins=cases.humans[0].margins,
        )
    return raters


# --------------------------------------------------------------------------------------------------------------- files


def audit_files(
    scores: Sequence[str | Path],
    *,
    humans: str | Path | Sequence[str | Path] | None = None,
    rollouts: str | Path | None = None,
    positions: str | Path | None = None,
    criteria: Sequence[str] | None = None,
    table_columns: Columns | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> Audit:
    """Measure judges by their score tables; `rubrank judge audit` calls this function.

    scores: files that `rubrank grade` wrote. NAME=FILE names the judge, otherwise the file's name does. The same name
        again means that the same judge was asked again.
    humans: a score table of labels, or several: one for each rater.
    rollouts: the file that was graded, for the lengths and the Markdown of its responses.
    positions: JSON, {judge: {criterion: [wins of the response shown first, comparisons]}}.
    criteria: those to look at; by default all that a judge decides.
    table_columns: the columns of score tables that `rubrank grade` did not write.

    Raises InvalidInput as `audit` does, and if a file cannot be read or `rollouts` is not the file that was graded.
    """
    if not scores:
        raise InvalidInput(
            _OWNER,
            "scores",
            allowed="at least one score table",
            got="none",
            remedy="Name the file that grade wrote.",
        )
    tables: dict[str, list[ScoreTable]] = {}
    for source in map(str, scores):
        name, equals, path = source.partition("=")
        # A file whose own name has an equals sign is not NAME=FILE.
        if not equals or Path(source).exists():
            name = Path(source).name.split(".")[0]
            path = source
        # Records are read as `view` labels them: a query of several steps is several groups.
        tables.setdefault(name, []).append(read_logged(path, columns=table_columns).table)
    first = next(iter(tables.values()))[0]
    human_tables = None
    if humans is not None:
        paths = [humans] if isinstance(humans, str | Path) else humans
        # Criteria that the judges' tables have need not be declared again.
        columns = replace(table_columns or Columns(), declared=first.criteria)
        human_tables = [load_scores(path, columns).table for path in paths]
    texts = None
    if rollouts is not None:
        texts = [
            rollout.answer
            for group in match_rollouts(first, rollouts)
            for rollout in group.rollouts
        ]
    position_counts = None
    if positions is not None:
        text = read_text(positions)
        try:
            position_counts = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                _OWNER,
                "positions",
                allowed="a JSON file",
                got=f"{positions} ({error})",
                remedy="Write {judge: {criterion: [wins of the response shown first, comparisons]}}.",
            ) from None
    return audit(
        tables,
        humans=human_tables,
        criteria=criteria,
        texts=texts,
        positions=position_counts,
        bootstrap=bootstrap,
        seed=seed,
    )
