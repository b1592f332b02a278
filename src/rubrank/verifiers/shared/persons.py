"""Who speaks: `find_first_person("In World War I we lost.")` finds "we", not the numeral.

Not covered: other languages than English and Chinese; words in capitals throughout ("US", "ME" are no pronouns).
"""

from __future__ import annotations

import re

from rubrank.verifiers.shared.word_tables import read_table

_PRONOUN = re.compile(
    r"(?<![\w'’/.-])(?:I(?![\w/-])"
    r"|i(?=['’](?:m|ve|ll|d)\b|\s+(?:am|was|have|had|think|will|would|can|could|do|did|don['’]t|like|love|want|need|feel"
    r"|know|went|see|saw|believe|hope|guess|mean|really|just|also)\b)"
    r"|[Mm]e|[Mm]y|MY|[Mm]yself|[Mm]ine|[Ww]e|WE|us|Us|[Oo]urs?|OURS?|[Oo]urselves)(?![\w-])"
    r"|(?<![自忘无大小真本])我|咱"
)
_WORD_BEFORE = re.compile(r"([^\W_]+)[ \t]+\Z")
_NUMERAL_AFTER = re.compile(
    r"[ \t]*(?:[.)][ \t]+[A-Z]|[:,)]?[ \t]*(?:and|through|to|–|-)?[ \t]*(?:II|III|IV|V)\b)"
)
_MINE_BEFORE = re.compile(
    r"\b(?:an?|the|coal|gold|salt|land|iron|copper|silver|diamond|this|that|each|old|abandoned|data)\s\Z",
    re.IGNORECASE,
)


def find_first_person(text: str) -> str | None:
    """The first pronoun of the first person, if there is one."""
    for pronoun in _PRONOUN.finditer(text):
        if pronoun[0] == "I" and _is_roman_one(text, pronoun):
            continue
        if pronoun[0].lower() == "mine" and _MINE_BEFORE.search(
            text, max(0, pronoun.start() - 15), pronoun.start()
        ):
            continue  # a coal mine
        return pronoun[0]
    return None


def _is_roman_one(text: str, match: re.Match[str]) -> bool:
    """World War I; or "I. Introduction", "I and II" at the beginning of a line."""
    before = _WORD_BEFORE.search(text, max(0, match.start() - 30), match.start())
    if before and before[1][0].isupper() and (before[1].lower(),) in read_table("numbered_things"):
        return True
    line_before = text[max(0, match.start() - 40) : match.start()].rpartition("\n")[2]
    return not line_before.strip(" \t#*") and _NUMERAL_AFTER.match(text, match.end()) is not None
