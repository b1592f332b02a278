"""Every criterion that the library knows by the paper's names, judged ones too.

    >>> KNOWN["Truncated"].layer, KNOWN["CoreIntentMatch"].how
    ('global_quality', 'judge')

`rule`: a verifier of that name decides. `judge`: a judge is asked. `both`: the verifier decides where the parameters or
the text give enough to be sure, and says "needs a judge" otherwise. This is data for listing and for checking rubrics;
the verifiers themselves are in `rubrank.verifiers`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, TypeAlias

from rubrank._plain import shortened
from rubrank.verifiers.verifier import BINARY, TERNARY, UNIT, VERIFIERS, Domain, Layer, discrete, is_verifier

How: TypeAlias = Literal["rule", "judge", "both"]

QUARTERS = discrete(0, 0.25, 0.5, 0.75, 1)


@dataclass(frozen=True, slots=True)
class KnownCriterion:
    """What a criterion is about, and who decides it."""

    name: str
    family: str
    checks: str
    domain: Domain = BINARY
    how: How = "rule"
    layer: Layer = "quality"


_Row: TypeAlias = tuple[str, str, Domain, How]

_FAMILIES: dict[str, tuple[_Row, ...]] = {
    "comprehensive": (
        ("GeneralQuality", "the overall quality", UNIT, "judge"),
        ("BusinessScenarioQuality", "the quality in a business scenario", QUARTERS, "judge"),
        ("CoreIntentMatch", "the core intent is understood, the answer relevant", BINARY, "judge"),
        ("TaskTypeMatch", "the type of task is recognised", BINARY, "judge"),
    ),
    "faithfulness": (
        ("CoreFactAccuracy", "core facts are covered and right", TERNARY, "judge"),
        ("NonCoreFactAccuracy", "secondary facts are covered and right", TERNARY, "judge"),
        ("MaterialFaithfulness", "faithful to the material given", BINARY, "judge"),
        ("MultiTurnMemory", "consistent with earlier turns", BINARY, "judge"),
    ),
    "format": (
        ("GeneralFormatCompliance", "nothing in the structure is broken", BINARY, "both"),
        ("FormatRequirement", "the format asked for", BINARY, "both"),
        ("TextTypeMatch", "the genre asked for (email, article …)", BINARY, "judge"),
        ("BulletCount", "how many bullet points", BINARY, "rule"),
        ("HighlightCount", "how many highlighted passages", BINARY, "rule"),
        ("ParagraphCount", "how many paragraphs", BINARY, "rule"),
        ("CaseFormat", "capitals, small letters, title case", BINARY, "rule"),
        ("TitleFormat", "a title, in the style asked for", BINARY, "rule"),
        ("QuotationFormat", "the whole answer in quotation marks", BINARY, "rule"),
        ("Postscript", "a postscript at the end", BINARY, "rule"),
        ("PromptRepeat", "the prompt repeated before the answer", BINARY, "rule"),
        ("ConstrainedResponse", "one of the answers allowed", BINARY, "rule"),
        ("ConstrainedWriting", "acrostics, lipograms, syllables and other constrained forms", QUARTERS, "rule"),
        ("SummaryRecall", "reference points that are recalled", UNIT, "rule"),
    ),
    "benchmark": (
        ("IFBench", "all constraints of an IFBench item", UNIT, "rule"),
        ("MultiIF", "all constraints of a Multi-IF item", UNIT, "rule"),
        ("Collie", "all constraints of a COLLIE item", UNIT, "rule"),
        ("ComplexBench", "the composed score of a ComplexBench item", UNIT, "both"),
        ("LiveBench", "the composed score of a LiveBench item", UNIT, "both"),
    ),
    "length": (
        ("WordCount", "how many words, or characters", BINARY, "rule"),
        ("SentenceCount", "how many sentences", BINARY, "rule"),
        ("EntryCount", "how many entries", BINARY, "rule"),
        ("LetterFrequency", "how often a letter occurs", BINARY, "rule"),
    ),
    "language": (
        ("LanguageRequirement", "the language asked for", BINARY, "rule"),
        ("LanguageDetection", "the language of the prompt", BINARY, "rule"),
        ("CrossLingualInstruction", "an instruction in one language about another", BINARY, "judge"),
    ),
    "style": (
        ("DialogueStyle", "the style of conversation", BINARY, "judge"),
        ("DictionRequirement", "the wording asked for", BINARY, "both"),
    ),
    "identity": (
        ("RoleConsistency", "stays in its role", BINARY, "judge"),
        ("CapabilityBoundary", "knows what it can and cannot do", BINARY, "judge"),
    ),
    "presence": (
        ("Keyword", "words that must occur", BINARY, "rule"),
        ("ForbiddenContent", "what must not occur", BINARY, "rule"),
        ("GroundTruthMatch", "the known answer: exact, normalised, number, choice, set, mathematics", BINARY, "rule"),
    ),
    "penalty": (
        ("GeneralLowQuality", "no gross defect", BINARY, "both"),
        ("RoboticTemplate", "no stock phrases of a machine", BINARY, "both"),
        ("Verbosity", "not wordy", BINARY, "both"),
        ("Affectation", "not affected", BINARY, "judge"),
        ("ImproperWording", "no improper words", BINARY, "both"),
        ("LogicalError", "no error of logic", BINARY, "judge"),
        ("UnrealisticContent", "nothing unreal", BINARY, "judge"),
        ("SecurityRisk", "no secrets, no danger", BINARY, "both"),
    ),
    "gate": (
        ("RepeatSegment", "does not go round in circles", BINARY, "rule"),
        ("Truncated", "is complete", BINARY, "rule"),
        ("EmptyAnswer", "there is an answer", BINARY, "rule"),
        ("GarbledText", "can be read", BINARY, "rule"),
        ("ThinkLeak", "no thinking left in the answer", BINARY, "rule"),
        ("WrongLanguage", "in the language that is expected", BINARY, "rule"),
    ),
    "agentic": (
        ("TestsPass", "the tests pass", UNIT, "rule"),
        ("PatchApplies", "the patch applies", BINARY, "rule"),
        ("ToolCallValid", "tool calls fit the tools' definitions", BINARY, "rule"),
        ("ToolCallMatch", "the tools expected are called", BINARY, "rule"),
        ("ToolArgsMatch", "with the arguments expected", UNIT, "rule"),
        ("FinalStateMatch", "the final state is the one expected", UNIT, "rule"),
        ("TrajectoryEfficiency", "few steps", UNIT, "rule"),
        ("NoToolError", "no tool call fails", BINARY, "rule"),
    ),
}
_LAYERS: dict[str, Layer] = {"penalty": "low_quality", "gate": "global_quality"}

KNOWN: dict[str, KnownCriterion] = {
    name: KnownCriterion(name, family, checks, domain, how, _LAYERS.get(family, "quality"))
    for family, rows in _FAMILIES.items()
    for name, checks, domain, how in rows
}
"""All of them by name, in the paper's order."""


PROMPTED = frozenset(name for name, known in KNOWN.items() if known.how != "rule") | {"SummaryRecall"}
"""Those that a judge can be asked about without a question of one's own: `judges/prompts/` has theirs."""


def judged() -> tuple[KnownCriterion, ...]:
    """Those that only a judge can decide."""
    return tuple(criterion for criterion in KNOWN.values() if criterion.how == "judge")


_NEAR = 0.8
_ONE_WORD = re.compile(r"[A-Za-z][\w:.-]*")
_COMPOUND = re.compile(r"[a-z][A-Z]|\w:\w")  # WordCount, keywords:existence
_LONGEST_NAME = 80


def named_or_asked(text: str, *, foreign: bool = False) -> dict[str, str]:
    """What a text alone means: one word is the name of a criterion, several are a question for a judge.

    foreign: in a bare list, as public data has them, a word that names no criterion is a question too.
    """
    named = is_a_name(text) or (not foreign and _ONE_WORD.fullmatch(text))
    return {"name": text} if named else {"name": short_name(text), "question": text}


def is_a_name(text: str) -> bool:
    """Is it the name of a criterion, or nearly one, rather than a question in words?"""
    if is_verifier(text) or text in KNOWN:
        return True
    if not _ONE_WORD.fullmatch(text):
        return False
    return bool(_COMPOUND.search(text) or get_close_matches(text, (*VERIFIERS, *KNOWN), 1, _NEAR))


def short_name(text: str) -> str:
    """A question as a name."""
    return shortened(" ".join(text.split()), _LONGEST_NAME) or "criterion"
