"""Who speaks: `find_first_person("In World War I we lost.")` finds "we", not the numeral.

Not covered: other languages than English and Chinese; words in capitals throughout ("US", "ME" are no pronouns).
"""

from __future__ import annotations

import re

# What stands before a Roman one: World War I, Type I, Elizabeth I.
_BEFORE_NUMERALS = """
    war type part chapter phase class book act scene volume section article level stage grade category title tier
    group table figure appendix round division factor complex photosystem polymerase calculus algebra physics
    chemistry series model version unit module lesson block league region zone schedule annex theorem lemma case
    option plan mark world elizabeth charles james george francis henry william napoleon nicholas peter alexander
    catherine wilhelm franz otto mary edward richard louis philip frederick darius ramses justinian constantine
    leopold umberto pedro maria selim john paul leo pius gregory clement innocent boniface xerxes cyrus ptolemy
    seleucus osman murad mehmed suleiman basil
"""
_NUMBERED = frozenset(_BEFORE_NUMERALS.split())
_PRONOUN = re.compile(
    r"(?<![\w'’/.-])(?:I(?![\w/-])"
    r"|i(?=['’](?:m|ve|ll|d)\b|\s+(?:am|was|have|had|think|will|would|can|could|do|did|don['’]t|like|love|want|need|feel"
    r"|know|went|see|saw|believe|hope|guess|mean|really|just|also)\b)"
    r"|[Mm]e|[Mm]y|MY|[Mm]yself|[Mm]ine|[Ww]e|WE|us|Us|[Oo]urs?|OURS?|[Oo]urselves)(?![\w-])"
    r"|(?<![自忘无大小真本])我|咱"
)
_BEFORE = re.compile(r"([^\W_]+)[ \t]+\Z")
_NUMERAL = re.compile(r"[ \t]*(?:[.)][ \t]+[A-Z]|[:,)]?[ \t]*(?:and|through|to|–|-)?[ \t]*(?:II|III|IV|V)\b)")
_DUG = re.compile(
    r"\b(?:an?|the|coal|gold|salt|land|iron|copper|silver|diamond|this|that|each|old|abandoned|data)\s\Z", re.IGNORECASE
)


def find_first_person(text: str) -> str | None:
    """The first pronoun of the first person, if there is one."""
    for found in _PRONOUN.finditer(text):
        if not _is_numeral(text, found) and not _is_pit(text, found):
            return found[0]
    return None


def _is_numeral(text: str, found: re.Match[str]) -> bool:
    if found[0] != "I":
        return False
    before = _BEFORE.search(text, max(0, found.start() - 30), found.start())
    after = _NUMERAL.match(text, found.end())
    opens = after is not None and not text[max(0, found.start() - 40) : found.start()].rpartition("\n")[2].strip(
        " \t#*"
    )
    return bool(before and before[1].lower() in _NUMBERED and before[1][0].isupper()) or opens


def _is_pit(text: str, found: re.Match[str]) -> bool:
    return found[0].lower() == "mine" and _DUG.search(text, max(0, found.start() - 15), found.start()) is not None
