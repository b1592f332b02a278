"""IFEval: keywords, letters, capitals, the language of the answer; numbers of words, sentences and paragraphs."""

from __future__ import annotations

import re
import string
from collections.abc import Callable

from rubrank.texts.text import Text
from rubrank.texts.words import count_segmented_words
from rubrank.verifiers.shared.instruction import (
    DIVIDER,
    AnyRelation,
    Count,
    Lang,
    check_parts,
    compare_count,
    count_pattern,
    count_word,
    holds,
    instruction,
    quote_some,
    remove_punctuation,
    require_none,
)
from rubrank.verifiers.shared.language import detect_language, is_detectable, is_in_other_language
from rubrank.verifiers.shared.public_tools import (
    detect_public_language,
    has_janome,
    has_langdetect,
    split_japanese_tokens,
    split_newspaper_sentences,
    split_public_tokens,
)
from rubrank.verifiers.verifier import Answer, Compat, missing

_SURE = 0.5  # confidence from which another language fails the answer
_THREE_ASTERISKS = re.compile(r"(?<!\*)\*{3}(?!\*)")
_WORD_UPSTREAM = re.compile(r"\w+")
_LEADING_MARKS = re.compile(r"[\W_]*")  # the "**" before "**Two** men"
_JAPANESE_SENTENCE_END = re.compile("[。!?！？]+[」』）)]*|\n")


@instruction("keywords:existence", version=2)
def existence(
    text: Text, *, keywords: list[str], lang: Lang = "en", compat: Compat = "fixed"
) -> Answer:
    """Every keyword occurs, in any case.

    Passes: "The cat sat." for ["cat"].
    Fails: "The category" for ["cat"].
    Not covered: inflected forms ("cats").
    upstream: a keyword is a pattern and may stand inside a word, so "category" passes; in Japanese it must be a word of
        the public analyser (janome, where it is installed).
    """
    absent = [word for word in keywords if not _count_keyword(text, word, lang, compat)]
    return require_none(absent, "absent keyword")


@instruction("keywords:frequency", version=2)
def frequency(
    text: Text,
    *,
    keyword: str,
    frequency: Count,
    relation: AnyRelation = "at least",
    lang: Lang = "en",
    compat: Compat = "fixed",
) -> Answer:
    """The keyword occurs at least / less than … `frequency` times, in any case.

    Passes: "war and War" for "war" at least 2.
    Fails: "warm war" for at least 2.
    Not covered: inflected forms.
    upstream: a pattern that may match inside words ("warm" counts); in Japanese words of the public analyser.
    """
    count = _count_keyword(text, keyword.strip(), lang, compat)
    return compare_count(count, f"“{keyword}”", relation, frequency)


@instruction("keywords:forbidden_words", version=2)
def forbidden_words(
    text: Text, *, forbidden_words: list[str], lang: Lang = "en", compat: Compat = "fixed"
) -> Answer:
    """None of the words occurs as a word, in any case.

    Passes: "rocket" for ["rock"].
    Fails: "Rock!" for ["rock"].
    Not covered: inflected forms ("rocks").
    upstream: words are patterns; in Chinese a word inside a run of letters is not seen; in Japanese words of the public
        analyser count (without janome: the word wherever it stands).
    """
    if compat == "upstream" and lang != "ja":
        present = [word for word in forbidden_words if count_pattern(text.raw, word, bounded=True)]
    else:
        present = [word for word in forbidden_words if _count_keyword(text, word, lang, compat)]
    return require_none(present, "forbidden word")


def _count_keyword(text: Text, word: str, lang: Lang, compat: Compat) -> int:
    if compat == "fixed":
        return count_word(text.raw, word)
    if lang != "ja":
        return count_pattern(text.raw, word)
    if not has_janome():
        return text.raw.count(word)
    return sum(surface == word for surface, _ in split_japanese_tokens(text.raw))


@instruction("keywords:letter_frequency")
def letter_frequency(
    text: Text,
    *,
    letter: str,
    let_frequency: Count,
    let_relation: AnyRelation = "at least",
    lang: Lang = "en",
    compat: Compat = "fixed",
) -> Answer:
    """The letter (or any one character) occurs at least / less than … `let_frequency` times, in any case.

    In Japanese a hiragana and its katakana are the same letter.
    Passes: "Queen q" for "q" at least 2.
    Fails: "hash" for "#" at least 1.
    Not covered: letters with accents count as themselves ("é" is no "e").
    upstream: for a character that is no English letter the public checker draws a random letter; here the majority of
        the letters decides, so that the verdict is always the same.
    """
    lower = text.raw.lower()
    letter = letter.strip().lower()
    if compat == "upstream" and lang != "ja" and letter not in string.ascii_lowercase:
        right = sum(
            holds(lower.count(char), let_relation, let_frequency) for char in string.ascii_lowercase
        )
        reason = f"{right} of 26 letters are right; the public checker draws one at random"
        return right >= 13, reason
    count = lower.count(letter)
    if len(letter) == 1 and "ぁ" <= letter <= "ん":
        katakana = chr(ord(letter) + 96)
        count += lower.count(katakana)
    return compare_count(count, f"“{letter}”", let_relation, let_frequency)


@instruction("language:response_language", version=4)
def response_language(text: Text, *, language: str, compat: Compat = "fixed") -> Answer:
    """The answer is in the language of that ISO 639-1 code.

    Passes: "Guten Tag, wie geht es dir?" for "de".
    Fails: the same for "fr", and a text without letters.
    Missing: a language that cannot be told apart here; too few words that show one (names, dates).
    Not covered: answers in two languages (the larger part decides).
    upstream: langdetect with a seed, where it is installed; a text without letters passes, and "zh" never does (it says
        "zh-cn").
    """
    expected = language.lower()
    if compat == "upstream":
        # "" where the public checker finds nothing to go by, and passes.
        name = detect_public_language(text.raw)
        return not name or name == expected, f"language {name or 'not found'}, {expected} required"
    detected, confidence = detect_language(text.raw)
    if not detected:
        return False, f"no letters found, {expected} required"
    if not is_detectable(expected):
        return missing(f"{expected} is not among the languages that can be detected")
    base_code = expected.split("-")[0]
    reason = f"language {detected} ({confidence:.0%} sure), {expected} required"
    if detected == base_code:
        return True, reason
    if not is_in_other_language(text.raw, {base_code}):
        return missing(f"too few words that show a language: {reason}")
    return False, reason


@instruction("change_case:capital_word_frequency", version=2)
def capital_word_frequency(
    text: Text,
    *,
    capital_frequency: Count,
    capital_relation: AnyRelation = "at least",
    compat: Compat = "fixed",
) -> Answer:
    """Words of capitals only, at least / less than … `capital_frequency` of them.

    Passes: "VERY NICE" for at least 2.
    Fails: "I AM" for at least 2: one letter is not a word in capitals.
    Not covered: scripts without capitals (no word counts).
    upstream: Treebank words: "I" counts, "DON'T" is two.
    """
    if compat == "upstream":
        count = sum(map(str.isupper, split_public_tokens(text.raw)))
    else:
        capitals = [word for word in text.words if word.isupper()]
        count = sum(sum(map(str.isalpha, word)) > 1 for word in capitals)
    return compare_count(count, "capital word", capital_relation, capital_frequency)


@instruction("change_case:english_capital", version=3)
def english_capital(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """The answer is in English (or French, Spanish: `lang`) and has no small letter.

    Passes: "THIS IS FINE."
    Fails: "This is fine.", "DAS IST GUT SO."
    Not covered: languages without capitals.
    upstream: in English the public detector reads the capitals, which it hardly knows, and guesses.
    """
    return _check_case(text.raw, text.raw.isupper(), str.islower, lang, compat)


@instruction("change_case:english_lowercase", version=2)
def english_lowercase(text: Text, *, lang: Lang = "en", compat: Compat = "fixed") -> Answer:
    """The answer is in English (or French, Spanish: `lang`) and has no capital letter.

    Passes: "this is fine."
    Fails: "This is fine.", "das ist gut so."
    Not covered: languages without capitals.
    """
    return _check_case(text.raw, text.raw.islower(), str.isupper, lang, compat)


def _check_case(
    text: str, is_right_case: bool, is_wrong: Callable[[str], bool], lang: str, compat: Compat
) -> tuple[bool, str]:
    """Check that the text has letters, none of the wrong case, and is in the language."""
    if not is_right_case:
        wrong_letters = filter(is_wrong, text)
        return False, f"letters of the wrong case, or none at all: {quote_some(wrong_letters)}"
    if compat == "upstream" and has_langdetect():
        # The French and the Spanish checker lower the text first, the English one does not.
        name = detect_public_language(text if lang == "en" else text.lower())
        reason = f"case as required; language {name or 'not found'}, {lang} required"
        return not name or name == lang, reason
    detected, confidence = detect_language(text.lower())
    # Names and single words say too little about the language to fail an answer for it.
    is_doubtful = confidence < _SURE or (compat == "fixed" and len(text.split()) < 4)
    is_right = not detected or detected == lang or is_doubtful
    return is_right, f"case as required; language {detected or 'not found'}, {lang} required"


# ---- length ------------------------------------------------------------------------------------------------------


@instruction("length_constraints:number_words")
def number_words(
    text: Text, *, num_words: Count, relation: AnyRelation = "at least", compat: Compat = "fixed"
) -> Answer:
    """At least / less than … `num_words` words. In Chinese each character is a word.

    Passes: "don't stop now" for less than 4.
    Fails: the same for at least 4.
    Not covered: words of Chinese.
    upstream: runs of letters, digits and underscores: "don't" is two, a Chinese clause is one.
    """
    if compat == "upstream":
        count = len(_WORD_UPSTREAM.findall(text.raw))
    else:
        count = count_segmented_words(text.raw)
    return compare_count(count, "word", relation, num_words)


@instruction("length_constraints:number_sentences", version=5)
def number_sentences(
    text: Text,
    *,
    num_sentences: Count,
    relation: AnyRelation = "at least",
    lang: Lang = "en",
    compat: Compat = "fixed",
) -> Answer:
    """At least / less than … `num_sentences` sentences; a blank line ends one too.

    A title in << >>, headings, a salutation and a signature are not counted as sentences.
    Passes: "Dr. Who came. He left." for less than 3.
    Fails: the same for at least 3.
    Not covered: poems and lists without full stops (a paragraph of them is one).
    upstream: the public splitter's sentences: line breaks end nothing, "1. One" is two.
    """
    if compat == "fixed":
        count = len(Text(remove_frame(text.raw)).shown.sentences)
    elif lang == "ja":
        count = sum(bool(part.strip()) for part in _JAPANESE_SENTENCE_END.split(text.raw))
    else:
        count = len(split_newspaper_sentences(text.raw, lang))
    return compare_count(count, "sentence", relation, num_sentences)


@instruction("length_constraints:number_paragraphs", version=2)
def number_paragraphs(text: Text, *, num_paragraphs: Count, compat: Compat = "fixed") -> Answer:
    """Exactly `num_paragraphs` paragraphs, divided by `***`.

    Passes: "One.\\n***\\nTwo." for 2.
    Fails: "One.\\n\\nTwo." for 2 (no divider).
    Not covered: other dividers. `***` at one end of a line divides too, but not around words: `***bold***`.
    upstream: `***` also divides inside `***bold***`, and an empty paragraph between two dividers fails.
    """
    if compat == "fixed":
        parts = [part for part in _split_at_dividers(text.raw) if any(map(str.isalnum, part))]
        return compare_count(len(parts), "paragraph", "exactly", num_paragraphs)
    return check_parts(DIVIDER.split(text.raw), "paragraph", num_paragraphs)


def _split_at_dividers(raw: str) -> list[str]:
    """Split the text at its dividers: `***` between spaces, or the only `***` of a line at one end of it."""
    lines: list[str] = []
    for line in raw.replace("\x00", "").split("\n"):
        runs = list(_THREE_ASTERISKS.finditer(line))
        # From the last to the first, so that the positions of the others stay valid.
        for run in reversed(runs):
            before = line[: run.start()]
            after = line[run.end() :]
            has_space_before = not before or before[-1].isspace()
            has_space_after = not after or after[0].isspace()
            is_at_edge = len(runs) == 1 and (not before.strip() or not after.strip(" \t.。"))
            if (has_space_before and has_space_after) or is_at_edge:
                line = f"{before}\x00{after}"
        lines.append(line)
    return "\n".join(lines).split("\x00")


@instruction("length_constraints:nth_paragraph_first_word", version=2)
def nth_paragraph_first_word(
    text: Text,
    *,
    num_paragraphs: Count,
    nth_paragraph: Count,
    first_word: str,
    lang: Lang = "en",
    compat: Compat = "fixed",
) -> Answer:
    """Exactly `num_paragraphs` paragraphs, a blank line between; the `nth_paragraph`-th begins with `first_word`.

    Passes: "One.\\n\\n**Two** men." for 2, 2, "two".
    Fails: three paragraphs, or "Twofold" for "two".
    upstream: paragraphs are cut at every two line breaks; of the first word everything before `.,?!'"` counts; in
        Spanish as many words as are asked for, without ASCII punctuation and list markers.
    Not covered: inflected forms of the word.
    """
    if compat == "upstream":
        paragraphs = text.raw.split("\n\n")
        count = sum(bool(paragraph.strip()) for paragraph in paragraphs)
    else:
        paragraphs = list(text.paragraphs)
        count = len(paragraphs)
    if not 1 <= nth_paragraph <= count or not paragraphs[nth_paragraph - 1].strip():
        return False, f"no paragraph {nth_paragraph}"
    paragraph = paragraphs[nth_paragraph - 1].strip()
    if compat == "upstream":
        start, word = _read_start_upstream(paragraph, first_word.lower(), lang)
        is_right = start == word
    else:
        start = _LEADING_MARKS.sub("", paragraph, count=1).casefold()
        word = _LEADING_MARKS.sub("", first_word, count=1).casefold()
        next_char = start[len(word) : len(word) + 1]
        is_whole_word = lang == "ja" or not word[-1:].isalnum() or not next_char.isalnum()
        is_right = start.startswith(word) and is_whole_word
    reason = f"{count} paragraphs found, {num_paragraphs} required; "
    reason += f"paragraph {nth_paragraph} begins with “{start[:40]}”, “{word}” required"
    return count == num_paragraphs and is_right, reason


def _read_start_upstream(paragraph: str, first_word: str, lang: Lang) -> tuple[str, str]:
    """Return the start of the paragraph that the public checker compares, and what it compares it with."""
    if lang == "es":
        words = [word for word in map(remove_punctuation, paragraph.lower().split()) if word]
        expected_words = first_word.split()
        return " ".join(words[: len(expected_words)]), " ".join(expected_words)
    if lang == "ja":
        return paragraph.lstrip("「").lstrip("『")[: len(first_word)], first_word
    word = paragraph.split()[0].lstrip("'").lstrip('"').lower()
    return re.split("[.,?!'\"]", word, maxsplit=1)[0], first_word


# ---- lines that frame an answer ------------------------------------------------------------------------------------

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


def remove_frame(raw: str) -> str:
    """Remove what is no sentence: a marked title, headings, a subject line, a salutation, the signature.

    >>> remove_frame("<<Joy>>\\n\\nDear Ann,\\n\\nIt rains.\\n\\nBest regards,\\nBob")
    'It rains.'
    """
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
    remaining: list[str] = []
    for line in lines[:end]:
        is_frame = any(pattern.fullmatch(line) for pattern in (_TITLE, _LABEL, _SALUTATION))
        if _BOLD_LINE.fullmatch(line) and not _SENTENCE_END.search(line.strip().strip("*_:")):
            is_frame = True  # a heading in bold
        if not is_frame or not line.strip():
            remaining.append(line)
    return "\n".join(remaining).strip()
