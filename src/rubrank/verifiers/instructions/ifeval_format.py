"""IFEval: format (bullets, sections, JSON, titles, options), how the answer begins and ends, and commas.

    detectable_format:number_bullet_lists(num_bullets=3)    "Your answer must contain exactly 3 bullet points."
    startend:end_checker(end_phrase="Peace!")               "Finish your response with this exact phrase: Peace!"

Most have two readings, "fixed" and "upstream" (the public checker, faults included): see `instructions/__init__.py`.
`lang` chooses the form of the instruction in M-IFEval: Spanish, French or Japanese.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from rubrank._plain import refuse_constant, replace_surrogates
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import COMMAS
from rubrank.texts.text import Text
from rubrank.verifiers.shared.instruction import (
    AnyRelation,
    Count,
    Lang,
    check_parts,
    compare_count,
    compile_as_pattern,
    count_pattern,
    forbid_marks,
    holds,
    instruction,
)
from rubrank.verifiers.verifier import Answer, Compat

# A bullet and text: "- tea", "・茶". `_is_bullet` says which of these count.
_BULLET = re.compile(r"(?:[-*+•‣◦▪–]|・)[ \t\u3000]*\S")
_RULE = re.compile(r"(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}")  # "---", "* * *"
# *so*, **so** or ***so***, with as many asterisks on both sides and no space inside them. Japanese: 《so》.
_MARKED = re.compile(r"(?<!\*)(\*{1,3})(?![\s*])[^\n*]*[^\s*]\1(?!\*)")
_MARKED_JA = re.compile(r"《[^\n《》]*》")
_ITALIC_UPSTREAM = re.compile(r"\*[^\n*]*\*")
_BOLD_UPSTREAM = re.compile(r"\*\*[^\n*]*\*\*")
# Marks before the word of a section at the start of a line: "## **".
_BEFORE_SECTION = r"^[ \t]{0,20}[#*_>\-]{0,8}[ \t]{0,8}[*_<\[【(\"“„«'‘\\]{0,8}"
# The public checker's patterns of a bullet, for RE2. A line with nothing but "*" takes the next line with it.
_STAR_UPSTREAM = r"(?m)^[\s\pZ]*\*[^*].*$"
_DASH_UPSTREAM = r"(?m)^[\s\pZ]*-.*$"
_DOT_UPSTREAM = r"(?m)^[\s\pZ]*・[^・\n].*$"
_TITLE_MARKS = {"en": ("<<", ">>"), "es": ("<<", ">>"), "fr": ("##", "##"), "ja": ("『", "』")}
_OPTIONS = {
    "en": ("My answer is yes.", "My answer is no.", "My answer is maybe."),
    "fr": ("Oui.", "Non.", "Peut-être."),
    "es": ("Sí.", "No.", "Quizás."),
    "ja": ("はい、そうです。", "いいえ、違います。", "どちらとも言えません。"),
}
_AROUND_OPTION = "*_`\"'“”«»「」()# \t\n.。"
_PLACEHOLDER = re.compile(r"\[([^\[\]\n]*)\](?!\()")  # with "(" after it, it is a link
# The public checker's patterns for the two markers that it knows.
_POSTSCRIPT_UPSTREAM = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
_COMMAS_UPSTREAM = {"en": ",", "fr": ",", "es": ",", "ja": "、"}
# Pairs of opening and closing marks.
_QUOTES_UPSTREAM = {
    "en": ['""'],
    "es": ['""'],
    "fr": ['""', "''", "«»"],
    "ja": ["「」"],
}
_QUOTES = ['""', "“”", "„“", "„”", "«»", "»«", "「」", "『』", "＂＂"]
_AFTER_PHRASE = "*_`~\"'“”«»」』)> \t\n"  # may follow the end phrase
_SIX_ASTERISKS = re.compile(r"(?<!\*)\*{6}(?!\*)")


@instruction("detectable_format:number_bullet_lists", version=2)
def number_bullet_lists(
    text: Text, *, num_bullets: Count, lang: Lang = "en", compat: Compat = "fixed"
) -> Answer:
    """Exactly `num_bullets` bullets, at any depth: lines that begin with `-`, `*`, `+`, `•` (Japanese: `・`).

    Passes: "* a\\n- b" for 2.
    Fails: "1. a" for 1; a rule `---` or **bold** at the beginning of a line is no bullet.
    upstream: every line that begins with `-` (rules too) or with `*` and no second `*`; `+` and `•` do not count, in
        Spanish `-` neither.
    Not covered: numbered items, bullets drawn with other signs.
    """
    if compat == "fixed":
        count = sum(map(_is_bullet, text.raw.split("\n")))
    elif lang == "ja":
        count = count_pattern(text.raw, _DOT_UPSTREAM)
    else:
        count = count_pattern(text.raw, _STAR_UPSTREAM)
        if lang != "es":
            count += count_pattern(text.raw, _DASH_UPSTREAM)
    return compare_count(count, "bullet", "exactly", num_bullets)


def _is_bullet(line: str) -> bool:
    """Is the line an entry of a bulleted list, rather than a rule, bold text or a negative number?"""
    line = line.strip()
    if not _BULLET.match(line) or _RULE.fullmatch(line):
        return False
    # A Markdown sign needs a space after it; otherwise it opens bold text, a negative number or a dash.
    return line[0] not in "-*+–" or line[1].isspace()


@instruction("detectable_format:number_highlighted_sections", version=2)
def number_highlighted_sections(
    text: Text,
    *,
    num_highlights: Count,
    relation: AnyRelation = "at least",
    lang: Lang = "en",
    compat: Compat = "fixed",
) -> Answer:
    """At least (or another `relation`) `num_highlights` highlighted parts: `*so*` or `**so**` (Japanese: 《so》).

    Passes: "*a* and **b**" for 2.
    Fails: "2 * 3 * 4" for 1.
    Not covered: highlights of several lines, or by `_`.
    upstream: anything between two asterisks of one line, also between the asterisks of a bullet and a bold word.
    """
    if lang == "ja":
        highlights = [part for part in _MARKED_JA.findall(text.raw) if part[1:-1].strip()]
    elif compat == "fixed":
        highlights = _MARKED.findall(text.raw)
    else:
        italic = _ITALIC_UPSTREAM.findall(text.raw)
        bold = _BOLD_UPSTREAM.findall(text.raw)
        highlights = [part for part in italic if part.strip("*").strip()]
        highlights += [part for part in bold if part[2:-2].strip()]
    if compat == "upstream":
        relation = "at least"
    return compare_count(len(highlights), "highlight", relation, num_highlights)


@instruction("detectable_format:multiple_sections", version=2)
def multiple_sections(
    rollout: Rollout,
    *,
    section_spliter: str,
    num_sections: Count,
    relation: AnyRelation = "exactly",
    lang: Lang = "en",
    compat: Compat = "fixed",
) -> Answer:
    """Exactly (or another `relation`) `num_sections` sections, each begun by a line "SECTION 1" (Japanese: 第1章).

    Passes: "Section 1\\n…\\n## Section 2\\n…" for 2, also behind a quotation mark.
    Fails: "see Section 1 and Section 2" for 2, a third section, "Section X" for each. More sections pass if the prompt
        says "at least". If it asks for two versions, each may have this number of sections.
    Not covered: numbers in words.
    upstream: the words anywhere in the text, and more sections than asked pass.
    """
    word = section_spliter.strip()
    raw = rollout.answer
    if compat == "upstream":
        # The public checker puts the word into its pattern as it is, and minds the case: (?-i). The word comes from the
        # data, so the pattern runs under RE2, where \d is an ASCII digit.
        pattern = rf"第[\d０-９]+{re.escape(word)}" if lang == "ja" else rf"{word}\s?\d+"
        count = count_pattern(raw, f"(?-i){pattern}")
        return compare_count(count, "section", "at least", num_sections)
    if relation == "exactly" and asks_for_at_least(rollout.question, num_sections, word):
        relation = "at least"
    numbers = _find_section_numbers(raw, re.escape(word), lang)
    # Six asterisks divide two answers in one (`combination:two_responses`).
    if "******" in raw or asks_for_several(rollout.question):
        versions: list[int] = []  # the number of sections of each version
        for number in numbers:
            if not versions or number in ("1", "I", "１", "一"):  # the numbers begin again
                versions.append(0)
            versions[-1] += 1
        if len(versions) > 1 and all(holds(count, relation, num_sections) for count in versions):
            return True, f"{len(versions)} versions of {versions[0]} sections each"
    return compare_count(len(numbers), "section", relation, num_sections)


def _find_section_numbers(raw: str, word: str, lang: Lang) -> list[str]:
    """Return the numbers of the sections as written, in order; none if all are "Section X", an empty form."""
    if lang == "ja":
        return re.findall(
            rf"{_BEFORE_SECTION}第([\d０-９〇一二三四五六七八九十]+){word}", raw, re.MULTILINE
        )
    # A short line of its own may have something before the word: "(Verse 1 - SECTION 1)".
    start = rf"(?:{_BEFORE_SECTION}|^[(*#\[][^\n]{{0,30}}[\s*(\-])"
    numbers: list[str] = re.findall(rf"{start}{word}\s?(\d+|[IVXLC]+\b)", raw, re.MULTILINE)
    if set(numbers) == {"X"}:
        return []
    return numbers


@instruction("detectable_format:json_format")
def json_format(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The whole answer is JSON: an object or a list, bare or in one code fence.

    Passes: '```json\\n{"a": 1}\\n```'.
    Fails: '{"a": 1} as required', '"just a text"', NaN.
    Not covered: JSON Lines.
    upstream: any JSON value passes, also a number or NaN.
    """
    body = text.raw.strip()
    if compat == "upstream":
        for prefix in ("```json", "```Json", "```JSON", "```"):
            body = body.removeprefix(prefix)
        body = body.removesuffix("```").strip()
    elif len(body) >= 6 and body.startswith("```") and body.endswith("```"):
        body = body[3:-3].strip()
        if body[:4].lower() == "json":
            body = body[4:]
    try:
        value = json.loads(body, parse_constant=None if compat == "upstream" else refuse_constant)
    except RecursionError:
        return False, "nested too deeply"
    except ValueError as error:
        return False, f"not JSON: {error}"
    is_right = compat == "upstream" or isinstance(value, dict | list)
    return is_right, f"JSON of the type {type(value).__name__}"


@instruction("detectable_format:title")
def title(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """A title in `<<double angular brackets>>` on one line (French: `##so##`, Japanese: 『so』).

    Passes: "<<Joy>>\\nText".
    Fails: "<<>>", "<Joy>", a title over two lines.
    Not covered: whether it stands first.
    upstream: everything from the first mark to the last of the line counts as the title.
    """
    opening, closing = _TITLE_MARKS[lang]
    for line in text.raw.split("\n"):
        if opening not in line:
            continue
        start = line.find(opening) + len(opening)
        marks = opening[0] + closing[0]
        if compat == "upstream":
            end = line.rfind(closing, start + 1)
        else:
            end = line.find(closing, start)
            marks += " \t"
        # Without a closing mark, `end` is -1 and the title is empty.
        words = line[start : max(start, end)].strip(marks).strip()
        if words:
            return True, f"title “{words[:60]}”"
    return False, f"no title in {opening}…{closing}"


@instruction("detectable_format:constrained_response", version=2)
def constrained_response(
    rollout: Rollout, *, lang: Lang = "en", compat: Compat = "fixed"
) -> Answer:
    """One of the three options of the language ("My answer is yes.", … no., … maybe.), and no other.

    The prompt says what may stand beside the option: anything if it asks to contain the phrase or to give reasons,
    nothing if it says "just" or "only". If it says neither, the option must begin or end the answer. Without a prompt
    the option must stand alone.
    Passes: "My answer is no.", the same in quotes or bold.
    Fails: two of the options, "No".
    upstream: an option anywhere in the answer is enough.
    Not covered: the same said in other words.
    """
    options = _OPTIONS[lang]
    raw = rollout.answer
    if compat == "upstream":
        for option in options:
            if option in raw:
                return True, f"“{option}”"
        return False, "none of the three options"
    chosen = [option for option in options if _compile_option(option).search(raw)]
    if len(chosen) != 1:
        return False, f"{len(chosen)} of the three options"
    bare = raw.strip().strip(_AROUND_OPTION)
    before, *between, after = _compile_option(chosen[0]).split(bare)
    has_before = bool(before.strip(_AROUND_OPTION))
    has_after = bool(after.strip(_AROUND_OPTION))
    # True: anything may stand beside the option; False: nothing; None: the prompt does not say.
    may_be_longer = allows_more(rollout.question) if rollout.question else False
    if may_be_longer is None:
        is_right = not (has_before and has_after)
    else:
        is_right = may_be_longer or not (has_before or has_after or between)
    if not is_right:
        return False, f"“{chosen[0]}”, and more than that"
    return True, f"“{chosen[0]}”"


@lru_cache(maxsize=32)
def _compile_option(option: str) -> re.Pattern[str]:
    """Return a pattern for the option as a sentence, in any case; at the very end it needs no full stop."""
    body = re.escape(option.rstrip(".。"))
    return re.compile(rf"(?<!\w){body}(?:[.。!！]|(?=[\s*_\"”»」')]*\Z))", re.IGNORECASE)


@instruction("detectable_content:number_placeholders", version=2)
def number_placeholders(
    text: Text,
    *,
    num_placeholders: Count,
    relation: AnyRelation = "at least",
    compat: Compat = "fixed",
) -> Answer:
    """At least (or another `relation`) `num_placeholders` placeholders in square brackets, such as [address].

    Passes: "Dear [name], at [place]" for 2.
    Fails: "[text](link)", "[ ]", "[x]" for 1.
    Not covered: `<name>`.
    upstream: any brackets of one line count, links, boxes and empty ones too.
    """
    if compat == "upstream":
        # A pattern such as [.*?] would take quadratic time on "[[[[…".
        count = 0
        for line in text.raw.split("\n"):
            count += sum("[" in part for part in line.split("]")[:-1])
        return compare_count(count, "placeholder", "at least", num_placeholders)
    count = 0
    for inside in _PLACEHOLDER.findall(text.raw):
        inside = inside.strip()
        # Boxes to tick, "[ ]" and "[x]", and numbers of sources, "[1]", are no placeholders.
        if inside not in ("", "x", "X", "*") and not inside.isdigit():
            count += 1
    return compare_count(count, "placeholder", relation, num_placeholders)


@instruction("detectable_content:postscript", version=2)
def postscript(text: Text, *, postscript_marker: str, compat: Compat = "fixed") -> Answer:
    """A line, or the end of the last one, begins with the marker, such as P.S. or P.P.S, and says something.

    Passes: "Bye.\\n\\n**P.S.** Call me.", "So long. P.S. Call me."
    Fails: "the P.S. was lost", "P.S." alone.
    Not covered: whether it stands last.
    upstream: the marker anywhere in the text, as a pattern ("ps" in "steps").
    """
    marker = postscript_marker.strip()
    if compat == "upstream":
        word = _POSTSCRIPT_UPSTREAM.get(marker, marker.lower())
        is_present = (
            compile_as_pattern(word).search(replace_surrogates(text.raw.lower())) is not None
        )
        return is_present, f"{marker} {'found' if is_present else 'not found'}"
    # "P.S", "P. S": spaces between the characters of the marker do not matter.
    letters = r"\s?".join(re.escape(char) for char in re.sub(r"\s", "", marker.rstrip(".")))
    # The marker and a character that is neither a space nor punctuation.
    says = rf"{letters}(?!\w)[.:)\s*_\-–—]*[^.:)\s*_\-–—]"
    # A number or label may stand before it: "2) ", "Postscript: ".
    label = r"(?:(?:\d{1,2}[.)]|post-?scriptum|postscript|posdata|postdata)[\s*_:(]*)?"
    # Some answers hold "\n" as two characters, a backslash and an n.
    begins_line = rf"(?m)^(?:\\n|[ \t*_>#\"'“(\-])*{label}{says}"
    # Inside the last line it follows the end of a sentence.
    within_line = rf"[.!?。！？…][\"'”’)*_]*\s+[*_(\"“]*{says}"
    last_line = text.raw.strip().rpartition("\n")[2]
    is_present = (
        re.search(begins_line, text.raw, re.IGNORECASE) is not None
        or re.search(within_line, last_line[-2000:], re.IGNORECASE) is not None
    )
    reason = f"a postscript that begins with {marker}: {'found' if is_present else 'not found'}"
    return is_present, reason


# ---- commas, beginning and end, two answers in one ------------------------------------------------------------------


@instruction("punctuation:no_comma")
def no_comma(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """No comma of any script.

    Passes: "First this then that."
    Fails: "First, that", "先这样，再那样", "1,000".
    Not covered: semicolons.
    upstream: only the comma of the language of the instruction.
    """
    commas = _COMMAS_UPSTREAM[lang] if compat == "upstream" else COMMAS
    return forbid_marks(text.raw, commas, "comma")


@instruction("startend:quotation")
def quotation(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """The whole answer stands in double quotation marks, straight or curly, or those of the language.

    Passes: '"Hello."', "“Hello.”".
    Fails: '"Hello." she said', '""'.
    Not covered: whether the quotes inside pair up.
    upstream: straight double quotes only (French also ' and « », Japanese 「 」); nothing between them is
        enough.
    """
    body = text.raw.strip()
    pairs = _QUOTES_UPSTREAM[lang] if compat == "upstream" else _QUOTES
    is_quoted = len(body) > 1 and body[0] + body[-1] in pairs
    if compat == "fixed" and not body[1:-1].strip():
        is_quoted = False
    return is_quoted, f"begins with “{body[:1]}” and ends with “{body[-1:]}”"


@instruction("startend:end_checker", version=2)
def end_checker(
    text: Text, *, end_phrase: str, lang: Lang = "en", compat: Compat = "fixed"
) -> Answer:
    """The answer ends with the phrase, in any case; quotes, Markdown signs and one full stop after it are free.

    Passes: "… **Peace!**" for "Peace!".
    Fails: "Peace! Bye." for "Peace!".
    Not covered: rewordings.
    upstream: only straight double quotes after it are dropped; in Spanish one full stop too.
    """
    body = text.raw.strip()
    phrase = end_phrase.strip()
    if compat == "upstream" and lang == "ja":
        is_right = body.strip("」』").endswith(phrase.strip("」』"))
    elif compat == "upstream":
        end = body.strip('"').lower()
        if lang == "es":
            end = end.removesuffix(".")
        is_right = end.endswith(phrase.lower())
    else:
        # Long answers are not folded as a whole: this much surely holds the phrase and the signs after it.
        end = body[-4 * len(phrase) - 200 :].rstrip(_AFTER_PHRASE)
        end = _fold(end)
        expected = _fold(phrase.rstrip(_AFTER_PHRASE))
        is_right = end.endswith(expected)
        if not is_right and end.endswith((".", "。")):  # one full stop may follow
            is_right = end[:-1].rstrip(_AFTER_PHRASE).endswith(expected)
    return is_right, f"ends with “{body[-60:]}”"


@instruction("combination:repeat_prompt")
def repeat_prompt(text: Text, *, prompt_to_repeat: str, compat: Compat = "fixed") -> Answer:
    """The answer begins with the request word for word (case and line breaks aside), and goes on after it.

    Passes: "Name a lake.\\nWest Lake." for "Name a lake."
    Fails: "Sure! Name a lake. …", the request alone.
    upstream: white space must agree too, and nothing needs to follow.
    Not covered: whether what follows answers the request.
    """
    if compat == "upstream":
        answer = text.raw.strip().lower()
        request = prompt_to_repeat.strip().lower()
    else:
        answer = _fold(text.raw)
        request = _fold(prompt_to_repeat)
    if not answer.startswith(request):
        return False, "does not begin with the request"
    if compat == "fixed" and not answer[len(request) :].strip("\"'”»」 *_"):
        return False, "repeats the request and says nothing more"
    return True, "begins with the request"


def _fold(text: str) -> str:
    """Return the text on one line, with single spaces and without case."""
    return " ".join(text.split()).casefold()


@instruction("combination:two_responses")
def two_responses(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Two different answers with `******` between them.

    Passes: "Yes.\\n******\\nNo."
    Fails: the same answer twice, three answers, five asterisks.
    upstream: six asterisks within more also divide, and answers that differ in case or spaces are two.
    Not covered: answers that differ in wording only.
    """
    parts = text.raw.split("******") if compat == "upstream" else _SIX_ASTERISKS.split(text.raw)
    has_two, reason = check_parts(parts, "answer", 2)
    if not has_two:
        return False, reason
    first, second = (part.strip() for part in parts if part.strip())
    if compat == "fixed":
        first = _fold(first)
        second = _fold(second)
    if first == second:
        return False, "the same answer twice"
    return True, "two different answers"


# ---- what the prompt asks for beyond the arguments -----------------------------------------------------------------

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


def allows_more(prompt: str) -> bool | None:
    """Return True if the option may stand in a longer answer, False if it must stand alone, None if neither is said.

    >>> allows_more("Your answer must contain one of the following phrases: …"), allows_more("Just say yes or no.")
    (True, False)
    """
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
