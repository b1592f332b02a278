"""How fast is the numeric core? Everything side by side, in one run.

    python benchmarks/fusion.py                     the full run, a few minutes
    python benchmarks/fusion.py --quick             fewer rounds, the rivals on a sample of their fits
    python benchmarks/fusion.py --json result.json  the same figures for machines

The paper's step is 128 groups × 8 rollouts × 12 criteria: four binary, four ternary, four continuous. Rivals do the
same job on the same data with the same priors, and get their input ready-made, while ours is timed from raw scores to
rewards, validation included. Before anything is timed, their utilities are compared with ours. docs/benchmarks.md
explains the rows. All linear algebra is held to one thread, as ours is: on matrices this small a second one only gets
in the way. Memory is read from /proc, so those rows need Linux.

Letters: N groups of G rollouts, K criteria, D attributes, P pairs of a group.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from side_by_side import (
    Contender,
    Row,
    as_json,
    at_most,
    busy,
    call,
    faster,
    in_fresh_process,
    in_parts,
    limit,
    load,
    machine,
    quantity,
    show,
    side_by_side,
)

import rubrank

Fit = Callable[[], np.ndarray]  # one rival fit, input ready: utilities, then coefficients

PACKAGES = ("numpy", "numba", "scikit-learn", "choix", "arena-rank")
GROUP_SIZES = (8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True)
class Plan:
    """How much to run."""

    quick: bool
    groups: int = 128
    large: int = 1_000_000
    rounds: int = 48
    arena_rounds: int = 6
    processes: int = 5
    growth_rollouts: int = 1024


# --------------------------------------------------------------------------------------------------------------- data


@dataclass(frozen=True, eq=False)
class Step:
    """One training step's scores and attributes, and the pairs that rivals want."""

    scores_NGK: np.ndarray
    attributes_NGD: np.ndarray
    weights_K: np.ndarray

    @property
    def fits(self) -> int:
        """How many fits a loop over groups and criteria makes."""
        return len(self.scores_NGK) * len(self.weights_K)

    def pairs(self, fit: int) -> tuple[np.ndarray, np.ndarray]:
        """Of one group and criterion: the design (P, G + D), and the outcome of each pair (P,)."""
        g, k = divmod(fit, len(self.weights_K))
        scores_G = self.scores_NGK[g, :, k]
        attributes_GD = self.attributes_NGD[g]
        i, j = np.triu_indices(len(scores_G), 1)
        utilities = np.eye(len(scores_G))
        design = np.hstack([utilities[i] - utilities[j], contrasts(attributes_GD[i], attributes_GD[j])])
        return design, 0.5 + 0.5 * np.sign(scores_G[i] - scores_G[j])


def contrasts(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(a − b)/(a + b), scaled by its root mean square over the pairs (axis 0)."""
    z = (a - b) / np.where(a + b > 0.0, a + b, 1.0)
    rms = np.sqrt((z * z).mean(0))
    return z / np.where(rms > 0.0, rms, 1.0)


def make_step(N: int, G: int = 8, K: int = 12, D: int = 0, *, kinds: str = "mixed", seed: int = 0) -> Step:
    """Simulated rollouts: criteria see a quality and noise, and are a little taken in by length."""
    rng = np.random.default_rng(seed)
    quality_NG = rng.normal(size=(N, G))
    length_NG = np.rint(2000.0 * np.exp(0.4 * rng.normal(size=(N, G)) + 0.2 * quality_NG))
    seen_NGK = (quality_NG + 0.5 * np.log(length_NG / 2000.0))[..., None] + rng.normal(size=(N, G, K))
    markers_NGD = rng.gamma(1.0, 0.1, (N, G, max(D - 1, 0))) * (rng.random((N, G, max(D - 1, 0))) < 0.7)
    attributes_NGD = np.concatenate([length_NG[..., None], markers_NGD], axis=2)[..., :D]
    scores_NGK = _scales(seen_NGK) if kinds == "mixed" else seen_NGK
    return Step(np.ascontiguousarray(scores_NGK), attributes_NGD, 1.0 + np.arange(K) % 3)


def _scales(seen_NGK: np.ndarray) -> np.ndarray:
    """A third of the criteria binary, a third ternary, the rest left continuous."""
    third = -(-seen_NGK.shape[-1] // 3)
    scores = seen_NGK.copy()
    scores[..., :third] = seen_NGK[..., :third] > 0.0
    scores[..., third : 2 * third] = 0.5 * np.digitize(seen_NGK[..., third : 2 * third], [-0.6, 0.6])
    return scores


def with_missing(scores: np.ndarray, share: float) -> np.ndarray:
    return np.where(np.random.default_rng(1).random(scores.shape) < share, np.nan, scores)


# ------------------------------------------------------------------------------------------------------------- rivals


def sklearn_fit(step: Step, fit: int, *, tol: float) -> Fit:
    """Every pair twice, weighted by the outcome and its complement; no intercept, C = 1/α = 1."""
    from sklearn.linear_model import LogisticRegression

    design, outcome = step.pairs(fit)
    X = np.vstack([design, design])
    y = np.repeat([1, 0], len(outcome))
    weight = np.hstack([outcome, 1.0 - outcome])
    model = LogisticRegression(C=1.0, fit_intercept=False, tol=tol, max_iter=1000)
    return lambda: model.fit(X, y, sample_weight=weight).coef_[0]


def choix_fit(step: Step, fit: int) -> Fit:
    """A win is two wins and a tie one each way, so the likelihood is doubled; so is choix' penalty, α‖u‖²."""
    import choix

    G = step.scores_NGK.shape[1]
    won: list[tuple[int, int]] = []
    for i, j, outcome in zip(*np.triu_indices(G, 1), step.pairs(fit)[1], strict=True):
        won += [(int(i), int(j))] * int(2 * outcome) + [(int(j), int(i))] * int(2 - 2 * outcome)
    return lambda: choix.opt_pairwise(G, won, alpha=1.0)


def arena_fit(step: Step, fit: int) -> Fit:
    """Arena-rank has no prior on ratings, only on features: so utilities go in as features, of a single competitor."""
    import jax.numpy as jnp
    from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
    from arena_rank.utils.data_utils import ContextualPairDataset

    design, outcome = step.pairs(fit)
    P, m = design.shape
    nobody = jnp.zeros((P, 2), dtype=jnp.int32)
    data = ContextualPairDataset(["any"], nobody, jnp.array(outcome), jnp.array(design), jnp.ones(P))
    return lambda: np.asarray(ContextualBradleyTerry(1, m, reg=1.0 / P).fit(data).params["coeffs"])


@dataclass(frozen=True)
class Rival:
    """A solver of another package; `agrees` is how near to ours its tolerance brings it."""

    name: str
    package: str
    make: Callable[[Step, int], Fit]
    agrees: float
    checked: int
    parts: int
    attributes: bool = True


SKLEARN = "scikit-learn, default tol 1e-4"
ARENA = "arena-rank"
RIVALS = (
    Rival(SKLEARN, "sklearn", partial(sklearn_fit, tol=1e-4), 2e-2, 96, 16),
    Rival("scikit-learn, tol 1e-8", "sklearn", partial(sklearn_fit, tol=1e-8), 1e-6, 96, 48),
    Rival("choix.opt_pairwise", "choix", choix_fit, 1e-6, 24, 48, attributes=False),
    Rival(ARENA, "arena_rank", arena_fit, 1e-4, 2, 1_000_000),
)


def rivals_for(step: Step) -> list[Rival]:
    """Those that are installed and can do the job."""
    D = step.attributes_NGD.shape[-1]
    return [rival for rival in RIVALS if find_spec(rival.package) and (rival.attributes or D == 0)]


def order_of_fits(step: Step) -> np.ndarray:
    """Shuffled, so that every part of a loop has its share of every kind of criterion."""
    return np.random.default_rng(2).permutation(step.fits)


def check_agreement(step: Step, quick: bool) -> Iterator[tuple[str, float]]:
    """The largest difference between each rival's utilities and ours; refuses to go on if it is not the same job."""
    D = step.attributes_NGD.shape[-1]
    for rival in rivals_for(step):
        fits = order_of_fits(step)[: rival.checked // 2 if quick else rival.checked]
        difference = max(float(np.abs(rival.make(step, fit)() - our_fit(step, fit)).max()) for fit in fits)
        if difference > rival.agrees:
            raise SystemExit(f"{rival.name}, {D} attributes: differs from ours by {difference:.2g}, not the same job")
        yield f"{rival.name}, {D} attributes, {len(fits)} fits", difference


def our_fit(step: Step, fit: int) -> np.ndarray:
    """Ours in the form of a rival's answer."""
    g, k = divmod(fit, len(step.weights_K))
    if step.attributes_NGD.shape[-1] == 0:
        return rubrank.utilities(step.scores_NGK[g, :, k : k + 1])[:, 0]
    u, gamma = rubrank.utilities(step.scores_NGK[g, :, k : k + 1], attributes=step.attributes_NGD[g])
    return np.hstack([u[:, 0], gamma[0]])


def loop(rival: Rival, step: Step) -> Contender:
    """A rival's loop over groups and criteria, input ready-made."""
    fits = order_of_fits(step)
    if rival.name == ARENA:  # a sample; to prepare all of them would take longer than to time it
        first = [rival.make(step, fit) for fit in fits[:8]]
        return Contender(lambda part: first[part % len(first)](), parts=step.fits, clock=time.perf_counter)
    return in_parts([rival.make(step, fit) for fit in fits], min(rival.parts, step.fits))


# -------------------------------------------------------------------------------------------------------------- cases


def time_step(step: Step, plan: Plan, ours: dict[str, Contender]) -> dict[str, float]:
    """Ours and the rivals in turns; arena-rank afterwards, since its compiler would slow down its neighbours."""
    rivals = rivals_for(step)
    seconds = side_by_side(ours | {r.name: loop(r, step) for r in rivals if r.name != ARENA}, plan.rounds)
    for rival in rivals:
        if rival.name == ARENA:
            seconds |= side_by_side({ARENA: loop(rival, step)}, plan.arena_rounds)
    return seconds


def fused(step: Step, calls: int = 20, **options: Any) -> Contender:
    return call(lambda: rubrank.fuse(step.scores_NGK, weights=step.weights_K, **options), calls)


def no_attributes(plan: Plan) -> Iterator[Row]:
    step = make_step(plan.groups)
    scores = step.scores_NGK
    columns = np.ascontiguousarray(step.scores_NGK.swapaxes(1, 2))
    ours = {
        "ours": fused(step),
        "sum": call(lambda: scores @ step.weights_K),
        "argsort": call(lambda: np.argsort(scores, axis=1)),
        "columns": call(lambda: np.argsort(columns, axis=2)),
    }
    seconds = time_step(step, plan, ours)
    row = partial(at_most, "no attributes", "one step", seconds["ours"])
    yield row("NumPy weighted sum", seconds["sum"])
    yield row("np.argsort of the scores, over rollouts", seconds["argsort"], 3.0)
    yield row("np.argsort, scores transposed beforehand", seconds["columns"])
    yield from against_rivals("no attributes", "one step", seconds, "ours", 10_000)


def against_rivals(section: str, case: str, seconds: dict[str, float], ours: str, bar: float) -> Iterator[Row]:
    for rival in RIVALS:
        if rival.name in seconds:
            judged = bar if rival.name == SKLEARN else None
            yield faster(section, case, seconds[ours], rival.name, seconds[rival.name], judged)


def with_attributes(plan: Plan, D: int, bar: float) -> Iterator[Row]:
    step = make_step(plan.groups, D=D)
    attributes = step.attributes_NGD
    ours = {
        pool: fused(step, 20 if D == 1 else 5, attributes=attributes, pool=pool) for pool in ("group", "batch", "run")
    }
    seconds = time_step(step, plan, ours)
    section = f"{D} attribute{'s' if D > 1 else ''}"
    yield from against_rivals(section, "γ over the batch, errors, refit", seconds, "batch", bar)
    yield at_most(section, "γ over the batch, errors, refit", seconds["batch"], "γ per group", seconds["group"], 5.0)
    yield at_most(section, "γ over the run, errors, refit", seconds["run"], "γ per group", seconds["group"], 5.0)


def growth_with_group(plan: Plan, kinds: str) -> Iterator[Row]:
    """The same number of rollouts in larger and larger groups; the first call has seen all shapes."""
    steps = {G: make_step(max(1, plan.growth_rollouts // G), G, kinds=kinds) for G in GROUP_SIZES}
    seconds = side_by_side({str(G): fused(step, 5) for G, step in steps.items()}, max(3, plan.rounds // 3))
    section = f"larger groups, {plan.growth_rollouts:,} rollouts × 12 {kinds} criteria"
    for G in GROUP_SIZES[1:]:
        yield at_most(section, f"G = {G}", seconds[str(G)], "G = 8", seconds["8"], 20.0)


def growth(plan: Plan, letter: str, steps: dict[int, Step]) -> Iterator[Row]:
    """Time for each score as K or N grows; a ratio of 1 is linear growth."""
    values = tuple(steps)
    seconds = side_by_side({str(v): fused(step, 5) for v, step in steps.items()}, max(3, plan.rounds // 3))
    per_score = {value: seconds[str(value)] / steps[value].scores_NGK.size for value in values}
    rival = f"{letter} = {values[-1]}, for as many scores"
    row = partial(at_most, f"more of {letter}")
    for value, step in steps.items():
        yield row(f"{letter} = {value}", seconds[str(value)], rival, per_score[values[-1]] * step.scores_NGK.size)


def variants(plan: Plan) -> Iterator[Row]:
    """Other models, missing scores and margins, against the plain step."""
    step = make_step(plan.groups)
    lengths = make_step(plan.groups, D=1).attributes_NGD
    partly = Step(with_missing(step.scores_NGK, 0.2), step.attributes_NGD, step.weights_K)
    margins = np.repeat([0.0, 0.0, 0.3], 4)
    cases = {
        "Thurstone": fused(step, model="thurstone"),
        "Borda": fused(step, model="borda"),
        "20% of the scores missing": fused(partly),
        "margins on the continuous criteria": fused(step, margins=margins),
        "margins and 20% missing": fused(partly, margins=margins),
        "span='unit'": fused(step, span="unit"),
    }
    yield from _against("variants, no attributes", cases, "the plain step", fused(step), max(3, plan.rounds // 3))
    adjusted = partial(fused, calls=5, attributes=lengths, pool="group")
    cases = {
        "20% of the scores missing": adjusted(partly),
        "margins on the continuous criteria": adjusted(step, margins=margins),
        "attenuate(0.5)": adjusted(step, adjust=rubrank.attenuate(0.5)),
    }
    plain = adjusted(step)
    yield from _against("variants, 1 attribute per group", cases, "the plain fit", plain, max(3, plan.rounds // 3))
    slow = {"Thurstone": fused(step, 1, attributes=lengths, model="thurstone", pool="group")}
    slow["Thurstone, pooled"] = fused(step, 1, attributes=lengths, model="thurstone", pool="batch")
    yield from _against("variants, 1 attribute per group", slow, "the plain fit", plain, 3)


def _against(section: str, cases: dict[str, Contender], rival: str, plain: Contender, rounds: int) -> Iterator[Row]:
    seconds = side_by_side({rival: plain} | cases, rounds)
    for case in cases:
        yield at_most(section, case, seconds[case], rival, seconds[rival])


# ---------------------------------------------------------------------------------------------------- fresh processes

IMPORT = """
import json, sys, time
start = time.process_time()
exec(statement)
seconds = time.process_time() - start
loaded = [name for name in ("numba", "torch", "scipy", "polars", "rich") if name in sys.modules]
print(json.dumps({"seconds": seconds, "loaded": loaded}))
"""

FIRST_FIT = """
import json, sys, time
import numpy as np
from rubrank import fuse
rng = np.random.default_rng(0)
scores, attributes = rng.random(shape), rng.random((*shape[:2], D)) if D else None
start = time.process_time()
fuse(scores, attributes=attributes, pool=pool)
seconds = time.process_time() - start
modules = [module for name, module in sys.modules.items() if name.startswith("rubrank.fusion.models")]
kernels = {id(f): f for module in modules for f in vars(module).values() if hasattr(f, "stats")}
compiled = sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels.values())
print(json.dumps({"seconds": seconds, "compiled": compiled}))
"""

LARGE = """
import json, time
import numpy as np
from rubrank import fuse

def megabytes(field):  # not ru_maxrss: a child starts with the parent's
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field)) * 1024 / 1e6

def make(shape):
    scores = np.empty(shape)
    rng.random(out=scores)
    binary, ternary = scores[..., :4], scores[..., 4:8]
    np.rint(binary, out=binary)
    np.multiply(ternary, 3.0, out=ternary)
    np.floor(ternary, out=ternary)
    options = {}
    if labels:
        options["groups"] = np.arange(len(scores)) // 8
        if labels == "shuffled":
            rng.shuffle(options["groups"])
    if D:
        options["attributes"] = rng.random((*shape[:-1], D))
    return scores, options

rng = np.random.default_rng(0)
scores, options = make((64, *shape[1:]))
fuse(scores, **options)
before = megabytes("VmRSS")
scores, options = make(tuple(shape))
start = time.process_time()
fuse(scores, **options)
seconds = time.process_time() - start
given = (scores.nbytes + sum(option.nbytes for option in options.values())) / 1e6
print(json.dumps({"seconds": seconds, "input": given, "peak": megabytes("VmHWM") - before}))
"""


def fresh_import(plan: Plan) -> Iterator[Row]:
    for statement in ("import rubrank", "from rubrank import fuse"):
        answers = [in_fresh_process(IMPORT, statement=statement) for _ in range(plan.processes)]
        loaded = answers[0]["loaded"]
        case = f"{statement} (loads {', '.join(loaded) if loaded else 'no numba, no torch'})"
        yield limit("a fresh process", case, median(answer["seconds"] for answer in answers), 0.2)


def first_fit(plan: Plan) -> Iterator[Row]:
    compiled = 0
    for case, shape, D, pool in (
        ("no attributes", (128, 8, 12), 0, "group"),
        ("groups of 64", (16, 64, 12), 0, "group"),
        ("1 attribute per group", (128, 8, 12), 1, "group"),
        ("11 attributes, pooled", (128, 8, 12), 11, "batch"),
    ):
        run = partial(in_fresh_process, FIRST_FIT, shape=shape, D=D, pool=pool)
        run()  # the first process may have to compile
        answers = [run() for _ in range(plan.processes)]
        compiled += sum(answer["compiled"] for answer in answers)
        yield limit("a fresh process", f"first fit, {case}", median(answer["seconds"] for answer in answers), 1.0)
    yield limit("a fresh process", "compiled anew in all of these first fits", compiled, 0, "kernels")


def large(plan: Plan) -> Iterator[Row]:
    """Peak memory counts everything after import and warm-up, the input included."""
    M = plan.large
    if not Path("/proc/self/status").exists():
        return
    for case, shape, labels, D in (
        ("groups of 8, one array", (M // 8, 8, 12), "", 0),
        ("groups of 8, sorted labels", (M, 12), "sorted", 0),
        ("groups of 8, shuffled labels", (M, 12), "shuffled", 0),
        ("groups of 500", (M // 500, 500, 12), "", 0),
        ("groups of 8, 1 attribute", (M // 8, 8, 12), "", 1),
    ):
        answer = in_fresh_process(LARGE, shape=shape, labels=labels, D=D)
        section = f"{M:,} rollouts × 12 criteria in one call"
        name = f"{case}: peak memory (in {quantity(answer['seconds'], 's')})"
        yield at_most(section, name, answer["peak"], "its input", answer["input"], 4.0, "MB")


# --------------------------------------------------------------------------------------------------------------- main


def cases(plan: Plan) -> Iterator[Row]:
    """Every row, in the order of the table."""
    yield from no_attributes(plan)
    yield from with_attributes(plan, 1, 700)
    yield from with_attributes(plan, 11, 300)
    for kinds in ("mixed", "continuous"):
        yield from growth_with_group(plan, kinds)
    yield from growth(plan, "K", {K: make_step(plan.groups, K=K) for K in (1, 3, 12, 48, 192)})
    yield from growth(plan, "N", {N: make_step(N) for N in (1, 8, 32, 128, 512, 2048)})
    yield from variants(plan)
    yield from fresh_import(plan)
    yield from first_fit(plan)
    yield from large(plan)


def plan_from(arguments: argparse.Namespace) -> Plan:
    if arguments.quick:
        plan = Plan(True, arguments.groups, arguments.large or 100_000, 4, 1, 1, 1024)
    else:
        plan = Plan(False, arguments.groups, arguments.large or 1_000_000)
    return plan


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, rivals on a sample of their fits")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    parser.add_argument("--groups", type=int, default=128, help="groups in the step (default 128)")
    parser.add_argument("--large", type=int, help="rollouts in the one large call, at least 500 (default 1,000,000)")
    return parser.parse_args(argv)


def one_thread() -> AbstractContextManager[Any]:
    """Hold BLAS and OpenMP to one thread; threadpoolctl comes with scikit-learn."""
    if not find_spec("sklearn"):
        return nullcontext()
    importlib.import_module("sklearn.linear_model")  # only libraries that are loaded can be limited
    return importlib.import_module("threadpoolctl").threadpool_limits(1)


def main() -> None:
    arguments = parse()
    plan = plan_from(arguments)
    console = Console()
    console = Console(width=max(console.width, 150))
    where = machine(PACKAGES)
    before = load()
    console.print(", ".join(f"{name} {value}" for name, value in where.items()), highlight=False)
    with one_thread():
        steps = [make_step(plan.groups, D=D) for D in (0, 1, 11)]
        agreement = {name: difference for step in steps for name, difference in check_agreement(step, plan.quick)}
        for name, difference in agreement.items():
            console.print(f"largest difference from ours: {difference:.1e}  {name}", highlight=False)
        rows = list(cases(plan))
    loads = (before, load())
    console.print(busy(loads), style="yellow")
    show(f"One step: {plan.groups} groups × 8 rollouts × 12 criteria", rows, console)
    if arguments.json:
        figures = {"quick": plan.quick, "machine": where, "loads": loads, "agreement": agreement, "rows": as_json(rows)}
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
