"""How good is a judge? Its agreement with itself, with others and with humans, and what it is swayed by.

    result = audit({"main": [table, table_again], "ranker": table_2}, humans=labels, texts=responses)

    result.consistency      the same questions asked again: share of identical verdicts, alpha
    result.position         pairwise, listwise: does the response shown first win?
    result.bias             length, Markdown: γ of our attribute model on its verdicts, odds for twice the length
    result.agreement        judges among each other and with humans: kappa, alpha, Kendall within groups and over all
    result.coverage         how many verdicts are missing, how many pairs tie
    result.unmeasured       what could not be measured, and why

Every number has an interval from drawing whole groups again (`bootstrap` times, the same draws everywhere), shares of
wins by position have Wilson's. One judge and one run will do: what can be measured is, the rest is in `unmeasured`.
`tables.sections` makes tables of it, `figure.draw` draws it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from rubrank.errors import InvalidInput, only_our_errors
from rubrank.fusion.control.attribute import Attribute, Texts, flatten_texts
from rubrank.studies.audit.bias import RolloutAttributes, biases, measure_attributes, read_attributes, split_constant
from rubrank.studies.audit.cases import Cases, JudgeRun, Runs, Scores, count_positions, read_cases, refuse_same_replies
from rubrank.studies.audit.measures import Positions, agreement, consistency, coverage, measure_consistency, position
from rubrank.studies.audit.result import Audit, Unmeasured
from rubrank.studies.statistics import make_resampling

__all__ = ["HUMANS", "Audit", "audit"]

HUMANS = "humans"
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
    level: float = 0.95,
) -> Audit:
    """Measure the quality of one or more judges on the same rollouts.

    scores: by judge, a score table or an array (M, K) or (N, G, K), NaN = missing; a list of them: asked several times.
    humans: labels of the same form; a list of them: several raters, whose mean the judges are compared with.
    groups, criteria: for arrays, the group of every row and the names of the columns. For tables, `criteria` names
        those to look at; by default all that a judge decides.
    texts: of the responses, in the order of rows; `measures` are taken of them (see `fusion.attributes`), by default
        the length of the answer and its Markdown.
    attributes, attribute_names: (M, D) numbers ≥ 0 measured already, instead of texts.
    positions: {judge: {criterion: (wins of the response shown first, comparisons)}}; for one judge the inner one. By
        default what the tables say that `grade` made or wrote.
    bootstrap, seed, level: draws of groups, their seed, and the level of all intervals.
    """
    cases = read_cases(scores, humans, groups, criteria)
    refuse_same_replies(cases.provenance)
    draw = make_resampling(_OWNER, int(cases.starts[-1]), cases.of_row, bootstrap, seed, level)
    missing: list[Unmeasured] = []
    everyone = _everyone(cases)
    rollout_attributes = _attributes(cases, texts, measures, attributes, attribute_names, missing)
    position_rows = position(
        cases, count_positions(cases.provenance) if positions is None else positions, level, missing
    )
    return Audit(
        tuple(cases.judges),
        cases.criteria,
        rollout_attributes.names,
        len(cases.labels),
        int(cases.starts[-1]),
        coverage=coverage(cases, draw),
        consistency=consistency(cases, draw, missing),
        position=position_rows,
        bias=biases(cases, everyone, rollout_attributes, draw, HUMANS if cases.humans else None)
        if rollout_attributes.names
        else (),
        agreement=agreement(cases, everyone, draw, missing),
        human_raters=measure_consistency(HUMANS, None, cases.humans, cases, draw) if len(cases.humans) > 1 else None,
        unmeasured=tuple(missing),
    )


def _everyone(cases: Cases) -> dict[str, JudgeRun]:
    """The first run of every judge, and the humans' mean: those who are compared."""
    if cases.humans and HUMANS in cases.judges:
        raise InvalidInput(_OWNER, "scores", f"of judges of other names than {HUMANS!r}", "one", "")
    everyone = {name: runs[0] for name, runs in cases.judges.items()}
    if cases.humans:
        everyone[HUMANS] = _mean_run(cases.humans)
    return everyone


def _mean_run(runs: Sequence[JudgeRun]) -> JudgeRun:
    if len(runs) == 1:
        return runs[0]
    scores = np.stack([run.scores for run in runs])
    present = ~np.isnan(scores)
    mean = np.where(present, scores, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    asked = np.any([run.asked for run in runs], axis=0)
    return JudgeRun(np.where(present.any(axis=0), mean, np.nan), asked, runs[0].margins)


def _attributes(
    cases: Cases,
    texts: Texts | None,
    measures: Sequence[str | Attribute] | None,
    given: ArrayLike | None,
    names: Sequence[str] | None,
    missing: list[Unmeasured],
) -> RolloutAttributes:
    rows = int(cases.starts[-1])
    if texts is not None and given is not None:
        raise InvalidInput(_OWNER, "attributes", "left out where texts are given", "both", "")
    if texts is None and given is None:
        missing.append(Unmeasured("length and Markdown bias", "all judges", "neither texts nor attributes were given"))
        return RolloutAttributes(np.zeros((rows, 0)), ())
    if texts is not None:
        flat = flatten_texts(_OWNER, texts)[0]
        if len(flat) != rows:
            raise InvalidInput(_OWNER, "texts", f"{rows}, one per rollout", str(len(flat)), "Keep the order of rows.")
        values, names = measure_attributes(flat, measures)
    else:
        values, names = read_attributes(given, names, rows)
    attributes, constant = split_constant(cases, values[cases.order], names)
    for name in constant:
        missing.append(Unmeasured(f"bias by {name}", "all judges", "no two responses of a group differ in it"))
    return attributes
