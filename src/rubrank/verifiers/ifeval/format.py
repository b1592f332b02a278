"""IFEval: format of the answer as a whole: bullets, highlights, sections, JSON, title, options, placeholders."""

from __future__ import annotations

import json
import re
from functools import lru_cache

from rubrank._plain import clean, no_constant
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.ifeval.asked import allows_more, asks_for_several, at_least
from rubrank.verifiers.ifeval.common import AnyRelation, Lang, as_pattern, count_pattern, instruction
from rubrank.verifiers.shared.relation import Count, compare_count, holds
from rubrank.verifiers.verifier import Answer, Compat

_BULLET = re.compile(r"(?:[-*+•‣◦▪–]|・)[ \t\u3000]*\S")
_RULE = re.compile(r"(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}")


@instruction("detectable_format:number_bullet_lists", version=2)
def number_bullet_lists(text: Text, *, num_bullets: Count, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """Exactly `num_bullets` bullets, at any depth: lines that begin with `-`, `*`, `+`, `•` (Japanese: `・`).

    Passes: "* a\\n- b" for 2. Fails: "1. a" for 1; a rule `---` or **bold** at the beginning of a line is no bullet.
    upstream: every line that begins with `-` (rules too) or with `*` and no second `*`; `+` and `•` do not count,
    in Spanish `-` neither.
    Not covered: numbered items, bullets drawn with other signs.
    """
    lines = text.raw.split("\n")
    if compat == "fixed":
        count = sum(map(_is_bullet, lines))
    else:
        dashes = sum(line.lstrip()[:1] == "-" for line in lines) if lang != "es" else 0
        count = _dots(lines) if lang == "ja" else _stars(lines) + dashes
    return compare_count(count, "bullet", "exactly", num_bullets)


def _is_bullet(line: str) -> bool:
    line = line.strip()
    if not _BULLET.match(line) or _RULE.fullmatch(line):
        return False
    # A sign of Markdown needs its space, or it opens bold text, a negative number, a dash.
    return line[0] not in "-*+–" or line[1].isspace()


def _stars(lines: list[str]) -> int:
    """Lines `*` and something that is no `*`; a lonely `*` takes the line after it."""
    count, skip = 0, False
    for i, line in enumerate(lines):
        start = line.lstrip()
        if skip or start[:1] != "*":
            skip = False
            continue
        skip = start == "*" and i + 1 < len(lines)
        count += skip or start[1:2] not in ("", "*")
    return count


def _dots(lines: list[str]) -> int:
    return sum(line.lstrip()[:1] == "・" and line.lstrip()[1:2] not in ("", "・") for line in lines)


_SPAN = re.compile(r"\*[^\n*]*\*")
_SPAN_2 = re.compile(r"\*\*[^\n*]*\*\*")
_MARKED = re.compile(r"(?<!\*)(\*{1,3})(?![\s*])[^\n*]*[^\s*]\1(?!\*)")
_MARKED_JA = re.compile(r"《[^\n《》]*》")


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

    Passes: "*a* and **b**" for 2. Fails: "2 * 3 * 4" for 1. Not covered: highlights of several lines, or by `_`.
    upstream: anything between two asterisks of one line, also between the asterisks of a bullet and a bold word.
    """
    if lang == "ja":
        count = sum(bool(m[1:-1].strip()) for m in _MARKED_JA.findall(text.raw))
    elif compat == "fixed":
        count = sum(1 for _ in _MARKED.finditer(text.raw))
    else:
        count = sum(bool(m.strip("*").strip()) for m in _SPAN.findall(text.raw))
        count += sum(bool(m[2:-2].strip()) for m in _SPAN_2.findall(text.raw))
    return compare_count(count, "highlight", "at least" if compat == "upstream" else relation, num_highlights)


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

    Passes: "Section 1\\n…\\n## Section 2\\n…" for 2, also behind a quotation mark. Fails: "see Section 1 and Section 2"
    for 2, a third section, "Section X" for each. More pass where the prompt says "at least"; where it asks for two
    versions, each may have so many. Not covered: numbers in words.
    upstream: the words anywhere in the text, and more sections than asked pass.
    """
    spliter, raw = section_spliter.strip(), rollout.answer
    if compat == "upstream":
        literal = spliter if lang != "ja" else re.escape(spliter)
        pattern = rf"第[\d０-９]+{literal}" if lang == "ja" else rf"{literal}\s?\d+"
        # The word comes from the data, so RE2; its digits are ASCII, as those of the prompts are.
        return compare_count(count_pattern(raw, f"(?-i){pattern}"), "section", "at least", num_sections)
    if relation == "exactly" and at_least(rollout.question, num_sections, spliter):
        relation = "at least"
    numbers = _section_numbers(raw, re.escape(spliter), lang)
    versions = _versions(numbers) if "******" in raw or asks_for_several(rollout.question) else []
    if len(versions) > 1 and all(holds(n, relation, num_sections) for n in versions):
        return True, f"{len(versions)} versions of {versions[0]} sections each"
    return compare_count(len(numbers), "section", relation, num_sections)


_BEFORE = r"^[ \t]{0,20}[#*_>\-]{0,8}[ \t]{0,8}[*_<\[【(\"“„«'‘\\]{0,8}"


def _section_numbers(raw: str, word: str, lang: Lang) -> list[str]:
    """The numbers of the sections, as written, in order; "Section X" in a row is a form that was not filled in."""
    if lang == "ja":
        return re.findall(rf"{_BEFORE}第([\d０-９〇一二三四五六七八九十]+){word}", raw, re.MULTILINE)
    # A short line of its own may say something before: "(Verse 1 - SECTION 1)".
    start = rf"(?:{_BEFORE}|^[(*#\[][^\n]{{0,30}}[\s*(\-])"
    found: list[str] = re.findall(rf"{start}{word}\s?(\d+|[IVXLC]+\b)", raw, re.MULTILINE)
    return [] if set(found) == {"X"} else found


def _versions(numbers: list[str]) -> list[int]:
    """How many sections each version has: a version begins where the numbers begin again."""
    sizes: list[int] = []
    for number in numbers:
        if not sizes or number in ("1", "I", "１", "一"):
            sizes.append(0)
        sizes[-1] += 1
    return sizes


@instruction("detectable_format:json_format")
def json_format(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The whole answer is JSON: an object or a list, bare or in one code fence.

    Passes: '```json\\n{"a": 1}\\n```'. Fails: '{"a": 1} as asked', '"just a text"', NaN. Not covered: JSON Lines.
    upstream: any JSON value passes, also a number or NaN.
    """
    body = _unfenced(text.raw, compat)
    try:
        value = json.loads(body, parse_constant=None if compat == "upstream" else no_constant)
    except RecursionError:
        return False, "nested too deeply"
    except ValueError as error:
        return False, f"not JSON: {error}"
    right = compat == "upstream" or isinstance(value, dict | list)
    return right, f"JSON of the type {type(value).__name__}"


def _unfenced(text: str, compat: Compat) -> str:
    """What stands in the code fence, if the whole text is one."""
    body = text.strip()
    if compat == "upstream":
        for prefix in ("```json", "```Json", "```JSON", "```"):
            body = body.removeprefix(prefix)
        return body.removesuffix("```").strip()
    if len(body) < 6 or not (body.startswith("```") and body.endswith("```")):
        return body
    inside = body[3:-3].strip()
    return inside[4:] if inside[:4].lower() == "json" else inside


_TITLE_MARKS = {"en": ("<<", ">>"), "es": ("<<", ">>"), "fr": ("##", "##"), "ja": ("『", "』")}


@instruction("detectable_format:title")
def title(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """A title in `<<double angular brackets>>` on one line (French: `##so##`, Japanese: 『so』).

    Passes: "<<Joy>>\\nText". Fails: "<<>>", "<Joy>", a title over two lines. Not covered: whether it stands first.
    upstream: everything from the first mark to the last of the line counts as the title.
    """
    first, last = _TITLE_MARKS[lang]
    found = (_between(line, first, last, compat) for line in text.raw.split("\n") if first in line)
    title = next((part for part in found if part), "")
    return bool(title), f"title “{title[:60]}”" if title else f"no title in {first}…{last}"


def _between(line: str, first: str, last: str, compat: Compat) -> str:
    """What stands between the marks; empty if nothing does."""
    start = line.find(first) + len(first)
    if compat == "upstream":
        end = line.rfind(last, start + 1)
        return line[start:end].strip(first[0] + last[0]).strip() if end >= 0 else ""
    end = line.find(last, start)
    return line[start:end].strip(first[0] + last[0] + " \t") if end >= 0 else ""


_OPTIONS = {
    "en": ("My answer is yes.", "My answer is no.", "My answer is maybe."),
    "fr": ("Oui.", "Non.", "Peut-être."),
    "es": ("Sí.", "No.", "Quizás."),
    "ja": ("はい、そうです。", "いいえ、違います。", "どちらとも言えません。"),
}


@instruction("detectable_format:constrained_response", version=2)
def constrained_response(rollout: Rollout, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """One of the three options of the language ("My answer is yes.", … no., … maybe.), and no other.

    What may stand beside it is the prompt's to say: anything if it wants the phrase contained, or reasons; nothing if
    it says "just", "only"; if it does not say, the option begins or ends the answer. Without a prompt the option stands
    alone. Passes: "My answer is no.", the same in quotes or bold. Fails: two of the options, "No".
    upstream: an option anywhere in the answer is enough. Not covered: the same said in other words.
    """
    options, raw = _OPTIONS[lang], rollout.answer
    if compat == "upstream":
        found = next((option for option in options if option in raw), None)
        return found is not None, f"“{found}”" if found else "none of the three options"
    said = [option for option in options if _sentence_of(option).search(raw)]
    if len(said) != 1:
        return False, f"{len(said)} of the three options"
    more = allows_more(rollout.question) if rollout.question else False
    bare = raw.strip().strip(_AROUND_OPTION)
    places = [m.span() for m in _sentence_of(said[0]).finditer(bare)]
    alone = any(not bare[:a].strip(_AROUND_OPTION) and not bare[b:].strip(_AROUND_OPTION) for a, b in places)
    edge = any(not bare[:a].strip(_AROUND_OPTION) or not bare[b:].strip(_AROUND_OPTION) for a, b in places)
    right = more or alone or (more is None and edge)
    return bool(right), f"“{said[0]}”" + ("" if right else ", and more than that")


_AROUND_OPTION = "*_`\"'“”«»「」()# \t\n.。"


@lru_cache(maxsize=32)
def _sentence_of(option: str) -> re.Pattern[str]:
    """The option as a sentence of its own, in any case, with or without its full stop at the very end."""
    body = re.escape(option.rstrip(".。"))
    return re.compile(rf"(?<!\w){body}(?:[.。!！]|(?=[\s*_\"”»」')]*\Z))", re.IGNORECASE)


_PLACEHOLDER = re.compile(r"\[[^\[\]\n]*\]")


@instruction("detectable_content:number_placeholders", version=2)
def number_placeholders(
    text: Text, *, num_placeholders: Count, relation: AnyRelation = "at least", compat: Compat = "fixed"
) -> Answer:
    """At least (or another `relation`) `num_placeholders` placeholders in square brackets, such as [address].

    Passes: "Dear [name], at [place]" for 2. Fails: "[text](link)", "[ ]", "[x]" for 1. Not covered: `<name>`.
    upstream: any brackets of one line count, links, boxes and empty ones too.
    """
    if compat == "upstream":
        count = sum(map(_brackets, text.raw.split("\n")))
    else:
        count = sum(map(_is_placeholder, _PLACEHOLDER.finditer(text.raw)))
    return compare_count(count, "placeholder", "at least" if compat == "upstream" else relation, num_placeholders)


def _brackets(line: str) -> int:
    """Pairs of an opening bracket and the next closing one. By hand: a pattern takes quadratic time on `[[[[…`."""
    count, at = 0, line.find("[")
    while at >= 0 and (end := line.find("]", at)) >= 0:
        count, at = count + 1, line.find("[", end)
    return count


def _is_placeholder(match: re.Match[str]) -> bool:
    inside, after = match[0][1:-1].strip(), match.string[match.end() : match.end() + 1]
    return after != "(" and inside not in ("", "x", "X", "*") and not inside.isdigit()


_POSTSCRIPT = {"p.p.s": r"p\.\s?p\.\s?s", "p.s.": r"p\.\s?s\."}


@instruction("detectable_content:postscript", version=2)
def postscript(text: Text, *, postscript_marker: str, compat: Compat = "fixed") -> Answer:
    """A line, or the end of the last one, begins with the marker, such as P.S. or P.P.S, and says something.

    Passes: "Bye.\\n\\n**P.S.** Call me.", "So long. P.S. Call me." Fails: "the P.S. was lost", "P.S." alone.
    Not covered: whether it stands last. upstream: the marker anywhere in the text, as a pattern ("ps" in "steps").
    """
    marker = postscript_marker.strip()
    if compat == "upstream":
        pattern = as_pattern(_POSTSCRIPT.get(marker.lower() if marker in ("P.P.S", "P.S.") else "", marker.lower()))
        found = bool(pattern.search(clean(text.raw.lower())))
        return found, f"{marker} {'found' if found else 'not found'}"
    letters = r"\s?".join(re.escape(c) for c in re.sub(r"\s", "", marker.rstrip(".")))
    says = rf"{letters}(?!\w)[.:)\s*_\-–—]*[^.:)\s*_\-–—]"
    label = r"(?:(?:\d{1,2}[.)]|post-?scriptum|postscript|posdata|postdata)[\s*_:(]*)?"
    begins = re.compile(rf"^(?:\\n|[\s*_>#\"'“(\-])*{label}{says}", re.IGNORECASE)
    found = any(begins.match(line) for line in _with_next(text.lines))
    last = next((line for line in reversed(text.lines) if line.strip()), "")
    # Inside the last line it follows the end of a sentence.
    within = re.compile(rf"[.!?。！？…][\"'”’)*_]*\s+[*_(\"“]*{says}", re.IGNORECASE)
    found = found or within.search(last[-2000:]) is not None
    return found, f"a postscript that begins with {marker}: {'found' if found else 'not found'}"


def _with_next(lines: tuple[str, ...]) -> list[str]:
    """Each line with the one after it: the marker may stand alone above its text."""
    full = [line.strip()[:400] for line in lines if line.strip()]
    return [f"{line} {after}" for line, after in zip(full, [*full[1:], ""], strict=True)]
