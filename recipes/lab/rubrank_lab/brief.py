"""The report in short: what agrees, what does not, how sure that is; every number and name from the results.

in_short(views, found)      paragraphs for a reader who has three minutes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from rubrank_lab.claims import CONFIRMING, QUALITY, Decided
from rubrank_lab.document import Paragraph, Part
from rubrank_lab.view import View

WHAT = (
    "**What was done.** A policy of a million weights was trained with each reward rule on a task whose true quality "
    "is known and shown to no rule: the same prompts, budget, judge and seeds for all, at least five seeds an arm, "
    "differences taken seed by seed. SmolLM2-135M was trained with two rules and three seeds beside it."
)


def in_short(views: Mapping[str, View], found: Sequence[Decided]) -> list[Part]:
    """Nothing where nothing was compared."""
    if not found:
        return []
    told = [WHAT, _rules(views, found), _list(found, "agrees", "What agrees")]
    told += [_list(found, "disagrees", "What does not agree"), _open(found), _besides(views), _certainty(found)]
    return [Paragraph(text) for text in told if text]


def _rules(views: Mapping[str, View], found: Sequence[Decided]) -> str:
    """How the rules did in the main table."""
    view = views.get("main")
    known = {arm: view.summary(arm, QUALITY) for arm in view.experiment.arms if view.seeds(arm)} if view else {}
    if view is None or len(known) < 2:
        return ""
    before = view.summary(next(iter(known)), QUALITY, base=True).mean
    worst, best = (pick(known, key=lambda arm: known[arm].mean) for pick in (min, max))
    text = (
        f"**Which rule trains best.** True quality went from {before:.3f} before training to between "
        f"{known[worst].mean:.3f} ({worst}) and {known[best].mean:.3f} ({best}). "
    )
    beats = [one for one in found if one.claim.experiment == "main" and " beats " in one.claim.said]
    agree, disagree, undecided = (
        sum(one.verdict.startswith(word) for one in beats) for word in ("agrees", "disagrees", "open")
    )
    text += (
        f"That RLVR² or RLVR²+ beats a rival, as in the paper's averages, is confirmed in {agree or 'none'} of "
        f"{len(beats)} comparisons, contradicted in {disagree or 'none'} and open in {undecided or 'none'}. "
    )
    rival = next((one.difference for one in beats if one.claim.said == "RLVR²+ beats Rule-Fusion"), None)
    if rival is None:
        return text.strip()
    return text + f"RLVR²+ minus Rule-Fusion is {rival.mean:+.3f}, 95% interval {rival.t_said()} by t."


def _list(found: Sequence[Decided], word: str, title: str) -> str:
    chosen = [one for one in found if one.verdict.startswith(word)]
    papers, ours = ([one for one in chosen if one.claim.ours == mine] for mine in (False, True))
    asked = [sum(one.claim.ours == mine for one in found) for mine in (False, True)]
    said = [f"{title} ({len(papers)} of {asked[0]} claims of the paper): {_names(papers)}."]
    said += [f"Of {asked[1]} expectations of ours: {_names(ours)}."] if asked[1] else []
    return f"**{said[0].replace(' (', '** (', 1)} {' '.join(said[1:])}"


def _names(chosen: Sequence[Decided]) -> str:
    return "; ".join(map(_sized, chosen)) or "none"


def _sized(one: Decided) -> str:
    """With the size of the difference, or what the verdict says of it."""
    unit = {"thinking": " words", "markers": " markers"}.get(one.claim.metric, "")
    _, bracket, note = one.verdict.partition("(")
    return f"{one.claim.said} ({note.rstrip(')') if bracket else f'{one.difference.mean:+.{2 if unit else 3}f}{unit}'})"


def _open(found: Sequence[Decided]) -> str:
    left = [one for one in found if one.verdict.startswith("open")]
    return (
        f"**What is open:** the other {len(left)} of {len(found)}. Open means that the seeds do not decide, not that "
        "there is no difference."
    )


def _besides(views: Mapping[str, View]) -> str:
    """What the judge's likings led to."""
    view = views.get("main")
    arms = [arm for arm in view.experiment.arms if view.seeds(arm)] if view else []
    if view is None or not arms:
        return ""
    told = []
    for metric, name, digits in (("thinking", "words of thinking", 1), ("markers", "Markdown markers", 2)):
        before = view.summary(arms[0], metric, base=True).mean
        after = [view.summary(arm, metric).mean for arm in arms]
        told.append(f"{name} from {before:.{digits}f} to {min(after):.{digits}f}–{max(after):.{digits}f}")
    return (
        f"**What training did besides,** by rule: {', '.join(told)}. The judge likes both; true quality counts neither."
    )


def _certainty(found: Sequence[Decided]) -> str:
    sure = [one for one in found if one.verdict.endswith("sure")]
    reaches = [one.difference.reach for one in found if _is_quality(one)]
    text = (
        f"**How sure that is.** {len(found)} comparisons were made; "
        f"{'none passes' if not sure else f'{len(sure)} pass'} Bonferroni's correction for so many "
        f"(p < 0.05 / {len(found)}){': ' * bool(sure)}{_names(sure) if sure else ''}; arms that are equal in every "
        "seed need no test. "
    )
    if reaches:
        text += (
            f"In true quality a difference must be about {median(reaches):.2f} before the seeds can tell it from "
            "nothing (the median half width of an interval by t). "
        )
    real = next((one.difference for one in found if one.claim == CONFIRMING), None)
    if real is not None:
        text += (
            f"With SmolLM2's {real.n} seeds the interval of RLVR²+ minus Rule-Fusion is {real.t_said(2)} of the "
            "constraints: too wide to say anything."
            if max(-real.least, real.most) > 0.1
            else f"With SmolLM2's {real.n} seeds the interval of RLVR²+ minus Rule-Fusion is {real.t_said(2)}."
        )
    return text.strip()


def _is_quality(one: Decided) -> bool:
    return one.claim.metric == QUALITY and one.claim.experiment == "main"
