"""EmptyAnswer: is there an answer at all (1 = fine, 0 = the reward is stopped)?

Only what a reader sees counts. It must have a letter, a digit or a sign that was asked for, and be more than a frame
(`\\boxed{}`), a placeholder ("[Your answer here]"), an announcement ("Here is the list:"), courtesies ("Of course!
Happy to help.") or a word for nothing ("undefined"). The words are in data/filler_words.tsv and data/null_words.tsv,
what prompts ask for is read by the phrases of data/gate_phrases.tsv.
"""

from __future__ import annotations

import re
import unicodedata

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import is_heading
from rubrank.texts.visible import visible
from rubrank.verifiers.shared.word_tables import compile_phrases, read_words
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

# Unicode categories: separators, control characters, marks, punctuation.
_CATEGORIES_WITHOUT_CONTENT = frozenset("ZCMP")
_MARKUP = re.compile(r"```\w*|[#*_~`|>=-]")
# The frames of an answer; those of LaTeX only if they are empty.
_FRAME = re.compile(
    r"""
    \\(?:boxed|fbox|text|mathrm)\s*\{\s*\}                      # \boxed{}, not \boxed{4}
    | </?(?:answer|solution|final|response|output|result)\s*/?>   # <answer>, </answer>
    | \$+                                                         # the dollars of $ $
    | \{\{\s*\w{1,30}\s*\}\}                                     # {{response}}
    """,
    re.VERBOSE,
)
# A label before an answer: "The final answer is:", 答案如下：.
_LABEL = compile_phrases("answer_label")
# Signs for "nothing", which are an answer if data were asked for: [], {}, set(), ∅.
_NOTHING_FOUND = re.compile(
    r"\[\s*\]|\{\s*\}|\(\s*\)|set\(\)|''|\"\"|“”|‘’|[?？!！]{1,3}|∅|n/a|null", re.IGNORECASE
)
# The prompt is about signs, so that a sign alone may be the answer: "Which operator adds two numbers?"
_ABOUT_SIGNS = compile_phrases("about_signs")
# The whole answer in brackets: [Your answer here], 【答案】.
_BRACKETED = re.compile(r"[\[<{(（【「]{1,2}\s*(.{1,80}?)\s*[\]>})）】」]{1,2}[.。]?", re.DOTALL)
# Placeholders speak of what is to be filled in, by whom or where.
_TO_FILL_IN = compile_phrases("to_fill_in")
# The prompt asks for a template, in which placeholders are right.
_TEMPLATES = compile_phrases("template_asked")
# The prompt asks for a title or an outline, so that a heading alone may be the answer.
_TITLE_ASKED = compile_phrases("title_asked")
# The prompt asks for a text: an announcement or a heading alone does not answer it.
_TEXT_ASKED = compile_phrases("text_asked")
# The prompt may ask for data or code, where "None", [] or null can be right.
_DATA_ASKED = compile_phrases("data_asked")
# Questions that no single word for nothing answers, unless they are about data.
_OPEN_QUESTION = compile_phrases("open_question")
# "What is DNA?": null is no answer to it.
_DEFINITION_ASKED = compile_phrases("definition_asked")
# The prompt is about code or mathematics, where a value may be undefined.
_UNDEFINED_VALUE = compile_phrases("undefined_value")
_VALUES_OF_CODE = ("null", "nil", "nan", "void")
# A picture in Markdown, which is something to see.
_PICTURE = re.compile(r"!\[[^\[\]\n]{0,500}\]\(https?://[^)\s]{1,2000}\)")
# Two or more markers of list entries with nothing behind them.
_MARKERS_ALONE = re.compile(r"(?:\s*+(?:\d{1,3}[.)、]|[-*•])[ \t]*+(?=\n|\Z)){2,}\s*")
# Words that a heading may have without saying anything about the subject: "Part 1: Introduction".
_GENERIC = compile_phrases("generic_heading")
# A character of a script that puts no spaces between words: Kana, Han, Hangul, Thai.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
# Words that say nothing ("sure", "thanks"); and a pattern for those of scripts without spaces, the longest first.
_FILLER_WORDS = {word for words in read_words("filler_words").values() for word in words}
_UNSPACED_FILLER = re.compile(
    "|".join(sorted(filter(_UNSPACED.search, _FILLER_WORDS), key=len, reverse=True))
)

# Lengths, all set by hand; docs/gates.md has the share of good answers that they stop. In characters unless said.
_LONG_CHARACTERS = 1_000  # a longer answer is more than a frame, placeholder or announcement
_LONGEST_LABEL = 60  # a longer text behind a label ("Answer:") has content anyway
_LONGEST_PLACEHOLDER = 100  # "[Insert the name of your company and the date of the meeting here]"
_WORDS_OF_PLACEHOLDER = (
    8  # with more words it must stand in brackets, or it may be a sentence of an answer
)
_LONGEST_ANNOUNCEMENT = (
    300  # "Sure! Here is a detailed explanation of how photosynthesis works in plants:"
)
_LONGEST_FILLER = 250  # courtesies are shorter: "Of course! I'd be happy to help you with that. …"
_FEW_WORDS = 25  # the same in words
_LONG_QUESTION = 60  # "Hi!" may be answered by a courtesy, a question of this length may not


@verifier("EmptyAnswer", family="gate", domain=BINARY, version=6, layer="global_quality")
def empty_answer(rollout: Rollout) -> Answer:
    """There is an answer.

    Passes: "4", "👍", "+", `[]` or `{}` where data may be asked for, a tool call without text.
    Fails: nothing, spaces, invisible characters, HTML comments and empty elements, Markdown signs without content, only
        punctuation ("…"), thoughts without an answer, an empty frame (`\\boxed{}`, "Answer:"), a placeholder ("[Your
        answer here]"), a word for nothing ("undefined", "[no response]", "null" for "What is DNA?"), courtesies alone
        ("Of course! I'd be happy to help."), an announcement and nothing after it ("Sure! Here is an explanation:"), a
        heading alone that only names the subject.
    Missing: courtesies or "None" where the prompt may have asked for no more.
    Not covered: an answer that says nothing in other ways.
    """
    if rollout.tool_calls:
        return True, "a tool is called"
    answer = rollout.answer
    if len(answer) > _LONG_CHARACTERS and _has_content(answer):
        return True, "there is an answer"
    visible_text = visible(answer)
    question = rollout.question
    if _has_content(visible_text):
        visible_text = visible_text.strip()
        defect = _find_defect(visible_text, question)
        if defect:
            return False, defect
        return _judge_words(visible_text, question)

    # No letters or digits. Empty data ("[]"), a sign that the prompt asks for and a picture are still answers.
    # The marks of a code block ("```json") are no signs.
    signs = re.sub(r"```\w*", "", visible_text).strip("`*_ \t\r\n")
    if signs and _ABOUT_SIGNS.search(question):
        return True, "a sign was asked for"
    if _NOTHING_FOUND.fullmatch(signs):
        asks_for_words = _TEXT_ASKED.search(question) or _OPEN_QUESTION.search(question)
        if asks_for_words and not _DATA_ASKED.search(question):
            return False, f"{signs} where words are asked for"
        return True, f"{signs} says that there is nothing"
    if _PICTURE.search(answer):
        return True, "a picture"
    if rollout.thoughts.strip():
        return False, "thoughts, but no answer"
    return False, "the answer is empty"


def _has_content(answer: str) -> bool:
    """Is there a letter, a digit or a symbol that is not Markdown?"""
    # The beginning is enough for nearly every answer. If it is all Markdown, the rest decides.
    text = _MARKUP.sub("", answer[:100_000]) or answer[100_000:]
    return any(unicodedata.category(char)[0] not in _CATEGORIES_WITHOUT_CONTENT for char in text)


def _find_defect(visible_text: str, question: str) -> str | None:
    """Return what stands in place of an answer: a frame, a placeholder, an announcement or a heading; else None."""
    if _MARKERS_ALONE.fullmatch(visible_text):
        return "a list without entries"

    # A frame, or a label such as "Answer:", without content.
    inside = _FRAME.sub(" ", visible_text)
    if len(inside) < _LONGEST_LABEL:
        inside = _LABEL.sub("", inside.strip(" \t\r\n*_#`.>-"), count=1)
    has_content = any(unicodedata.category(char)[0] in "LNS" for char in inside)
    if not has_content and not _NOTHING_FOUND.fullmatch(inside.strip()):
        return "a frame with nothing in it"

    # A placeholder says what is to be filled in: "[Your answer here]".
    text = visible_text.strip("*_`# \n")
    if (
        len(text) <= _LONGEST_PLACEHOLDER
        and _TO_FILL_IN.search(text)
        and not _TEMPLATES.search(question)
    ):
        is_short = len(text.split()) <= _WORDS_OF_PLACEHOLDER or text.lower().startswith(
            "lorem ipsum"
        )
        if is_short or _BRACKETED.fullmatch(text):
            return f"a placeholder: {text!r}"

    # An announcement is one line that ends with a colon.
    asks_for_text = _TEXT_ASKED.search(question) is not None
    line = visible_text.strip("*_` \n")
    is_announcement = (
        len(line) < _LONGEST_ANNOUNCEMENT and "\n" not in line and line.endswith((":", "："))
    )
    is_long = len(line.split()) >= 3 or len(_UNSPACED.findall(line)) >= 5
    if is_announcement and (asks_for_text or is_long):
        return f"announced and not given: {line[-60:]!r}"

    # Headings alone, unless they answer the question ("# Paris").
    lines = [line for line in visible_text.splitlines() if line.strip()]
    if not all(map(is_heading, lines)) or _TITLE_ASKED.search(question):
        return None
    headings = " ".join(lines)
    specific = _GENERIC.sub(" ", headings).lower()
    words = set(re.findall(r"[^\W\d_]{3,}|[\u4e00-\u9fff]", specific))
    # The first letters are enough, so that "democratic" is no new word beside "democracy" in the question.
    adds_words = any(word[:5] not in question.lower() for word in words)
    is_answer = adds_words and not asks_for_text
    is_number = not words and re.search(r"\d", headings)
    if question and (is_answer or is_number):
        return None
    return "a heading alone"


# ---- words that say nothing -----------------------------------------------------------------------------------------


def _judge_words(visible_text: str, question: str) -> Answer:
    """Return the verdict on an answer with letters: it fails if its words say nothing and the prompt asks for more."""
    text = visible_text.strip(" \t\n*_`#.。!！…[]()（）【】<>{}\"'“”").lower().replace("’", "'")
    if len(text) > _LONGEST_FILLER or not text:
        return True, "there is an answer"
    label = _LABEL.match(text)
    value = text[label.end() :] if label else text
    # The table writes "no response" as "no_response".
    name = "_".join(value.removeprefix("error:").split())
    if name == "undefined" and _UNDEFINED_VALUE.search(question):
        return True, "a value that may be undefined"
    null_words = read_words("null_words")
    # "undefined undefined" is one word, too.
    words = set(name.split("_"))
    repeats_null_word = len(words) == 1 and words <= set(null_words["sure"])
    says_nothing = name in null_words["sure"] or repeats_null_word
    is_in_question = text in question.lower()
    if says_nothing and not is_in_question:
        return False, f"a word for nothing: {text!r}"
    is_null = name in null_words["data"]
    if not is_null and not _is_filler(text):
        return True, "there is an answer"
    if is_in_question:
        return True, "it was asked for"

    # Does the prompt ask for more than this?
    is_open = _OPEN_QUESTION.search(question) is not None
    if not is_null:  # courtesies
        asks_for_more = is_open or len(question) > _LONG_QUESTION
    elif name in _VALUES_OF_CODE and not _DATA_ASKED.search(question):
        asks_for_more = is_open  # null answers questions about data only
    else:
        # "none" may answer "What are the side effects?", but not "What is DNA?".
        asks_for_more = is_open and _DEFINITION_ASKED.match(question) is not None
    if asks_for_more or _TEXT_ASKED.search(question):
        return False, f"it says nothing: {text[:60]!r}"
    return missing(f"{text[:60]!r} may be what was asked for")


def _is_filler(text: str) -> bool:
    """Does every word say nothing? Digits, the letter of an option and pictures say something."""
    spaced_text = _UNSPACED_FILLER.sub(" ", text) if _UNSPACED.search(text) else text
    words = re.findall(r"[^\W_]+(?:['’][^\W_]+)*", spaced_text)
    has_words = len(text) > 1 and any(map(str.isalpha, text))
    if not has_words or len(words) > _FEW_WORDS or any(map(str.isdigit, text)):
        return False
    # "the answer is (a)"
    names_option = bool(words) and len(words[-1]) == 1
    return not names_option and all(word in _FILLER_WORDS for word in words)
