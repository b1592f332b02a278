"""The languages that a prompt asks for or accepts, and those that an answer is written in.

    find_request("Translate the German notice below into French.").asked       frozenset({"fr"})
    find_request("若正确，请用英文回答；否则输出原文。").possible                    frozenset({"en"})
    find_accepted(rollout)                      Accepted(languages={"fr"}, whole=True) for "Answer in French."
    measure_languages("Il pleut. " * 5 + "It rains. " * 5)                     {"fr": 0.5, "en": 0.5}, about

A prompt asks surely ("Answer in French"), or it makes a language possible: in one branch of a condition, for a part of
the answer, after something else. Only what is asked surely, and for the whole answer, excludes the prompt's own
language.

`find_request` takes these steps: leave out code and quotations; of a long prompt, keep the beginning and the end; if a
paragraph asks for a translation, read only such paragraphs; then look at each sentence with the patterns of
data/language_requests.tsv, which has an example and a counter-example of each.

In answers, code and addresses are no language. Quotations count only if there is little else. Prose in a code fence
counts as prose, so that nothing can be hidden there.

Not covered: a language asked for in a way that is not listed in the table, or by the name of a country.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN, has_fence, remove_code, split_code
from rubrank.verifiers.shared.language import (
    MOST_CHARACTERS_WITH_NAMES,
    NAMED,
    QUOTED,
    SPACED_NAME,
    SURE,
    UNSPACED_NAME,
    count_scripts,
    detect_language,
    find_language_code,
    find_named_languages,
    get_script,
    has_foreign_letters,
    is_in_other_language,
    select_letters,
)
from rubrank.verifiers.shared.word_tables import read_table

# A prompt of more than _LONG_PROMPT characters is mostly material (an article, a source file) with an instruction
# before or after it. Only so many characters at its beginning and its end are searched for requests. Set by hand.
_LONG_PROMPT = 3_000
_ENDS_OF_LONG_PROMPT = 800
# Characters before a request in which "not" or "was" may stand ("Please do not answer in French"). Farther away, the
# word is likely to belong to something else.
_NEARBY = 12

_PROMPT_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；;])|\n+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")

# What joins the names of a list: "French, German and Czech"
_JOINT = r"\s*(?:,|and|or|&|et|und|y|/)\s*"


def _join_request_words(name: str) -> str:
    """Return a pattern for all words of a name in data/request_words.tsv."""
    return "|".join(row[2] for row in read_table("request_words") if row[0] == name)


# The parts of patterns that data/language_requests.tsv names in capitals
_PARTS = {
    # One name or several, in a group: 法语; 法语和英语
    "HAN_LANGUAGES": (
        rf"((?:{UNSPACED_NAME})(?:\s*(?:和|与|及|或|、|/)\s*(?:{UNSPACED_NAME}))*)"
        rf"(?!{_join_request_words('NOT_A_LANGUAGE')})"
    ),
    # The same with spaces: French; French and German
    "LANGUAGES": (
        rf"((?:{SPACED_NAME})(?:{_JOINT}(?:{SPACED_NAME}))*)"
        # The last name ends here ("Germanic" is none), and the list has no further name.
        rf"(?![^\W\d_一-鿿])(?!{_JOINT}(?:{SPACED_NAME})(?![^\W\d_]))"
        r"(?![-‐‑]\w)"  # not "in French-speaking Africa"
        # The end, a punctuation mark, a word that may follow, or a Chinese, Japanese or Korean character
        rf"(?=\s*(?:$|[^\w\s]|(?:{_join_request_words('AFTER_NAME')})\b|[\u3040-\u9fff\uac00-\ud7af]))"
    ),
    "MANNER": rf"(?:(?:{_join_request_words('MANNER_WORD')})\s+){{0,3}}",
    "SAME_SENTENCE": r"[^.!?\n]{0,150}?",
    "WRITE": _join_request_words("WRITE"),
    "MAKE": _join_request_words("MAKE"),
    "PRODUCT": _join_request_words("PRODUCT"),
}


def _read_patterns(kind: str) -> list[str]:
    """Return the patterns of one kind in data/language_requests.tsv."""
    patterns = []
    for row_kind, _, pattern, *_ in read_table("language_requests"):
        if row_kind == kind:
            for name, part in _PARTS.items():
                pattern = pattern.replace(name, part)
            patterns.append(pattern)
    return patterns


def _compile_one(kind: str) -> re.Pattern[str]:
    """Compile one pattern for all of a kind."""
    return re.compile("|".join(_read_patterns(kind)), re.IGNORECASE)


_TRANSLATIONS = [re.compile(pattern, re.IGNORECASE) for pattern in _read_patterns("translation")]
_REQUESTS = [re.compile(pattern, re.IGNORECASE) for pattern in _read_patterns("request")]
_ABOUT_LANGUAGE = _compile_one("about")
_DENIED = _compile_one("denied")
_REPORTED = _compile_one("reported")
_CONDITION = _compile_one("condition")
_PART = _compile_one("part")
_FURTHER_PART = _compile_one("further part")


@dataclass(frozen=True, slots=True)
class Request:
    """The languages that a prompt asks for."""

    asked: frozenset[str] = frozenset()
    """Codes of languages that it surely asks for."""
    possible: frozenset[str] = frozenset()
    """Codes of languages that it asks for under a condition, or for a part of the answer."""
    whole: bool = False
    """Is everything to be in the languages asked for, so that the prompt's own would be wrong?"""


@lru_cache(maxsize=1024)
def find_request(prompt: str) -> Request:
    """Return the languages that the prompt asks for outside quotations and code.

    If it only speaks about languages ("French grammar"), those that it names are possible.
    """
    parts = prompt[:MOST_CHARACTERS_WITH_NAMES].split('"""')
    if len(parts) > 2:
        # What stands between triple quotes is material: every second part.
        unquoted = "\n\n".join(parts[::2])
    else:
        unquoted = prompt[:MOST_CHARACTERS_WITH_NAMES]
    instructions = QUOTED.sub(" ", "\n".join(split_code(unquoted)[0]))
    if not NAMED.search(instructions.lower()) and "译" not in instructions:
        return Request()
    if len(instructions) > _LONG_PROMPT:
        instructions = (
            f"{instructions[:_ENDS_OF_LONG_PROMPT]}\n\n{instructions[-_ENDS_OF_LONG_PROMPT:]}"
        )
    paragraphs = _BLANK_LINE.split(instructions)
    # If one paragraph asks for a translation, the others are what is to be translated, and may speak of any language.
    translating = [
        paragraph
        for paragraph in paragraphs
        if any(_find_targets(paragraph, pattern) for pattern in _TRANSLATIONS)
    ]
    if not translating and _ABOUT_LANGUAGE.search(instructions):
        return Request(possible=find_named_languages(instructions))
    certain: set[str] = set()
    possible: set[str] = set()
    has_further_part = False
    for paragraph in translating or paragraphs:
        for sentence in filter(None, _PROMPT_SENTENCE_END.split(paragraph)):
            targets: set[str] = set()
            for pattern in (*_TRANSLATIONS, *_REQUESTS):
                targets |= _find_targets(sentence, pattern)
            if not targets:
                has_further_part = has_further_part or _FURTHER_PART.search(sentence) is not None
                continue
            # What stands behind a colon is to be translated, and says nothing about the language.
            before_colon = re.split("[:：]", sentence, maxsplit=1)[0]
            if _CONDITION.search(before_colon) or _PART.search(before_colon):
                possible |= targets
            else:
                # Once a sentence has tied a language to a condition, later ones are read under that condition, too.
                certain |= targets - possible
    whole = bool(certain) and not possible and not has_further_part
    return Request(frozenset(certain), frozenset(possible - certain), whole)


def _find_targets(sentence: str, pattern: re.Pattern[str]) -> set[str]:
    """Return the languages that a sentence asks for in the way of this pattern; its group 1 is the list of names."""
    targets: set[str] = set()
    for match in pattern.finditer(sentence):
        languages = match[1]
        if languages == "polish":  # the verb: the language has a capital
            continue
        request = sentence[max(0, match.start() - _NEARBY) : match.end()]
        if _DENIED.search(request) or _REPORTED.search(request):
            continue
        names = NAMED.findall(languages.lower())
        if not names:
            # 英译中 has only the first character of the name: 中 for 中文.
            names = [f"{languages}文"]
        targets |= {find_language_code(name).split("-")[0] for name in names}
    return targets


# ---- the languages of an answer --------------------------------------------------------------------------------------

_SENTENCE_END = re.compile(r"\n[ \t]*\n|(?<=[。！？])|(?<=[.!?])\s")
# Characters of Chinese, Japanese and Korean
_DENSE = re.compile(f"[{HAN}\u3040-\u30ff\uac00-\ud7af]")
# The limits from here on were adjusted by hand; docs/gates.md has the share of false alarms with them. "Letters" are
# those that `weigh` counts; "confidence" is that of `detect_language`, 0 to 1.
LEAST = 12
"""Letters from which a sentence shows its language: two or three words, or four Chinese characters."""
_CLEAR = (
    0.25  # confidence from which a sentence counts for its language: many sentences are averaged
)
_QUITE_SURE = 0.5  # confidence in a single quotation or sentence
_BLOCK_LETTERS = (
    100  # of a block of lines in `find_switch`: about 20 words, of which the statistics are sure
)
_SURE_OF_BLOCK = 0.8  # confidence
_LEAST_SWITCHED = (
    180  # letters in another language at the end that are more than a quotation: two such blocks
)
_SHORT_RULES = (
    200  # characters: a shorter system prompt only greets ("You are a helpful assistant.")
)
_MOST_CHARACTERS = 200_000  # of an answer: bounds the time; hardly any answer is a tenth as long
_MOST_QUOTATIONS = 50  # in which the languages asked for are looked for, for the same reason
# Signs of code: braces, x = 1, f(, obj.method, "import os", "key: value"
_CODE = re.compile(
    r"[{}=<>;$|]|\\(?![\"'])|\w\(|\)\.|->|::|^\s*(?:#|//|import |from |def |class |return\b|print\b|SELECT\b"
    r"|\w+:\s*\S+$)"
)
_WORDS = re.compile(r"[^\W\d_]{2,}")


def weigh(text: str) -> int:
    """Measure how much text there is to tell a language by: letters, those of Chinese, Japanese and Korean as three."""
    return sum(map(str.isalpha, text)) + 2 * len(_DENSE.findall(text))


def extract_prose(text: str) -> str:
    """Return the text without code and addresses; prose in a code fence is kept."""
    prose = remove_code(text)
    hidden: list[str] = []
    if has_fence(text):
        hidden += [code for _, code in split_code(text)[1]]
    if "`" in text:
        hidden += re.findall(r"`([^`\n]{20,1000})`", text)
    parts = [prose]
    for code in hidden:
        # Sentences rather than code: most lines have words and none of the signs of code.
        lines = [line for line in code.splitlines() if line.strip()]
        sentences = 0
        for line in lines:
            has_words = len(_WORDS.findall(line)) >= 4 or len(_DENSE.findall(line)) >= 6
            sentences += has_words and not _CODE.search(line)
        if lines and 3 * sentences >= 2 * len(lines):
            parts.append(code)
    return "\n\n".join(parts)


def measure_languages(text: str) -> dict[str, float]:
    """Return the languages of the text's sentences, by their share; code, addresses and quotations left out."""
    sizes: dict[str, float] = {}
    for piece in _split_pieces(text):
        code, sure = detect_language(piece)
        if code and sure >= _CLEAR:
            sizes[code] = sizes.get(code, 0.0) + weigh(piece)
    total = sum(sizes.values())
    return {code: size / total for code, size in sizes.items()} if total else {}


def measure_others(text: str, languages: Collection[str]) -> float:
    """Return how much of the text is surely in none of these languages."""
    total = 0
    other_size = 0
    for piece in _split_pieces(text):
        size = weigh(piece)
        total += size
        if is_in_other_language(piece, languages):
            other_size += size
    return other_size / max(1, total)


def measure_within(text: str, languages: Collection[str]) -> float:
    """Return how much of the text, including quotations, is in these languages."""
    prose = extract_prose(text[:_MOST_CHARACTERS])
    total = 0
    within = 0
    for part in (*QUOTED.findall(prose), QUOTED.sub("\n\n", prose)):
        for piece in merge_sentences(part):
            size = weigh(piece)
            total += size
            if detect_language(piece)[0] in languages:
                within += size
    return within / max(1, total)


def quotes_language(text: str, languages: Collection[str]) -> bool:
    """Is a sentence or phrase in these languages quoted, as in: the translation is "Das Wetter ist schön"?"""
    for span in QUOTED.findall(extract_prose(text[:_MOST_CHARACTERS]))[:_MOST_QUOTATIONS]:
        if weigh(span) < LEAST:
            continue
        code, sure = detect_language(span)
        if code in languages and sure >= _QUITE_SURE:
            return True
    return False


def find_switch(text: str, languages: Collection[str]) -> str:
    """Return the language that a text changes to and stays in, after a beginning in one of these languages; "" if none.

    Both parts must be long enough to be sure, so that a foreign title or quotation is no change.
    """
    # Join lines with their neighbours until each block is long enough to be sure of its language.
    blocks: list[str] = []
    block_size = _BLOCK_LETTERS
    for line in filter(str.strip, extract_prose(text[:_MOST_CHARACTERS]).splitlines()):
        if block_size >= _BLOCK_LETTERS:
            blocks.append(line)
            block_size = 0
        else:
            blocks[-1] += "\n" + line
        block_size += weigh(line)
    # Letters of each other language at the end.
    sizes: dict[str, int] = {}
    while blocks and is_in_other_language(blocks[-1], languages):
        code, sure = detect_language(blocks[-1])
        if sure < _SURE_OF_BLOCK:
            break
        sizes[code] = sizes.get(code, 0) + weigh(blocks.pop())
    if not sizes:
        return ""
    language = max(sizes, key=sizes.__getitem__)
    has_beginning = False
    for block in blocks:
        code, sure = detect_language(block)
        has_beginning = has_beginning or (code in languages and sure >= _SURE_OF_BLOCK)
    is_one_language = sizes[language] >= 0.9 * sum(sizes.values())
    is_long = sizes[language] >= max(_LEAST_SWITCHED, 0.15 * weigh(text[:_MOST_CHARACTERS]))
    return language if has_beginning and is_one_language and is_long else ""


def _split_pieces(text: str) -> list[str]:
    """Split the prose of a text into pieces, without quotations unless nearly everything is quoted."""
    prose = extract_prose(text[:_MOST_CHARACTERS])
    unquoted = QUOTED.sub(" ", prose)
    if weigh(unquoted) < max(LEAST, 0.4 * weigh(prose)):
        unquoted = prose
    return merge_sentences(unquoted)


def merge_sentences(prose: str) -> list[str]:
    """Join sentences with their neighbours until each is long enough to tell its language, about a dozen of them."""
    sentences = _SENTENCE_END.split(prose)
    least = max(60, sum(map(len, sentences)) // 12)
    pieces: list[str] = []
    size = least  # of the last piece; the first sentence begins a new one
    for sentence in filter(str.strip, sentences):
        if size >= least:
            pieces.append(sentence)
            size = 0
        else:
            pieces[-1] += " " + sentence
        size += weigh(sentence)
    if len(pieces) > 1 and size < least:
        last = pieces.pop()
        pieces[-1] += " " + last
    return pieces


# ----------------------------------------------------------------------------------------------------- what is expected


@dataclass(frozen=True, slots=True)
class Accepted:
    """In which languages an answer may be."""

    languages: frozenset[str] = frozenset()
    whole: bool = False
    """Were they asked for by name, for all of the answer?"""
    sure: bool = False
    """Is it certain which language a prompt in Latin (or Cyrillic …) letters is in? Else only its script is."""


# Letters of a script in a prompt. Fewer than _FEW are a name or a sign; from _MANY on it is more than a title in that
# script, and the statistics can tell its language.
_FEW = 4
_MANY = 40
_LEAST_LATIN_SHARE = (
    0.1  # of the letters of a prompt in another script; fewer Latin letters may be names
)
_MOST_CHARACTERS_OF_PROMPT = 50_000  # bounds the time; of a prompt that long, the rest is material
_SHARED_SCRIPTS = ("Latin", "Cyrillic", "Arabic", "Devanagari")
# Words to be used in the answer: 包含关键词"love"和"you".
_QUOTED_WORDS = re.compile("[\"“‘'「][a-z][a-z ]{2,}[\"”’'」]")
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
    """Return the languages that the prompt asks for; else every language that it is written in or mentions."""
    rules = "\n\n".join(m.content for m in rollout.prompt if m.role in ("system", "developer"))
    request = find_request(rollout.question)
    # Rules of a system prompt may forbid what the user asks for.
    may_overrule = len(rules) > _SHORT_RULES or bool(find_named_languages(rules))
    if request.whole and not may_overrule:
        return Accepted(request.asked, whole=True, sure=True)
    rules_request = find_request(rules)
    if rules_request.whole and _ALWAYS.search(rules) and not _RULES_DIFFER.search(rules):
        return Accepted(rules_request.asked, whole=True, sure=True)
    user_turns = [m.content for m in rollout.prompt if m.role == "user"]
    everything = "\n\n".join((rules, *user_turns))[:_MOST_CHARACTERS_OF_PROMPT]
    written_in, sure = find_prompt_languages(rollout.question)
    # Rules in Chinese may be answered in Chinese, whatever language the question is in.
    if len(rollout.prompt) > 1:
        written_anywhere, all_sure = find_prompt_languages(everything)
        sure = sure and (all_sure or bool(written_in))
        written_in |= written_anywhere
    if not written_in:
        return Accepted()
    languages = written_in | find_named_languages(everything) | request.asked | rules_request.asked
    prose = "\n".join(_select_prose_lines(rollout.question))
    if 2 * weigh(prose) < weigh(rollout.question):
        # It is mostly code, whose names and comments say little about the language of the answer.
        return Accepted(languages | {"en"})
    if languages == {"en"} and has_foreign_letters(_drop_code(rollout.question), 2):
        sure = False  # a short prompt that is full of English names
    return Accepted(languages, sure=sure)


def find_prompt_languages(prompt: str) -> tuple[frozenset[str], bool]:
    """Return the languages that a prompt is written in or quotes, and whether that of its letters is certain."""
    prose = _drop_code(prompt)
    counts = count_scripts(prose)
    total = sum(n * (3 if script == "Han" else 1) for script, n in counts.items())
    languages: set[str] = set()
    sure = True
    for script, n in counts.items():
        letters = select_letters(prose, script)
        if script in ("Han", "Kana"):
            code, certainty = detect_language(letters)
            if script == "Han" and certainty < SURE and n < _MANY:
                languages |= {"zh", "ja"}
            else:
                languages |= {detect_language(prose)[0], code}
            continue
        if n < _FEW:
            continue
        if script not in _SHARED_SCRIPTS:
            languages.add(detect_language(letters)[0])
            continue
        is_much = script != "Latin" or n >= _LEAST_LATIN_SHARE * total or n >= _MANY
        if not is_much and len(_QUOTED_WORDS.findall(prompt)) < 2:
            continue
        main, certainty = detect_language(letters)
        languages.add(main)
        for piece in merge_sentences(letters):
            code, confidence = detect_language(piece)
            if confidence >= _QUITE_SURE:
                languages.add(code)
        if certainty < SURE:
            sure = False
            if script == "Latin":
                languages.add("en")
    return frozenset(languages - {""}), sure


def _drop_code(prompt: str) -> str:
    """Return the prompt without code, fenced or not, unless nothing else is there."""
    prose = "\n".join(_select_prose_lines(prompt))
    return prose if weigh(prose) >= LEAST else prompt


def _select_prose_lines(prompt: str) -> list[str]:
    """Return the lines outside fences that have few signs of code."""
    lines = split_code(prompt)[0] if has_fence(prompt) else prompt.splitlines()
    prose_lines = []
    for line in lines:
        signs = len(_CODE.findall(line)) if line.isascii() else 0
        if not signs or 6 * signs < len(_WORDS.findall(line)):
            prose_lines.append(line)
    return prose_lines


def fits(code: str, accepted: Accepted) -> bool:
    """Is this language accepted; or its script, if no more is certain?"""
    if code in accepted.languages:
        return True
    return not accepted.sure and get_script(code) in map(get_script, accepted.languages)
