"""The paper's claims as comparisons, each with a verdict from the results.

    decide(view.against("λ = 1", "off", "thinking"), "lower", 0.05)      "agrees", "disagrees" or "open"

A difference is clear where a paired t-test over seeds gives p < 0.05, and sure where p < 0.05 / number of comparisons.
That two arms are alike is said only where the whole 95% interval of their difference, by Student's t, lies within a
margin; that something costs nothing, where the interval ends above minus the margin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rubrank_lab.comparing import Difference
from rubrank_lab.view import View

Direction: TypeAlias = Literal["higher", "lower", "alike", "no lower"]
MARGIN = 0.03
"""For "alike" and "no lower": a fifth of what training gains in true quality."""
_FEWEST = 3  # seeds that a verdict needs


@dataclass(frozen=True)
class Claim:
    """`first` against `second` in one metric of one experiment."""

    said: str
    """What the paper says, if not `ours`."""
    experiment: str
    first: str
    second: str
    metric: str
    direction: Direction
    ours: bool = False
    within: bool = False
    """Not two arms, but one before and after control begins: the end of training minus the time before."""


QUALITY, THINKING, MARKERS = "true_quality", "thinking", "markers"
_OTHERS = ("Rule-Fusion", "GEAR", "GDPO", "GDPO+", "Focal", "Focal+")
_UNGATED = tuple(other for other in _OTHERS if not other.endswith("+"))
CLAIMS: tuple[Claim, ...] = (
    *(Claim(f"RLVR²+ beats {other}", "main", "RLVR²+", other, QUALITY, "higher") for other in _OTHERS),
    *(Claim(f"RLVR² beats {other}", "main", "RLVR²", other, QUALITY, "higher") for other in _UNGATED),
    Claim("the gate improves RLVR²", "main", "RLVR²+", "RLVR²", QUALITY, "higher"),
    Claim("on yes/no criteria RLVR² is the weighted sum", "null", "RLVR²", "weighted sum", QUALITY, "alike", True),
    Claim("λ = 0.25 shortens thinking", "thinking", "λ = 0.25", "off", THINKING, "lower"),
    Claim("λ = 0.5 shortens thinking", "thinking", "λ = 0.5", "off", THINKING, "lower"),
    Claim("λ = 0.75 shortens thinking", "thinking", "λ = 0.75", "off", THINKING, "lower"),
    Claim("λ = 1 shortens thinking", "thinking", "λ = 1", "off", THINKING, "lower", True),
    Claim("λ = 0.75 costs no quality", "thinking", "λ = 0.75", "off", QUALITY, "no lower"),
    Claim("the paper's letter, λ = 1, shortens thinking", "thinking", "letter, λ = 1", "off", THINKING, "lower", True),
    Claim("thinking falls once λ = 0.75 begins", "thinking", "λ = 0.75", "λ = 0.75", THINKING, "lower", within=True),
    Claim("Markdown falls once control begins", "formatting", "from 70%", "from 70%", MARKERS, "lower", within=True),
    Claim("formatting control lowers the use of Markdown", "formatting", "from 70%", "off", MARKERS, "lower"),
    Claim("formatting control costs no quality", "formatting", "from 70%", "off", QUALITY, "no lower"),
    Claim("RLVR² gains more on challenging criteria", "headroom", "RLVR²", "weighted sum", "challenging", "higher"),
    Claim("RLVR² keeps saturated criteria", "headroom", "RLVR²", "weighted sum", "saturated", "alike"),
    Claim("G = 4 is as good as G = 8", "group_size", "G = 4", "G = 8", QUALITY, "alike"),
    Claim("G = 16 is as good as G = 8", "group_size", "G = 16", "G = 8", QUALITY, "alike"),
    Claim("Focal's weights improve RLVR²", "focal", "RLVR² ⊕ Focal", "RLVR²", QUALITY, "higher"),
    Claim("a raw sum suffers from × 10", "scale", "raw sum, × 10", "raw sum, as given", QUALITY, "lower", True),
    Claim("a raw sum suffers from × 100", "scale", "raw sum, × 100", "raw sum, as given", QUALITY, "lower", True),
    Claim("RLVR² is the same with a criterion × 10", "scale", "RLVR², × 10", "RLVR², as given", QUALITY, "alike"),
    Claim("RLVR² is the same with a criterion squared", "scale", "RLVR², squared", "RLVR², as given", QUALITY, "alike"),
    Claim("the lift improves the gate", "ours", "as usual", "lift 0 (the paper's gate)", QUALITY, "higher", True),
    Claim("length control shortens thinking", "ours", "length control, pool run", "as usual", THINKING, "lower", True),
    Claim("noise of the judge costs quality", "ours", "judge noise 0.3", "as usual", QUALITY, "lower", True),
    Claim("half of the verdicts missing costs quality", "ours", "50% missing", "as usual", QUALITY, "lower", True),
)
CONFIRMING = Claim("RLVR²+ beats Rule-Fusion, SmolLM2", "smollm2", "RLVR²+", "Rule-Fusion", "constraints", "higher")
"""Of the runs with a real model; their numbers are in a file of their own."""


@dataclass(frozen=True)
class Decided:
    """A claim, the numbers and the verdict."""

    claim: Claim
    difference: Difference
    verdict: str


def decided(views: Mapping[str, View], more: Sequence[tuple[Claim, Difference]] = ()) -> list[Decided]:
    """Every claim of whose comparison at least two seeds are there. `more`: comparisons made elsewhere."""
    found = []
    for claim in CLAIMS:
        view = views.get(claim.experiment)
        if view is None or not {claim.first, claim.second} <= set(view.experiment.arms):
            continue
        within, between = view.since, view.against
        gap = within(claim.first, claim.metric) if claim.within else between(claim.first, claim.second, claim.metric)
        if gap.n > 1:
            found.append((claim, gap))
    found += [(claim, gap) for claim, gap in more if gap.n > 1]
    return [Decided(claim, gap, verdict(claim, gap, len(found))) for claim, gap in found]


def verdict(claim: Claim, gap: Difference, comparisons: int) -> str:
    """In words; two seeds decide nothing."""
    if gap.n < _FEWEST:
        return f"open (only {gap.n} seeds)"
    if claim.direction == "alike" and gap.low == gap.high == 0.0:
        return f"agrees (equal in all {gap.n} seeds)"
    sure = ", sure" if gap.p < 0.05 / max(1, comparisons) else ""
    if claim.direction == "alike" and max(-gap.least, gap.most) < MARGIN:
        return f"agrees (within ±{MARGIN})"
    if claim.direction == "no lower" and gap.least > -MARGIN:
        return f"agrees (loses less than {MARGIN})"
    if gap.p >= 0.05:
        return "open"
    if claim.direction in ("alike", "no lower"):
        beyond = -gap.mean if claim.direction == "no lower" else abs(gap.mean)
        return f"disagrees{sure}" if beyond > MARGIN else "open"
    right = (gap.mean > 0) == (claim.direction == "higher")
    return f"{'agrees' if right else 'disagrees'}{sure}"
