"""Find what is weak in a rubric: in its words, and, with records of a run, in what its criteria did.

    >>> from rubrank.rubrics.public import to_rubric
    >>> rubric = to_rubric([{"name": "Nice", "question": "Is the answer good?"},
    ...                     {"name": "Short", "question": "Does the answer have at most 50 words?"}])
    >>> for finding in lint_rubric(rubric):
    ...     print(f"{finding.kind}: {finding}")
    program: Short can be decided by a program. Use {name: Short, verifier: length_constraints:number_words, …}.
    vague: Nice asks for "good" without saying what that means. Name what a reader would see, or add anchors.

In the words, of judged criteria:

    vague          asks for something good, nice or appropriate, and has no anchors
    compound       asks two things at once; a judge cannot answer "one of them"
    unverifiable   asks what a judge cannot see: whether code runs, whether links work, what the author meant
    program        states a constraint that a program of the library decides exactly
    duplicate      two criteria ask nearly the same
    contradictory  two criteria cannot both be met

In the records: the findings of `rubrank.records.findings` (tied, redundant, follows, reversed, dominates, missing …),
all of them and not only the first three.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import combinations

from rubrank.drafting.compiler import compile_prompt
from rubrank.records.findings import Finding, find_findings
from rubrank.records.record import GroupRecord
from rubrank.rubrics.rubric import Criterion, Rubric

_VAGUE = re.compile(
    r"\b(good|nice|great|high[- ]quality|appropriate|suitable|proper|properly|well[- ]written|excellent|adequate"
    r"|satisfactory|reasonable|effective|interesting|engaging|impressive|helpful|decent|of quality)\b"
    r"|(好|优秀|合适|恰当|高质量|不错|合理)",
    re.IGNORECASE,
)
_SPECIFIC = 14
"""A question of more words than this usually says what it means."""
# Two predicates: "polite and correct", "names the dose and warns of …"; not "salt and pepper".
_ADJECTIVE = r"\w+(?:ful|ous|ive|able|ible|al|ic|ed|ent|ant|ate|ct|te|ar|se|rt|ue)"
_VERB = (
    r"(?:does|is|are|do|did|has|have|avoids?|includes?|mentions?|uses?|explains?|gives?|provides?|names?|warns?|cites?"
    r"|states?|describes?|compares?)"
)
_COMPOUND = re.compile(
    rf"\b(?:is|are|be)\s+(?:(?:the|this|its?)\s+\w+\s+)?(?:\w+ly\s+)?{_ADJECTIVE},?\s+"
    rf"(?:and|or)\s+(?:\w+ly\s+)?{_ADJECTIVE}\b"
    rf"|\band\s+(?:also\s+)?{_VERB}\b|\bas well as\b|\?\s*\S.*\?|并且|同时|以及.*(?:是否|吗)|而且",
    re.IGNORECASE,
)
_UNSEEN = re.compile(
    r"\b(?:runs?|compiles?|executes?) (?:without|correctly|successfully)|\b(?:links?|urls?) (?:work|are valid|exist)"
    r"|\bup[- ]to[- ]date\b|\b(?:latest|current) (?:version|news|price|data)\b|\bauthor(?:'s)? (?:meant|intended)"
    r"|\b(?:user|reader)s? (?:will|would) (?:be satisfied|enjoy|like|buy)|\bplagiari|能否运行|链接有效|最新",
    re.IGNORECASE,
)
_ASKED_ABOUT = re.compile(
    r"^\s*(?:does|is|do|are|has|have)\s+(?:the|this)\s+(?:answer|response|reply|text)\s+", re.IGNORECASE
)
_SIMILAR = 0.85


def lint_rubric(rubric: Rubric, records: Iterable[GroupRecord] | None = None) -> list[Finding]:
    """Everything that is weak in a rubric, most important first."""
    judged = [criterion for criterion in rubric.criteria if criterion.question]
    findings = [finding for criterion in judged for finding in _about_words(criterion)]
    findings += _duplicates(judged)
    for contradiction in rubric.contradictions():
        sentence = f"{' and '.join(contradiction.criteria)}: {contradiction.message}."
        findings.append(Finding("contradictory", sentence, "Drop one of them.", 1.0))
    if records is not None:
        findings += find_findings(records, most=1000)
    return sorted(findings, key=lambda finding: -finding.severity)


def find_two_questions(question: str) -> str | None:
    """The words with which a question asks two things at once; None if it asks one."""
    compound = _COMPOUND.search(question)
    return compound[0].strip() if compound else None


def _about_words(criterion: Criterion) -> Iterator[Finding]:
    question = criterion.question or ""
    name = criterion.name
    vague = _VAGUE.search(question)
    if vague and criterion.anchors is None and len(question.split()) <= _SPECIFIC:
        sentence = f'{name} asks for "{vague[0]}" without saying what that means.'
        yield Finding("vague", sentence, "Name what a reader would see, or add anchors.", 0.5, {"word": vague[0]})
    two_questions = find_two_questions(question)
    if two_questions:
        sentence = f'{name} asks two things at once: "{two_questions}".'
        yield Finding("compound", sentence, "Make it two criteria.", 0.6, {"words": two_questions})
    unseen = _UNSEEN.search(question)
    if unseen:
        sentence = f'{name} asks what a judge cannot see: "{unseen[0]}".'
        yield Finding("unverifiable", sentence, "Use a verifier, or give the judge the facts as `reference`.", 0.7)
    # A question such as "Does the answer have at most 50 words?" is read as the request that it stands for.
    request = _ASKED_ABOUT.sub("Your answer should ", question)
    for constraint in compile_prompt(request.rstrip(" ?？") + "."):
        sentence = f"{name} can be decided by a program."
        action = f"Use {{name: {name}, verifier: {constraint.verifier}, …}}."
        yield Finding(
            "program", sentence, action, 0.65, {"verifier": constraint.verifier, "params": dict(constraint.params)}
        )


def _duplicates(judged: list[Criterion]) -> Iterator[Finding]:
    for first, second in combinations(judged, 2):
        similarity = SequenceMatcher(None, _normalize(first.question), _normalize(second.question)).ratio()
        if similarity >= _SIMILAR:
            sentence = f"{first.name} and {second.name} ask nearly the same."
            yield Finding("duplicate", sentence, "Keep one of them.", 0.55, {"similarity": round(similarity, 3)})


def _normalize(question: str | None) -> str:
    return " ".join(re.findall(r"\w+", (question or "").casefold()))
