"""What the wording of a prompt asks beyond the arguments of an instruction, and which lines frame an answer.

>>> allows_more("Your answer must contain one of the following phrases: …"), allows_more("Just say yes or no.")
(True, False)
>>> remove_frame("<<Joy>>\\n\\nDear Ann,\\n\\nIt rains.\\n\\nBest regards,\\nBob")
'It rains.'
"""

from __future__ import annotations

import re

_ONLY = re.compile(
    r"\b(?:only|just|nothing (?:else|more)|no (?:explanation|other (?:text|words))"
    r"|without (?:any )?(?:explanation|explaining)"
    r"|uniquement|seulement|rien d'autre|sans (?:rien )?(?:ajouter|explication)|solo|únicamente|solamente|sin explicaci"
    r"|nur|ausschließlich|soltanto|apenas|somente)\b|只(?:能|需|要|用)?|仅|のみ|だけ",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"\b(?:contain|include|including|mention|somewhere|think (?:out loud|step|first|aloud)|explain|reason"
    r"|justify|then answer|conclude|end(?:ing)? (?:your|with)"
    r"|contenir|inclure|incluez|expliquez|expliqu|justifi|ensuite|puis"
    r"|contener|incluir|incluye|explica|luego"
    r"|enthalten|erklär|begründe|contenere|includi|conter|inclua)\w*|包含|包括|解释|说明|理由|含め|理由",
    re.IGNORECASE,
)


def allows_more(prompt: str) -> bool | None:
    """Tell whether the option may stand in a longer answer (True) or must stand alone (False); None: it is not said."""
    if not prompt.strip():
        return None
    if _MORE.search(prompt):
        return True
    if _ONLY.search(prompt):
        return False
    return None


_NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_AT_LEAST = (
    r"(?:at least|a minimum of|minimum|no fewer than|not less than"
    r"|au moins|au minimum|al menos|como mínimo|mindestens|almeno|pelo menos|至少|不少于|最低)"
)


def asks_for_at_least(prompt: str, number: int, thing: str) -> bool:
    """Tell whether the prompt asks for at least so many ("at least two sections", "4 or more sections")."""
    spellings = [str(number)]
    if 1 <= number <= len(_NUMBER_WORDS):
        spellings.append(_NUMBER_WORDS[number - 1])
    count = "|".join(spellings)
    unit_names = (
        rf"(?:{re.escape(thing)}|section|part|chapter|paragraph|chapitre|partie|sección|部分|章|节)"
    )
    before = rf"{_AT_LEAST}\s*\W{{0,3}}(?:{count})\W{{0,3}}\s*(?:\w+\s+){{0,2}}{unit_names}"
    after = rf"\b(?:{count})\s+or more\s+(?:\w+\s+){{0,2}}{unit_names}"
    return re.search(f"{before}|{after}", prompt, re.IGNORECASE) is not None


_SEVERAL_VERSIONS = re.compile(
    r"\b(?:two|2|both|each|every|three|deux|chaque|dos|cada|zwei|jede)\b[^.\n]{0,60}"
    r"\b(?:versions?|responses?|answers?|drafts?|itinerar\w+|variant\w*|alternatives?|options"
    r"|réponses?|respuestas?|versiones|antworten)|两(?:个|种|份)",
    re.IGNORECASE,
)


def asks_for_several(prompt: str) -> bool:
    """Tell whether the prompt asks for two or more versions of an answer."""
    return _SEVERAL_VERSIONS.search(prompt) is not None


_QUOTED = re.compile(r"[\"“«„「『]([^\"”»“」』\n]{2,200})[\"”»“」』]|'([^'\n]{6,200})'")


def find_quotations(prompt: str) -> list[str]:
    """Return the phrases in quotation marks: what an answer must say word for word."""
    return [(match[1] or match[2]).strip() for match in _QUOTED.finditer(prompt)]


# ---- frames: titles, salutations, signatures -----------------------------------------------------------------------

_TITLE = re.compile(
    r"[\s*_#]*(?:<<[^\n]+>>|##[^#\n]+##|『[^\n]+』)[\s*_]*|[ \t]{0,3}#{1,6}(?:[ \t][^\n]*)?"
)
_BOLD_LINE = re.compile(r"\s*(?:\*\*|__)[^*\n]{1,100}(?:\*\*|__):?\s*")
_LABEL = re.compile(
    r"\s*(?:subject|objet|asunto|betreff|re|title|titre|título|date|to|from)\s?:[^\n]{0,120}",
    re.IGNORECASE,
)
_SALUTATION = re.compile(
    r"\s*(?:(?:my )?dear(?:est)?|hi|hello|hey|greetings|good (?:morning|evening|afternoon)|to whom it may concern"
    r"|cher|chère|chers|chères|bonjour|salut|madame|monsieur|estimad[oa]s?|querid[oa]s?|hola"
    r"|sehr geehrte[rs]?|liebe[rs]?|hallo|gentil[ei]|car[oa]|prezad[oa]s?|уважаем\w+|дорог\w+)"
    r"\b[^.!?\n]{0,60}[,:!]\s*"
    r"|\s*(?:亲爱的|尊敬的)[^。！？\n]{1,20}[，：:！]\s*",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"\s*(?:(?:with )?(?:best|kind|warm|warmest|many|lots of|all my)(?: \w+){0,2}|regards|sincerely"
    r"|yours(?: \w+)?|respectfully|cheers|love|thanks|thank you|cordially|faithfully|take care"
    r"|cordialement|bien à (?:toi|vous)|amicalement|sincères salutations"
    r"|atentamente|saludos(?: \w+){0,2}|un saludo|cordialmente"
    r"|mit freundlichen grüßen|viele grüße|liebe grüße"
    r"|distinti saluti|atenciosamente|с уважением|此致|敬上|祝好)\s*[,，!.]?\s*",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?。！？…][\s*_\"'”’)\]]*\Z")
_LONGEST_NAME = 8  # words


def remove_frame(raw: str) -> str:
    """Remove what is no sentence: a marked title, headings, a subject line, a salutation, the signature."""
    lines = raw.strip().split("\n")
    end = _find_signature(lines)
    return "\n".join(line for line in lines[:end] if not _is_frame(line)).strip()


def _is_frame(line: str) -> bool:
    """Tell whether the line is a title, a subject line, a salutation, or a heading in bold."""
    if not line.strip():
        return False
    if _TITLE.fullmatch(line) or _LABEL.fullmatch(line) or _SALUTATION.fullmatch(line):
        return True
    is_bold = _BOLD_LINE.fullmatch(line) is not None
    return is_bold and not _SENTENCE_END.search(line.strip().strip("*_:"))


def _find_signature(lines: list[str]) -> int:
    """Return the line where the signature begins: a closing such as "Best regards," with only short names after it."""
    for i in range(len(lines) - 1, max(-1, len(lines) - 9), -1):
        if _CLOSING.fullmatch(lines[i]):
            after = [line.strip() for line in lines[i + 1 :] if line.strip()]
            has_long_line = any(len(line.split()) > _LONGEST_NAME for line in after)
            if not has_long_line and not any(map(_SENTENCE_END.search, after)):
                return i
    return len(lines)
