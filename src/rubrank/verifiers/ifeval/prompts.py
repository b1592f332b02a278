"""What the wording of a prompt asks beyond the arguments of an instruction, and which lines frame an answer.

>>> allows_more("Your answer must contain one of the following phrases: …"), allows_more("Just say yes or no.")
(True, False)
>>> remove_frame("<<Joy>>\\n\\nDear Ann,\\n\\nIt rains.\\n\\nBest regards,\\nBob")
'It rains.'
"""

from __future__ import annotations

import re

# "Just say yes or no.", "without any explanation", "uniquement", 只能.
_NOTHING_ELSE_ASKED = re.compile(
    r"""\b(?:only|just|nothing[ ](?:else|more)|no[ ](?:explanation|other[ ](?:text|words))
        |without[ ](?:any[ ])?(?:explanation|explaining)
        |uniquement|seulement|rien[ ]d'autre|sans[ ](?:rien[ ])?(?:ajouter|explication)
        |solo|únicamente|solamente|sin[ ]explicaci
        |nur|ausschließlich|soltanto|apenas|somente)\b
    | 只(?:能|需|要|用)? | 仅 | のみ | だけ""",
    re.IGNORECASE | re.VERBOSE,
)
# "Your answer must contain …", "Think first", "expliquez", 说明理由.
_MORE_ASKED = re.compile(
    r"""\b(?:contain|include|including|mention|somewhere|think[ ](?:out[ ]loud|step|first|aloud)|explain|reason
        |justify|then[ ]answer|conclude|end(?:ing)?[ ](?:your|with)
        |contenir|inclure|incluez|expliquez|expliqu|justifi|ensuite|puis
        |contener|incluir|incluye|explica|luego
        |enthalten|erklär|begründe|contenere|includi|conter|inclua)\w*
    | 包含 | 包括 | 解释 | 说明 | 理由 | 含め | 理由""",
    re.IGNORECASE | re.VERBOSE,
)
_NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_AT_LEAST = (
    r"(?:at least|a minimum of|minimum|no fewer than|not less than"
    r"|au moins|au minimum|al menos|como mínimo|mindestens|almeno|pelo menos|至少|不少于|最低)"
)
# "two different versions", "each of the drafts", 两种.
_SEVERAL_VERSIONS = re.compile(
    r"\b(?:two|2|both|each|every|three|deux|chaque|dos|cada|zwei|jede)\b[^.\n]{0,60}"
    r"\b(?:versions?|responses?|answers?|drafts?|itinerar\w+|variant\w*|alternatives?|options"
    r"|réponses?|respuestas?|versiones|antworten)|两(?:个|种|份)",
    re.IGNORECASE,
)
# In double quotation marks of any kind; in single ones only if it is long, since apostrophes are alike.
_QUOTED = re.compile(r"[\"“«„「『]([^\"”»“」』\n]{2,200})[\"”»“」』]|'([^'\n]{6,200})'")

# ---- lines that frame an answer ----
# "<<Joy>>", "##Joie##", "『喜び』", "# Joy"
_TITLE = re.compile(
    r"[\s*_#]*(?:<<[^\n]+>>|##[^#\n]+##|『[^\n]+』)[\s*_]*|[ \t]{0,3}#{1,6}(?:[ \t][^\n]*)?"
)
_BOLD_LINE = re.compile(r"\s*(?:\*\*|__)[^*\n]{1,100}(?:\*\*|__):?\s*")
# "Subject: your visit"
_LABEL = re.compile(
    r"\s*(?:subject|objet|asunto|betreff|re|title|titre|título|date|to|from)\s?:[^\n]{0,120}",
    re.IGNORECASE,
)
# "Dear Ann,", "Bonjour Madame,", 亲爱的安：
_SALUTATION = re.compile(
    r"""\s*
    (?:(?:my[ ])?dear(?:est)?|hi|hello|hey|greetings|good[ ](?:morning|evening|afternoon)|to[ ]whom[ ]it[ ]may[ ]concern
      |cher|chère|chers|chères|bonjour|salut|madame|monsieur|estimad[oa]s?|querid[oa]s?|hola
      |sehr[ ]geehrte[rs]?|liebe[rs]?|hallo|gentil[ei]|car[oa]|prezad[oa]s?|уважаем\w+|дорог\w+)
    \b[^.!?\n]{0,60}[,:!]\s*
    | \s*(?:亲爱的|尊敬的)[^。！？\n]{1,20}[，：:！]\s*""",
    re.IGNORECASE | re.VERBOSE,
)
# "Best regards,", "Cordialement", 此致
_CLOSING = re.compile(
    r"""\s*
    (?:(?:with[ ])?(?:best|kind|warm|warmest|many|lots[ ]of|all[ ]my)(?:[ ]\w+){0,2}|regards|sincerely
      |yours(?:[ ]\w+)?|respectfully|cheers|love|thanks|thank[ ]you|cordially|faithfully|take[ ]care
      |cordialement|bien[ ]à[ ](?:toi|vous)|amicalement|sincères[ ]salutations
      |atentamente|saludos(?:[ ]\w+){0,2}|un[ ]saludo|cordialmente
      |mit[ ]freundlichen[ ]grüßen|viele[ ]grüße|liebe[ ]grüße
      |distinti[ ]saluti|atenciosamente|с[ ]уважением|此致|敬上|祝好)
    \s*[,，!.]?\s*""",
    re.IGNORECASE | re.VERBOSE,
)
_SENTENCE_END = re.compile(r"[.!?。！？…][\s*_\"'”’)\]]*\Z")
_LONGEST_NAME = 8  # words


def allows_more(prompt: str) -> bool | None:
    """Return True if the option may stand in a longer answer, False if it must stand alone, None if neither is said."""
    if not prompt.strip():
        return None
    if _MORE_ASKED.search(prompt):
        return True
    if _NOTHING_ELSE_ASKED.search(prompt):
        return False
    return None


def asks_for_at_least(prompt: str, number: int, thing: str) -> bool:
    """Does the prompt ask for at least so many things ("at least two sections", "4 or more sections")?"""
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


def asks_for_several(prompt: str) -> bool:
    """Does the prompt ask for two or more versions of an answer?"""
    return _SEVERAL_VERSIONS.search(prompt) is not None


def find_quotations(prompt: str) -> list[str]:
    """Return the phrases in quotation marks: what an answer must say word for word."""
    return [(match[1] or match[2]).strip() for match in _QUOTED.finditer(prompt)]


def remove_frame(raw: str) -> str:
    """Remove what is no sentence: a marked title, headings, a subject line, a salutation, the signature."""
    lines = raw.strip().split("\n")
    # The signature begins with a closing such as "Best regards," that has only short names after it.
    end = len(lines)
    for i in range(len(lines) - 1, max(-1, len(lines) - 9), -1):
        if _CLOSING.fullmatch(lines[i]):
            after = [line.strip() for line in lines[i + 1 :] if line.strip()]
            has_long_line = any(len(line.split()) > _LONGEST_NAME for line in after)
            if not has_long_line and not any(map(_SENTENCE_END.search, after)):
                end = i
                break
    return "\n".join(line for line in lines[:end] if not _is_frame(line)).strip()


def _is_frame(line: str) -> bool:
    """Is the line a title, a subject line, a salutation, or a heading in bold?"""
    if not line.strip():
        return False
    if _TITLE.fullmatch(line) or _LABEL.fullmatch(line) or _SALUTATION.fullmatch(line):
        return True
    is_bold = _BOLD_LINE.fullmatch(line) is not None
    return is_bold and not _SENTENCE_END.search(line.strip().strip("*_:"))
