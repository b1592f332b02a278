"""Find what is weak in a rubric: in its words, and, with records of a run, in what its criteria did.

    >>> from rubrank.rubrics.public import to_rubric
    >>> rubric = to_rubric([{"name": "Nice", "question": "Is the answer good?"},
    ...                     {"name": "Short", "question": "Does the answer have at most 50 words?"}])
    >>> for finding in lint_rubric(rubric):
    ...     print(f"{finding.kind}: {finding}")
    program: Short can be decided by a program. Use {name: Short, verifier: length_constraints:number_words, …}.
    vague: Nice asks for "good" without saying what that means. Name what a reader would see, or add anchors.

Findings about the words of judged criteria:

    vague          asks for something good, nice or appropriate, and has no anchors
    compound       asks two things at once; a judge cannot answer "one of them"
    unverifiable   asks what a judge cannot see: whether code runs, whether links work, what the author meant
    program        states a constraint that a program of the library decides exactly
    duplicate      two criteria ask nearly the same
    contradictory  two criteria cannot both be met

Findings about what the criteria did in the records. `saturated` and `misaligned` are found here, the others by
`rubrank.records.findings`:

    saturated      nearly every response has the best score
    tied           never, or hardly ever, decides between responses
    redundant      says the same as another criterion
    follows        follows the length of the answer, or its Markdown
    reversed       disagrees with the other criteria
    dominates      decides more than its weight
    misaligned     has much weight, and decides next to nothing
    missing        the judge often gives no verdict
    unsure         the judge gives verdicts with little certainty

A finding has a severity from 0 to 1, by which findings are sorted. Those about words have a fixed one: a contradiction
makes a rubric useless (1), what a judge cannot see is noise (0.7), vague words may still work (0.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import combinations

from rubrank.drafting.compiler import compile_prompt
from rubrank.drafting.sentences import pattern
from rubrank.errors import InvalidInput
from rubrank.records.findings import LEAST_GROUPS, TIED_SHARE, Finding, FindingCounts
from rubrank.records.record import GroupRecord
from rubrank.rubrics.rubric import Criterion, Rubric

# "good", "appropriate"; 含糊 ("vague") is the list of such words in Chinese, which has no spaces around words.
_VAGUE = pattern(r"\b{vague}\b|{含糊}")
_MOST_VAGUE_WORDS = 14
"""A question with more words than this usually says what it means."""
# Two predicates: "polite and correct", "names the dose and warns of …"; not "salt and pepper".
_COMPOUND = pattern(
    # "is the answer polite and helpful"
    r"\b(?:is|are|be)\s+(?:(?:the|this|its?)\s+\w+\s+)?(?:\w+ly\s+)?{adjective},?\s+"
    r"(?:and|or)\s+(?:\w+ly\s+)?{adjective}\b"
    # "… and does it name a source"
    r"|\band\s+(?:also\s+)?{asking verb}\b"
    # "polite as well as correct"; "Is it polite? Is it short?"; "and" between predicates in Chinese
    r"|\bas well as\b|\?\s*\S.*\?|并且|同时|以及.*(?:是否|吗)|而且"
)
# "the code runs", "the links work"
_UNSEEN = pattern(r"{unseen}")
# "Does the answer …", with which a question about the response begins
_ASKED_ABOUT = pattern(
    r"^\s*(?:does|is|do|are|has|have)\s+(?:the|this)\s+(?:answer|response|reply|text)\s+"
)
_DUPLICATE_SIMILARITY = 0.85  # of two questions, from 0 to 1
_SATURATED_SHARE = 0.95  # of the responses that have the best score
_MUCH_WEIGHT = 0.2
"""A criterion with this share of the weight should have an effect on the rewards."""


def lint_rubric(rubric: Rubric, records: Iterable[GroupRecord] | None = None) -> list[Finding]:
    """Return everything that is weak in a rubric, most important first.

    records: of a run with this rubric, to find what its criteria did; None: only the words are examined.
    Raises InvalidInput if the records have no criterion of the rubric.
    """
    judged = [criterion for criterion in rubric.criteria if criterion.question]
    findings: list[Finding] = []
    for criterion in judged:
        findings += _find_weak_words(criterion)
    for first, second in combinations(judged, 2):
        first_words = _normalize(first.question)
        second_words = _normalize(second.question)
        similarity = SequenceMatcher(None, first_words, second_words).ratio()
        if similarity >= _DUPLICATE_SIMILARITY:
            findings.append(
                Finding(
                    kind="duplicate",
                    sentence=f"{first.name} and {second.name} ask nearly the same.",
                    action="Keep one of them.",
                    severity=0.55,
                    evidence={"similarity": round(similarity, 3)},
                )
            )
    for contradiction in rubric.contradictions():
        findings.append(
            Finding(
                kind="contradictory",
                sentence=f"{' and '.join(contradiction.criteria)}: {contradiction.message}.",
                action="Drop one of them.",
                severity=1.0,
            )
        )
    if records is not None:
        counts = FindingCounts()
        for record in records:
            counts.add(record)
        names = {criterion.name for criterion in rubric.criteria}
        if counts.groups and not names & set(counts.criteria):
            raise InvalidInput(
                "lint",
                "records",
                allowed="with some criterion of the rubric",
                got=", ".join(list(counts.criteria)[:5]),
                remedy="Pass the records of a run with this rubric.",
            )
        findings += lint_counts(counts)
    return sorted(findings, key=lambda finding: -finding.severity)


def lint_counts(counts: FindingCounts) -> list[Finding]:
    """Return the findings about what the criteria of a run did, most important first.

    counts: of the records of the run; for callers that have counted them for other purposes, too.
    """
    findings: list[Finding] = []
    for finding in counts.list_findings():
        if finding.kind == "tied":
            criterion = counts.criteria[finding.subject]
            scored_rollouts = criterion.rollouts - criterion.not_asked - criterion.missing
            at_best = criterion.at_best / max(1, scored_rollouts)
            # A criterion that is tied at the best score has been learnt; one that is tied elsewhere may be broken.
            if at_best >= _SATURATED_SHARE:
                finding = replace(
                    finding,
                    kind="saturated",
                    sentence=f"{finding.subject} is saturated: {at_best:.0%} of the responses have its best score.",
                    action="Ask for more, or make it a gate, so that it stays fulfilled.",
                    evidence={**finding.evidence, "at_best": at_best},
                )
        findings.append(finding)
    findings += _find_misaligned(counts)
    return sorted(findings, key=lambda finding: -finding.severity)


def find_two_questions(question: str) -> str | None:
    """Return the words with which a question asks two things at once; None if it asks one."""
    compound = _COMPOUND.search(question)
    return compound[0].strip() if compound else None


def _find_weak_words(criterion: Criterion) -> Iterator[Finding]:
    """Yield the findings about the words of one judged criterion."""
    question = criterion.question or ""
    name = criterion.name
    vague = _VAGUE.search(question)
    if vague and criterion.anchors is None and len(question.split()) <= _MOST_VAGUE_WORDS:
        yield Finding(
            kind="vague",
            sentence=f'{name} asks for "{vague[0]}" without saying what that means.',
            action="Name what a reader would see, or add anchors.",
            severity=0.5,
            evidence={"word": vague[0]},
        )
    two_questions = find_two_questions(question)
    if two_questions:
        yield Finding(
            kind="compound",
            sentence=f'{name} asks two things at once: "{two_questions}".',
            action="Make it two criteria.",
            severity=0.6,
            evidence={"words": two_questions},
        )
    unseen = _UNSEEN.search(question)
    if unseen:
        yield Finding(
            kind="unverifiable",
            sentence=f'{name} asks what a judge cannot see: "{unseen[0]}".',
            action="Use a verifier, or give the judge the facts as `reference`.",
            severity=0.7,
        )
    # A question such as "Does the answer have at most 50 words?" is read as the request that it stands for.
    request = _ASKED_ABOUT.sub("Your answer should ", question)
    for constraint in compile_prompt(request.rstrip(" ?？") + "."):
        yield Finding(
            kind="program",
            sentence=f"{name} can be decided by a program.",
            action=f"Use {{name: {name}, verifier: {constraint.verifier}, …}}.",
            severity=0.65,
            evidence={"verifier": constraint.verifier, "params": dict(constraint.params)},
        )


def _find_misaligned(counts: FindingCounts) -> Iterator[Finding]:
    """Yield a finding for every criterion with much weight that decides next to nothing."""
    groups = counts.groups - counts.without_signal  # groups whose rollouts got different rewards
    total_weight = sum(criterion.weight for criterion in counts.criteria.values())
    if groups < LEAST_GROUPS or len(counts.criteria) < 2 or total_weight <= 0:
        return
    for name, criterion in counts.criteria.items():
        weight = criterion.weight / total_weight
        effective = criterion.effective / groups
        # Below 0 the criterion works against the rewards, which is the finding "reversed".
        has_little_effect = 0 <= effective <= weight / 3
        is_tied = criterion.tied >= TIED_SHARE * criterion.groups  # which is the finding "tied"
        if weight >= _MUCH_WEIGHT and has_little_effect and not is_tied:
            yield Finding(
                kind="misaligned",
                sentence=f"{name} has {weight:.0%} of the weight and decides {effective:.0%} of the rewards.",
                action="The weight has little effect: give the criterion more levels, or lower the weight.",
                severity=weight - effective,
                evidence={"weight": weight, "effective": effective},
            )


def _normalize(question: str | None) -> str:
    """Return the words of a question in lower case, without punctuation."""
    return " ".join(re.findall(r"\w+", (question or "").casefold()))
