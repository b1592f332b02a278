"""The languages that an answer is written in, and those in which its prompt lets it be written.

    measure_languages("Il pleut. " * 5 + "It rains. " * 5)      # {"fr": 0.5, "en": 0.5}, about
    find_accepted(rollout)                                # Accepted(languages={"fr"}, whole=True): "Answer in French."

Code and addresses are no language, quotations none where there is enough besides. Prose that was put into a code fence
is prose: nothing is hidden there.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN, has_fence, split_code, without_code
from rubrank.verifiers.shared.language import SURE, count_scripts, detect_language, is_other, script_of, select_letters
from rubrank.verifiers.shared.language_names import QUOTED, find_request, named_languages

_SPLIT = re.compile(r"\n[ \t]*\n|(?<=[。！？])|(?<=[.!?])\s")
_DENSE = re.compile(f"[{HAN}\u3040-\u30ff\uac00-\ud7af]")
LEAST = 12
"""Letters from which a sentence shows its language; a Chinese character is worth three."""
_CLEAR = 0.25
_CODE = re.compile(
    r"[{}=<>;$|]|\\(?![\"'])|\w\(|\)\.|->|::|^\s*(?:#|//|import |from |def |class |return\b|print\b|SELECT\b"
    r"|\w+:\s*\S+$)"
)
_WORDS = re.compile(r"[^\W\d_]{2,}")


def weigh(text: str) -> int:
    """How much text there is to tell a language by: letters, those of Chinese, Japanese and Korean as three."""
    return sum(map(str.isalpha, text)) + 2 * len(_DENSE.findall(text))


def extract_prose(text: str) -> str:
    """The text without code and addresses; prose in a code fence is kept."""
    prose = without_code(text)
    if not has_fence(text) and "`" not in text:
        return prose
    hidden = [code for _, code in split_code(text)[1]] if has_fence(text) else []
    hidden += re.findall(r"`([^`\n]{20,1000})`", text) if "`" in text else []
    return "\n\n".join((prose, *(code for code in hidden if _is_prose(code))))


def _is_prose(code: str) -> bool:
    """Sentences rather than code: most lines have words and none of the signs of code."""
    lines = [line for line in code.splitlines() if line.strip()]
    words = [line for line in lines if not _CODE.search(line) and _is_worded(line)]
    return bool(lines) and 3 * len(words) >= 2 * len(lines)


def _is_worded(line: str) -> bool:
    return len(_WORDS.findall(line)) >= 4 or len(_DENSE.findall(line)) >= 6


def measure_languages(text: str) -> dict[str, float]:
    """The languages of the text's sentences, by their share; code, addresses and quotations left out."""
    sizes: dict[str, float] = {}
    for piece in _pieces(text):
        code, sure = detect_language(piece)
        if code and sure >= _CLEAR:
            sizes[code] = sizes.get(code, 0.0) + weigh(piece)
    total = sum(sizes.values())
    return {code: size / total for code, size in sizes.items()} if total else {}


def measure_others(text: str, languages: Collection[str]) -> float:
    """How much of the text is surely in none of these languages."""
    sizes = [(weigh(piece), is_other(piece, languages)) for piece in _pieces(text)]
    return sum(size for size, other in sizes if other) / max(1, sum(size for size, _ in sizes))


def measure_within(text: str, languages: Collection[str]) -> float:
    """How much of the text, quotations and all, is in these languages."""
    prose = extract_prose(text[:200_000])
    pieces = [piece for part in (*QUOTED.findall(prose), QUOTED.sub("\n\n", prose)) for piece in merge_sentences(part)]
    inside = sum(weigh(piece) for piece in pieces if detect_language(piece)[0] in languages)
    return inside / max(1, sum(map(weigh, pieces)))


def quotes_language(text: str, languages: Collection[str]) -> bool:
    """Is a sentence or phrase in these languages quoted, as in: the translation is "Das Wetter ist schön"?"""
    found = (
        detect_language(span) for span in QUOTED.findall(extract_prose(text[:200_000]))[:50] if weigh(span) >= LEAST
    )
    return any(code in languages and sure >= 0.5 for code, sure in found)


def _pieces(text: str) -> list[str]:
    prose = extract_prose(text[:200_000])
    plain = QUOTED.sub(" ", prose)
    return merge_sentences(
        plain if weigh(plain) >= max(LEAST, 0.4 * weigh(prose)) else prose
    )  # all quoted: that is the text


def merge_sentences(prose: str) -> list[str]:
    """Sentences joined with their neighbours until each is long enough to tell its language, about a dozen of them."""
    pieces = _SPLIT.split(prose)
    least = max(60, sum(map(len, pieces)) // 12)
    found: list[str] = []
    size = least
    for piece in filter(str.strip, pieces):
        if size >= least:
            found.append(piece)
            size = 0
        else:
            found[-1] += " " + piece
        size += weigh(piece)
    if len(found) > 1 and size < least:
        last = found.pop()
        found[-1] += " " + last
    return found


# ----------------------------------------------------------------------------------------------------- what is expected


@dataclass(frozen=True, slots=True)
class Accepted:
    """In which languages an answer may be."""

    languages: frozenset[str] = frozenset()
    whole: bool = False
    """Were they asked for by name, for all of the answer?"""
    sure: bool = False
    """Is it certain which language a prompt in Latin (or Cyrillic …) letters is in? Else only its script is."""


# Rules of a system prompt are for one case or part, unless they say otherwise.
_ALWAYS = re.compile(
    r"\b(?:always|only|every|all|entire(?:ly)?|must|never)\b|始终|一律|所有|全部|总是|只能|只用|仅用|必须|toujours|siempre|immer|必ず|항상",
    re.IGNORECASE,
)
_RULES_DIFFER = re.compile(
    r"提及|提到|涉及|询问|当用户|如果|若|一旦|类[：:]|第[一二三四五六\d]+[段点轮部]|\b(?:if|when|unless)\b",
    re.IGNORECASE,
)


def find_accepted(rollout: Rollout) -> Accepted:
    """What the prompt asks for; else every language that it is written in, names or makes possible."""
    rules = "\n\n".join(m.content for m in rollout.prompt if m.role in ("system", "developer"))
    if (request := find_request(rollout.question)).whole:
        return Accepted(request.asked, whole=True, sure=True)
    if (request := find_request(rules)).whole and _ALWAYS.search(rules) and not _RULES_DIFFER.search(rules):
        return Accepted(request.asked, whole=True, sure=True)
    said = "\n\n".join((rules, *(m.content for m in rollout.prompt if m.role == "user")))[:50_000]
    own, sure = find_prompt_languages(rollout.question)
    if len(rollout.prompt) > 1:  # rules in Chinese may be kept in Chinese, whatever the question is in
        everywhere, all_sure = find_prompt_languages(said)
        own, sure = own | everywhere, sure and (all_sure or bool(own))
    found = own | named_languages(said) | find_request(rollout.question).asked | find_request(rules).asked
    return Accepted(frozenset(found), sure=sure) if own else Accepted()


def find_prompt_languages(prompt: str) -> tuple[frozenset[str], bool]:
    """The languages that a prompt is written in or quotes, and whether that of its letters is certain."""
    prose = _without_code_lines(prompt)
    counts = count_scripts(prose)
    total = sum(n * (3 if name == "Han" else 1) for name, n in counts.items())
    found, sure = set[str](), True
    for script, n in counts.items():
        letters = select_letters(prose, script)
        if script in ("Han", "Kana"):
            code, certain = detect_language(letters)
            found |= (
                {"zh", "ja"} if script == "Han" and certain < SURE and n < 40 else {detect_language(prose)[0], code}
            )
        elif script not in _SHARED:
            found |= {detect_language(letters)[0]} if n >= 4 else set()
        elif n >= 4 and (script != "Latin" or n >= 0.1 * total or n >= 40 or _quotes_words(prompt)):
            more, certain_too = _within_script(letters, script)
            found |= more
            sure = sure and certain_too
    return frozenset(found - {""}), sure


_SHARED = ("Latin", "Cyrillic", "Arabic", "Devanagari")
_QUOTED_WORDS = re.compile("[\"“‘'「][a-z][a-z ]{2,}[\"”’'」]")


def _quotes_words(prompt: str) -> bool:
    """Does it give words to be used, as in 包含关键词"love"和"you"?"""
    return len(_QUOTED_WORDS.findall(prompt)) >= 2


def _within_script(letters: str, script: str) -> tuple[set[str], bool]:
    """The languages of the sentences, and whether that of the whole is certain."""
    main, certain = detect_language(letters)
    found = {main}
    for piece in merge_sentences(letters):
        code, sure = detect_language(piece)
        found |= {code} if sure >= 0.5 else set()
    unsure = certain < SURE
    return found | ({"en"} if unsure and script == "Latin" else set()), not unsure


def _without_code_lines(prompt: str) -> str:
    """The prompt without code, fenced or not, unless nothing else is there."""
    outside = split_code(prompt)[0] if has_fence(prompt) else prompt.splitlines()
    prose = "\n".join(line for line in outside if not (line.isascii() and _is_code(line)))
    return prose if weigh(prose) >= LEAST else prompt


def _is_code(line: str) -> bool:
    signs = len(_CODE.findall(line))
    return signs > 0 and 6 * signs >= len(_WORDS.findall(line))


def fits(code: str, wanted: Accepted) -> bool:
    """Is this language accepted; or its script, where no more is certain?"""
    return code in wanted.languages or (not wanted.sure and script_of(code) in map(script_of, wanted.languages))
