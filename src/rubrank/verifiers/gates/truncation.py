"""Truncated: is the answer complete? 1 = complete; 0 = cut off, and the gate stops the reward.

    Rollout(response="… and then the", finish_reason="length")      # 0: the sampler says so
    Rollout(response="… and then the")                              # 0: no sentence ends with "the"
    Rollout(response="… and we went home")                          # missing: perhaps only the full stop is

The trainer knows why sampling ended, and its adapter passes that on as `finish_reason`. A reason such as "length"
decides at once. Otherwise the text is examined in three steps, one for each of the next sections of this file:
1. A structure is open: code, HTML, a formula, JSON (`_find_open_structure`).
2. The last lines break off for sure: "and the", a comma, half a row of a table (`_find_broken_end`).
3. If the finish reason is unknown: the last sentence has no full stop (`_judge_last_sentence`). This counts only if
   the text shows that its sentences have one; verse, notes and Thai have none. Then a model of sentence ends, the last
   section, tells whether a sentence may end with such words. If in doubt, the verdict is missing.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from typing import Literal

from rubrank._plain import word_set
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN, is_heading, is_item, is_rule, split_code
from rubrank.verifiers.shared.code_blocks import (
    find_half_name,
    find_open_comment,
    find_unclosed_code,
    find_unclosed_formula,
    find_unclosed_json,
    find_unclosed_markup,
    find_unclosed_python,
    find_unclosed_sql,
    take_code,
)
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.word_tables import compile_phrases, read_table, read_words
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

# Finish reasons of samplers and APIs: those of a cut answer, and those of a complete one.
_CUT_REASONS = word_set("length max_tokens max_length token_limit max_output_tokens model_length")
_COMPLETE_REASONS = word_set(
    "stop end_turn eos eos_token stop_sequence stop_token tool_calls tool_use completed"
)

# ---- limits ----------------------------------------------------------------------------------------------------------

# All were set by hand while reading good answers and cut ones (benchmarks/broken_answers.py): so that good answers
# pass, and then that most of the others fail. docs/gates.md has the shares. Lengths are in characters.

# How much of the end of an answer is examined: characters for code and sentences, lines for the last line and its list.
_TAIL_CHARACTERS = 20_000
_TAIL_LINES = 400
_QUOTED_CHARACTERS = 20  # a shorter line may stand in the prompt by chance
_SHORT_ANSWER = (
    80  # "3." alone may be the result; at the end of a longer answer it is an entry without text
)
# A shorter last line may be a title, a name or a verse, which may end with "of" or a dash.
_LONG_LINE = 21
_LONG_WIDE_LINE = 8  # the same in Chinese and Japanese characters
_LINE_WITH_BRACKET = 25  # in a shorter line, "(a" may be a smiley or a label
_WORDS_BEFORE_COLON = (
    4  # "Date:" and "Kind regards from:" may end so; "The steps are as follows:" may not
)
_ANNOUNCEMENT = (
    60  # a shorter answer is an announcement and nothing else, which EmptyAnswer decides about
)
_LETTERS_FOR_HALF_WORD = (
    100  # a shorter answer may be an abbreviation or a word that the vocabulary lacks
)
_WORDS_OF_PARAGRAPH = 6  # a line with fewer may be a title
_WORDS_OF_SENTENCE = 10  # a last paragraph with fewer may be a title or a note
_FEWEST_WORDS = {
    True: 3,
    False: 5,
}  # of an entry of a list (True), or another line, that the model judges
_NEAREST_ENTRIES = 12  # with which the last entry of a list is compared
_SHORT_SENTENCE = 4  # words; "Good luck" and "Enjoy the trip" may do without a full stop …
_MARGIN_OF_SHORT_SENTENCE = (
    2.0  # … so the sum of the weights must be this much above the threshold of the model
)

# Signs that end a sentence, in all scripts; a semicolon ends entries of Chinese and French lists.
_FULL_STOPS = tuple(".!?…。！？؟۔।॥։።။។;；")
# Signs that may follow the full stop: closing quotes and brackets, marks of emphasis.
_CLOSERS = "*_ \t”\"'’)）」』》】]»>`"
# Signs after which something must follow.
_OPEN_SIGNS = tuple(",，、،(（[{“「『《«—–")
# A line that begins like this is a quotation or names its source.
_CITATION_SIGNS = ('"', "”", "」", "-", "—", "–")

ENTRY_MARK = re.compile(r"\A\s*(?:[-*+•]|\d{1,3}[.)、]|[(（]\d{1,3}[)）])\s*")
"""The sign or number before an entry of a list."""
_WIDE_CHARACTER = re.compile(f"[{HAN}\u3040-\u30ff]")  # Chinese and Japanese
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")  # "don't", "well-known"

# The marker of an entry with nothing behind it: "3.", "(2)", "二、", "- **". Not "- x", nor "3.5".
_MARKER_ONLY = re.compile(
    r"""[ \t]*
    (?:
        (?: \d{1,3}[.)、] | [一二三四五六七八九十]{1,3}、 | [(（]\d{1,3}[)）] )  # a number
        [ \t]* (?: \*{1,3} | _{1,2} )?                                           # opens bold
      | [-*+•] (?: [ \t]+\*\* )?                                                 # a bullet
    )
    [ \t]* $""",
    re.VERBOSE,
)
# Hashtags, addresses and formulas, which have no full stop: "#Paris", "www.x.org", "a/b", "x = 2".
_SIGNS_WITHOUT_STOP = re.compile(r"#\w{1,60}\s*$|https?://|www\.|@\w|\w/\w|[=≈≤≥<>^\\|]")
# A label of one word or two: "Keywords: …", "Key words: …". Not "In the end we saw: …".
_LABEL = re.compile(r"\s{0,9}\S{1,40}(?: \S{1,20})?\s{0,9}[:：]")
# Where a sentence ends. Not after the initials and abbreviations of "J. R. Smith" and "Dr. Smith", nor the "6." of a
# date: three letters or a closing sign must stand before the full stop.
_SENTENCE_BREAK = re.compile(
    r"""(?: (?<=[^\W\d_]{3}[.!?]) | (?<=[)\]"”’%][.!?]) ) ["”’]? \s
    | [。！？…]""",
    re.VERBOSE,
)
# The answer asks the user for something: "Please send me the text:".
_INPUT_ASKED = compile_phrases("input_asked")
# The prompt sets how the answer ends, or forbids full stops.
_END_ASKED = compile_phrases("end_asked")


@verifier("Truncated", family="gate", domain=BINARY, version=7, layer="global_quality")
def truncated(rollout: Rollout) -> Answer:
    """The answer is complete.

    Passes: an answer that ends; the last line may also be hashtags, keywords, a formula, a name or a verse.
    Fails: the sampler stopped it ("length"); thoughts, a code fence, code, HTML, a formula, JSON or bold that
        never closes; an end in mid-sentence — a comma, an open bracket, "and the", "因为", a colon or a heading
        with nothing after it, half a word, no full stop where every other paragraph has one; half a row of a
        table; the number of an entry and nothing after it; a list with fewer entries than were asked for, and
        no full stop.
    Missing: it is not known why sampling ended, and the last sentence has no full stop where most have.
    Not covered: an ending that is missing but leaves a whole sentence.
    """
    finish_reason = (rollout.finish_reason or "").lower()
    if finish_reason in _CUT_REASONS:
        return False, f"sampling ended by {finish_reason!r}"
    if rollout.tool_calls and not rollout.answer.strip():
        return True, "a tool is called"
    if rollout.thoughts and not rollout.answer.strip():
        return False, "it ends within its thoughts"
    defect = _find_open_structure(rollout.answer) or _find_broken_end(rollout)
    if defect:
        return False, defect
    if finish_reason in _COMPLETE_REASONS:
        return True, "it ends"
    return _judge_last_sentence(rollout)


# ---- structures -----------------------------------------------------------------------------------------------------


def _find_open_structure(answer: str) -> str | None:
    """Return which code, JSON, markup or formula the answer opens and never closes; None if there is none."""
    outside, blocks, is_fence_open = split_code(answer)
    if is_fence_open:
        tag, code = blocks[-1]
        # If an open block of prose ends with a sentence, a fence was nested, or only the closing fence is missing.
        is_prose = tag in ("", "markdown", "text", "plaintext")
        if code.strip() and not (is_prose and code.rstrip().endswith(_FULL_STOPS)):
            return "a code fence never closes"
    text = answer.strip()
    open_json = find_unclosed_json(text)
    if open_json:
        return open_json
    # What ends with a fence, closed or open, has no open structure outside of it.
    if is_fence_open or text.endswith(("```", "~~~")):
        return None
    unfenced = "\n".join(outside)
    defect = find_unclosed_markup(text) or find_unclosed_formula(unfenced)
    if defect:
        return defect

    # Code without a fence. It may follow a line or two of prose.
    tail = unfenced[-_TAIL_CHARACTERS:]
    defect = find_unclosed_sql(unfenced) or find_open_comment(tail)
    if defect:
        return defect
    code = take_code(tail)
    if not code or unfenced.lstrip().startswith(("{", "[")):
        return None  # prose, or JSON
    return find_unclosed_code(code) or find_unclosed_python(code) or find_half_name(code)


# ---- the last line --------------------------------------------------------------------------------------------------


def _find_broken_end(rollout: Rollout) -> str | None:
    """Return a sure sign in the last lines that the rest is missing; None if there is none."""
    answer = rollout.answer
    if answer.rstrip().endswith(("```", "~~~")):
        return None
    lines = [line for line in split_code(answer)[0][-_TAIL_LINES:] if line.strip()]
    if not lines:
        return None
    last = lines[-1]
    if len(last) > _QUOTED_CHARACTERS and _is_in_prompt(last.strip(), rollout):
        return None  # the prompt asks for this end

    # A table: the last row has fewer bars than the two before it ("\|" is a bar inside a cell).
    rows = [line.strip() for line in lines[-3:]]
    if len(rows) == 3 and all(row.startswith("|") for row in rows):
        bars = [row.replace("\\|", "").count("|") for row in rows]
        if rows[-2].endswith("|") and bars[-1] < min(bars[:-1]):
            return "the last row of a table is not whole"
    if is_rule(last):
        return None  # "---" and "* * *" look like bullets
    # A list
    if (
        len(lines) > 1
        and _MARKER_ONLY.match(last)
        and (is_item(lines[-2]) or len(answer) > _SHORT_ANSWER)
    ):
        return f"an entry without text: {last.strip()!r}"
    if last.lstrip().startswith("|"):
        return None  # a whole row
    if is_heading(last):
        return None
    # A line of prose, or an entry.
    defect = _find_broken_line(last, detect_language(answer)[0]) or _find_open_colon(lines)
    if defect:
        return defect
    # An entry without a full stop, where the entries before it have one.
    if is_item(last) and last.rstrip()[-1].isalpha():
        neighbours = list(itertools.takewhile(is_item, reversed(lines[:-1])))
        if len(neighbours) >= 2 and all(map(_has_stop, neighbours)):
            return f"the last entry breaks off: {last.rstrip()[-30:]!r}"
    return None


def _find_broken_line(last: str, language: str) -> str | None:
    """Return how the last line breaks off: bold or a bracket never closes, or it ends in mid-sentence; else None."""
    end = last.strip().rstrip("*_ ")
    if not end:
        return None
    in_list = is_item(last)
    if last.count("**") % 2 and in_list and not last.rstrip(" \t\"'”’」").endswith("**"):
        return f"bold never closes: {end[-30:]!r}"
    is_long = len(end) >= _LONG_LINE or len(_WIDE_CHARACTER.findall(end)) >= _LONG_WIDE_LINE
    is_prose = not _SIGNS_WITHOUT_STOP.search(end[-60:]) and not _LABEL.match(end)
    if is_long and is_prose:
        # A comma, an open bracket, or a word that needs another one after it: "and", "of the".
        open_words = read_words("open_words").get(language, ())
        if language in ("zh", "ja", "ko"):
            needs_more = end.endswith(open_words)
        else:
            last_words = end[-40:].lower().split()[-2:]
            needs_more = last_words[-1] in open_words or "_".join(last_words) in open_words
        if needs_more or end.endswith(_OPEN_SIGNS) or re.search(r"\s-$", end):
            return f"it ends in mid-sentence: {end[-30:]!r}"
    last_bracket = max(end.rfind("("), end.rfind("（"))
    if last_bracket >= 0 and len(end) > _LINE_WITH_BRACKET:
        bracketed = end[last_bracket:]
        is_open = not re.search("[)）]", bracketed)
        if is_open and len(bracketed) > 3 and bracketed[-1].isalnum():
            return f"a bracket never closes: {bracketed[-30:]!r}"
    return None


def _find_open_colon(lines: list[str]) -> str | None:
    """Return a defect if the last line ends with a colon and nothing follows; else None.

    Labels ("Date:") and requests for input may end so.
    """
    end = lines[-1].strip().rstrip("*_ ")
    if not end.endswith((":", "：")):
        return None
    words = _count_words(end)
    is_entry = is_item(lines[-1]) and words >= 2 and sum(map(is_item, lines)) > 2
    if words < _WORDS_BEFORE_COLON and not is_entry:
        return None
    last_sentence = re.split(r"(?<=[.!?])\s|[。！？]", end)[-1]
    if _INPUT_ASKED.search(last_sentence):
        return None
    if sum(map(len, lines)) < _ANNOUNCEMENT:
        return None
    return f"nothing follows the colon: {end[-40:]!r}"


# ---- the last sentence ----------------------------------------------------------------------------------------------


def _judge_last_sentence(rollout: Rollout) -> Answer:
    """Return the verdict on an answer whose finish reason is unknown and whose end shows no sure sign of a cut.

    It ends if the last line is no prose, or if its last sentence has a full stop or needs none.
    """
    answer = rollout.answer[-_TAIL_CHARACTERS:]
    lines = [line.strip() for line in split_code(answer)[0] if line.strip()]
    ends_in_code = answer.rstrip().endswith(("```", "~~~"))
    if not lines or ends_in_code or not _is_text_line(lines[-1]):
        return True, "it ends"
    last_line = lines[-1]
    text = ENTRY_MARK.sub("", last_line).replace("*", "")
    sentence = _SENTENCE_BREAK.split(text)[-1].strip()
    is_marked = last_line.endswith(("*", "_")) or sentence.startswith(_CITATION_SIGNS)
    ends_with_letter = sentence[-1:].isalpha()
    if not ends_with_letter or is_marked or _SIGNS_WITHOUT_STOP.search(sentence[-200:]):
        return True, "it ends"
    if _is_in_prompt(sentence, rollout) or _is_in_prompt(text, rollout):
        return True, "it ends with words of the prompt"
    # Another sentence stands before it in the last line, and one more elsewhere, so that this is prose with full stops.
    has_sentence_before = (
        len(text) > len(sentence) + 3 and len(_SENTENCE_BREAK.findall(answer)) >= 2
    )
    return _judge_without_stop(rollout, lines, sentence, has_sentence_before)


def _judge_without_stop(
    rollout: Rollout, lines: list[str], sentence: str, has_sentence_before: bool
) -> Answer:
    """Return the verdict on an answer whose last sentence has no full stop.

    It fails if it ends with half a word, if the other entries of its list have full stops, or if the model of sentence
    ends (`_is_cut`) says that no sentence or line ends like this. It passes if it may be a title, a name or a note.
    Otherwise the verdict is missing.

    lines: the lines of prose at the end of the answer. has_sentence_before: another sentence is in the last line, so
    that a full stop was to be expected.
    """
    answer = rollout.answer[-_TAIL_CHARACTERS:]
    language = detect_language(answer)[0]
    words = _count_words(sentence)
    last_word = _WORD.findall(sentence)[-1]
    if len(answer) > _LETTERS_FOR_HALF_WORD and _is_half_word(last_word, language):
        return False, f"half a word at the end: {last_word!r}"

    defect = f"no full stop at the end: {sentence[-40:]!r}"
    complete = (True, "it ends")
    undecided = missing(f"{defect}, and it is not known why sampling ended: pass finish_reason")
    is_suspicious = has_sentence_before and words >= 3
    prompt = "\n".join(message.content for message in rollout.prompt)
    if _END_ASKED.search(prompt):
        return undecided if is_suspicious else complete

    # Lines like the last one: the other entries of its list, or the other paragraphs of six words or more.
    in_list = is_item(lines[-1])
    if in_list:
        peers = [line for line in lines[:-1] if is_item(line)][-_NEAREST_ENTRIES:]
    else:
        texts = [line for line in lines[:-1] if _is_text_line(line) and not is_item(line)]
        peers = [
            line
            for line in texts
            if not line.endswith((":", "：")) and _count_words(line) >= _WORDS_OF_PARAGRAPH
        ]
    with_stop = sum(map(_has_stop, peers))
    most_have_stops = len(peers) >= 2 and 4 * with_stop >= 3 * len(peers)
    ends_with_name = last_word[0].isupper()
    if in_list and most_have_stops:
        return False, f"{defect}, and the other entries have one"
    if in_list and has_sentence_before and not ends_with_name:
        return False, f"{defect}, and the sentence before it in this entry has one"

    # The last line is a paragraph, not a title, if the lines like it have full stops and it has enough words for a
    # sentence. Without any such lines, a full stop anywhere in the answer is enough.
    all_have_stops = with_stop == len(peers) and _SENTENCE_BREAK.search(answer) is not None
    is_plain = not ends_with_name and not _LABEL.match(sentence)
    is_paragraph = (most_have_stops or all_have_stops) and words >= _WORDS_OF_SENTENCE and is_plain

    # The model judges sentences of a paragraph, and lines of texts whose lines have no full stops, such as verse.
    kind: Kind
    margin = 0.0  # above the threshold of the model
    if has_sentence_before or is_paragraph:
        kind = "sentence"
        if words < _SHORT_SENTENCE:
            margin = _MARGIN_OF_SHORT_SENTENCE
    else:
        is_short = words < _FEWEST_WORDS[in_list] or len(lines) < 3
        if most_have_stops or ends_with_name or is_short:
            return complete  # a signature, a title, a name, a note
        kind = "line"
    if _is_cut(sentence, language, kind, margin):
        return False, f"{defect}, and no {kind} ends like this"
    return undecided if is_suspicious or is_paragraph else complete


def _has_stop(line: str) -> bool:
    """Does the line end with a full stop or another sign that ends a sentence, perhaps before a closing quote?"""
    return line.rstrip(_CLOSERS).endswith(_FULL_STOPS)


def _is_text_line(line: str) -> bool:
    """Is it neither a heading, nor a rule, nor a row of a table?"""
    return not (is_heading(line) or is_rule(line) or line.startswith("|"))


def _is_in_prompt(words: str, rollout: Rollout) -> bool:
    """Do the words stand in a message of the prompt, in upper or lower case?"""
    return any(words.lower() in message.content.lower() for message in rollout.prompt)


def _count_words(line: str) -> int:
    """Count words; two Chinese or Japanese characters count as one."""
    wide = len(_WIDE_CHARACTER.findall(line))
    if not wide:
        return len(_WORD.findall(line))
    return len(_WORD.findall(_WIDE_CHARACTER.sub(" ", line))) + wide // 2


# ---- the model of sentence ends --------------------------------------------------------------------------------------
# "… where it goes through the" was cut; "… and we went home" only lacks its full stop.
#
# A linear model adds up weights of what stands at the end (the last words, the last letters, whether the last word is
# half a word) and of the shape of the passage (its length, the length of its last clause, its first word). Two kinds of
# passages have separate thresholds: sentences of a paragraph, and lines that have no full stops anyway, such as
# entries of a list and verses.
#
# The weights are in data/sentence_ends.tsv, the vocabulary in data/known_words.tsv. benchmarks/sentence_ends.py learns
# both from passages that end, and from the same passages cut somewhere. Languages without weights are left to
# data/open_words.tsv.

Kind = Literal["sentence", "line"]

# What ends a clause. Spaces have become "_" before it is used.
_CLAUSE_END = re.compile("[,;—–，、；:：]_?")
_WORD_OF_VOCABULARY = re.compile(
    r"[^\W\d_]+(?:['’][^\W\d_]+)*"
)  # "don't"; "well-known" is two words
_PASSAGE_CHARACTERS = 1000  # looked at, at the end of a passage


def _is_cut(passage: str, language: str, kind: Kind, margin: float = 0.0) -> bool | None:
    """Was the passage cut off at its end? None if the language has no weights.

    margin: how far the sum of the weights must be above the threshold; more than 0 for fewer false alarms.
    """
    weights = _read_weights(language)
    if not weights:
        return None
    total = sum(weights.get(feature, 0.0) for feature in list_features(passage, language, kind))
    return total > weights[f"threshold_{kind}"] + margin


def _is_half_word(word: str, language: str) -> bool:
    """Is it no word of the vocabulary, but the beginning of one?"""
    if word[0].isupper():
        # It may be a name: it must be long, and a good deal shorter than the word that begins with it.
        if len(word) < 6:
            return False
        longer = _find_longer_word(word.lower(), language)
        return word.lower() not in read_vocabulary(language)[0] and len(longer) > len(word) + 1
    return _classify_word(word, language) == "half"


def list_features(passage: str, language: str, kind: Kind) -> Iterator[str]:
    """Yield the features of a passage, which are the keys of the weights.

    "-ing"         its last letters; "_" stands for a space
    "of_the"       its last words; "of_*" and "out_*_*": a word before the last one or two
    "#clause4"     a property: here, four words since the last comma. Lengths are capped, and long ones put in classes
                   of two or more, so that there are few features to learn.
    """
    text = "_".join(passage.lower().split())[-_PASSAGE_CHARACTERS:]
    clause = _CLAUSE_END.split(text)[-1]
    yield f"#{kind}"
    if language == "zh":  # no spaces: characters are counted instead of words
        yield f"#{kind}_characters{min(len(text) // 4, 12)}"
        yield f"#clause{min(len(clause), 14)}"
        yield f"#from_{clause[:1]}{min(len(clause) // 3, 3)}"
        yield f"#from_{clause[:2]}{min(len(clause) // 3, 3)}"
        for size in (1, 2, 3, 4):
            yield "-" + text[-size:]
        return
    words = text.split("_")
    clause_words = clause.split("_")
    yield f"#{kind}_words{min(len(words) // 2, 12)}"
    yield f"#clause{min(len(clause_words), 8)}"
    yield f"#letters{min(len(words[-1]), 10)}"
    yield f"#first_{words[0]}{',' if ',' in text else ''}"
    yield f"#from_{clause_words[0]}{min(len(clause_words), 4)}"
    last_word = _WORD_OF_VOCABULARY.findall(passage)[-1:]
    if last_word:
        yield f"#{_classify_word(last_word[0], language)}"
    for size in range(1, 8):
        yield "-" + text[-size:]
    for size in (1, 2, 3):
        yield "_".join(words[-size:])
    if len(words) > 1:
        yield f"{words[-2]}_*"
        yield f"-{words[-2][-3:]}_-{words[-1][-3:]}"
    if len(words) > 2:
        yield f"{words[-3]}_*_*"


def _classify_word(word: str, language: str) -> str:
    """Return "capital", "known", "half" or "unknown". "Half": words of the vocabulary begin with it, like "althou"."""
    if word[0].isupper():
        return "capital"
    if word in read_vocabulary(language)[0]:
        return "known"
    return "half" if _find_longer_word(word, language) else "unknown"


def _find_longer_word(beginning: str, language: str) -> str:
    """Return the first word of the vocabulary that begins like this; "" if there is none."""
    ordered = read_vocabulary(language)[1]
    place = bisect_left(ordered, beginning)
    if place < len(ordered) and ordered[place].startswith(beginning):
        return ordered[place]
    return ""


@cache
def read_vocabulary(language: str) -> tuple[frozenset[str], list[str]]:
    """Return the known words of a language, as a set and in alphabetical order."""
    words = read_words("known_words").get(language, ())
    return frozenset(words), sorted(words)


@cache
def _read_weights(language: str) -> dict[str, float]:
    """Return the weight of each feature, and the thresholds under "threshold_sentence" and "threshold_line"."""
    return {
        feature: float(weight)
        for code, feature, weight in read_table("sentence_ends")
        if code == language
    }
