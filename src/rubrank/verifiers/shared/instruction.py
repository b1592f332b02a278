"""Shared by verifiers of instructions (IFEval, M-IFEval, IFBench, IF-RLVR …): registration, words, sentences, counts.

`@instruction(name)` is `@verifier` for an instruction: an answer without any text follows none, whatever is asked.
`compare_count` and `compare_range` compare a count with what was asked: "at least 3", "less than 50", "2 to 4".
`require_none`, `forbid_marks`, `check_parts` … are checks that occur in several benchmarks.
"""

from __future__ import annotations

import operator
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial, wraps
from itertools import islice, pairwise
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import re2
from pydantic import BeforeValidator, Field

from rubrank._plain import replace_surrogates, word_set
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.shared.public_tools import split_public_sentences, split_public_tokens
from rubrank.verifiers.shared.word_tables import compile_re2, read_table
from rubrank.verifiers.verifier import Answer, Compat, Verdict, missing, verifier

Lang: TypeAlias = Literal["en", "fr", "es", "ja"]
"""The language of the instruction, where it changes what is asked (quotes, titles, options)."""

# An instruction about marks (Markdown, tags, brackets, copies of the prompt, lines between paragraphs) needs the answer
# as it was written. These are the groups of such instructions, the "format" of "format:emoji", and single names.
_GROUPS_ABOUT_MARKS = word_set(
    "detectable_format detectable_content format custom copy repeat new combination paragraphs"
)
_NAMES_ABOUT_MARKS = word_set("""
    length_constraints:number_paragraphs length_constraints:number_sentences
    length_constraints:nth_paragraph_first_word startend:quotation
""")
_F = TypeVar("_F", bound=Callable[..., Any])


def instruction(
    name: str, *, family: str = "ifeval", version: int = 1, languages: Iterable[str] = ()
) -> Callable[[_F], _F]:
    """Register a function as the verifier of an instruction. An empty answer fails without calling it.

    The function gets the text as a reader sees it: a word in an HTML comment is not there. It gets the answer as it was
    written if the name says that the instruction is about marks, if the function takes the rollout, and for
    `compat="upstream"`.
    """
    groups = name.split(":")  # such as "fr", "detectable_content", "no_digits"
    is_about_marks = name in _NAMES_ABOUT_MARKS or not _GROUPS_ABOUT_MARKS.isdisjoint(groups)

    def register(function: _F) -> _F:
        @wraps(function)
        def check(subject: Text | Rollout, **params: Any) -> Answer:
            if isinstance(subject, Text):
                if not is_about_marks and params.get("compat") != "upstream":
                    subject = subject.shown
                raw = subject.raw
            else:
                raw = subject.answer
            if not raw.strip():
                return False, "the answer is empty"
            answer: Answer = function(subject, **params)
            return answer

        # `version` counts changes of the function itself. Reading the visible text instead of the raw one counts as one
        # more.
        full_version = version if is_about_marks else version + 1
        verifier(name, family=family, version=full_version, languages=languages)(check)
        # As after `@verifier`, the name in the module is the plain function; only the registered verifier is `check`.
        return function

    return register


ifbench = partial(instruction, family="ifbench")
"""`@ifbench(name)` registers the verifier of an IFBench instruction."""


# ---- words and sentences -------------------------------------------------------------------------------------------

ASCII_PUNCTUATION = string.punctuation
_NO_PUNCTUATION = str.maketrans("", "", ASCII_PUNCTUATION)


def select_sentences(text: Text, compat: Compat) -> Sequence[str]:
    """Return the sentences of the text, or those of the public splitter, for which a line break ends nothing."""
    return split_public_sentences(text.raw) if compat == "upstream" else text.sentences


def remove_punctuation(text: str) -> str:
    """Remove ASCII punctuation; what stood on both sides of a mark is joined."""
    return text.translate(_NO_PUNCTUATION)


def trim(word: str) -> str:
    """Remove ASCII punctuation and spaces from both ends."""
    return word.strip(ASCII_PUNCTUATION + " ")


def quote_some(words: Iterable[str]) -> str:
    """Quote up to five words for a reason: `“a”, “b”`."""
    quoted = [f"“{word[:60]}”" for word in islice(words, 6)]
    return ", ".join(quoted[:5]) + (" …" if len(quoted) > 5 else "")


def require_none(faults: Sequence[str], kind: str) -> tuple[bool, str]:
    """Return the verdict on an answer with these faults of a kind: it passes if there are none."""
    if faults:
        return False, f"{kind}: {quote_some(faults)}"
    return True, f"no {kind}"


# ---- counting a word -----------------------------------------------------------------------------------------------

_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\|()]")
# Letters of scripts without spaces: Thai, kana, Han.
_NO_SPACES = re.compile(
    "[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f]"
)


def count_word(text: str, word: str) -> int:
    """Count the word (or words) on its own, in any case; in scripts without spaces, wherever it stands."""
    word = word.strip()
    if not word:
        return 0
    # The usual case, several times as fast as a pattern.
    if text.isascii() and word.lower() not in text.lower():
        return 0
    return len(_compile_word(word).findall(text))


@lru_cache(maxsize=4096)
def _compile_word(word: str) -> re.Pattern[str]:
    """Compile a pattern for the word on its own: "war", not "warm"; in scripts without spaces, anywhere."""
    left = r"(?<!\w)" if word[0].isalnum() and not _NO_SPACES.match(word[0]) else ""
    right = r"(?!\w)" if word[-1].isalnum() and not _NO_SPACES.match(word[-1]) else ""
    return re.compile(left + re.escape(word) + right, re.IGNORECASE)


def count_within(text: str, word: str) -> int:
    """Count the word in any case, also inside other words."""
    word = word.strip().lower()
    return text.lower().count(word) if word else 0


@lru_cache(maxsize=4096)
def compile_as_pattern(word: str, *, bounded: bool = False) -> Any:
    """Compile the word as the public checkers do: as a pattern, not a literal.

    Most words hold no special character. The rest run under RE2, which takes linear time; what RE2 cannot read is taken
    literally.
    """
    edge = r"\b" if bounded else ""
    if _SPECIAL.search(word):
        try:
            return compile_re2(edge + word + edge, case_sensitive=False)
        except re2.error:
            pass
    return re.compile(edge + re.escape(word) + edge, re.IGNORECASE)


def count_pattern(text: str, word: str, *, bounded: bool = False) -> int:
    """Count the word as the public checkers see it: see `compile_as_pattern`."""
    pattern = compile_as_pattern(word, bounded=bounded)
    if not isinstance(pattern, re.Pattern):
        text = replace_surrogates(text)  # RE2 needs valid UTF-8
    return sum(1 for _ in pattern.finditer(text))


# ---- counts and relations --------------------------------------------------------------------------------------------

# More words, lines or letters than a response can have: such a number is a slip
_MOST_COUNT = 10_000_000
Count: TypeAlias = Annotated[int, Field(ge=0, le=_MOST_COUNT)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Relation: TypeAlias = Literal["at least", "at most", "exactly", "more than", "less than", "around"]
_TESTS: dict[Relation, Callable[[float, float], bool]] = {
    "at least": operator.ge,
    "at most": operator.le,
    "exactly": operator.eq,
    "more than": operator.gt,
    "less than": operator.lt,
    # "around 100" is 90 to 110; "around 3" is 2 to 4
    "around": lambda count, required: abs(count - required) <= max(1.0, round(0.1 * required)),
}


def holds(count: float, relation: Relation, required: float) -> bool:
    """Does the count satisfy the relation?"""
    return _TESTS[relation](count, required)


def translate_relation(word: object) -> object:
    """Return the relation in English: "au moins" and "以上" become "at least"; other values are returned unchanged."""
    for relation, translations in read_table("relations"):
        if isinstance(word, str) and word.strip().lower() in translations.split(", "):
            return relation
    return word


AnyRelation: TypeAlias = Annotated[Relation, BeforeValidator(translate_relation)]
"""A relation in any of the languages of the public data."""


def compare_count(count: int, unit: str, relation: Relation, required: float) -> tuple[bool, str]:
    """Return whether the count satisfies the relation, and the reason: `3 bullets found, at least 4 required`."""
    units = _pluralise(unit, count)
    reason = f"{count} {units} found, {relation} {required:.15g} required"
    return holds(count, relation, required), reason


def _pluralise(unit: str, count: int) -> str:
    """Write the unit as it stands after the count: 1 entry, 2 entries, 2 times 'river', 2 “a”."""
    is_only_quoted = unit[0] in "“'\""
    if count == 1 or is_only_quoted:
        return unit
    noun, quote, quoted = unit.partition(" '")
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return plural + quote + quoted


def check_count_parameters(params: Any) -> str | None:
    """Check the parameters of a verifier that counts; `params` has `relation`, `count`, `low` and `high`.

    Returns None if a response can satisfy them. Otherwise it returns what they must be, which completes the sentence
    "params must be …" of the error.
    """
    count = params.count
    low = params.low
    high = params.high
    if count is None and low is None and high is None:
        return "given: `count`, or `low` and `high`"
    if count is not None and (low is not None or high is not None):
        return "`count`, or `low` and `high`: not both"
    if low is not None and high is not None and low > high:
        return "with `low` not above `high`"
    if count == 0 and params.relation == "less than":
        return "possible: nothing is less than 0"
    return None


def compare_range(
    count: int,
    unit: str,
    relation: Relation,
    required: int | None,
    low: int | None,
    high: int | None,
) -> Verdict | tuple[bool, str]:
    """Return the verdict on a count, with its reason.

    The count is compared with `required`, which is the verifier's parameter `count`; if that is None, with `low` and
    `high`, of which one may be None. Without any of the three the verdict is missing.
    """
    if required is not None:
        return compare_count(count, unit, relation, required)
    if low is None and high is None:
        return missing("no number is asked for: give `count`, or `low` and `high`")
    if low is None:
        allowed = f"at most {high}"
    elif high is None:
        allowed = f"at least {low}"
    else:
        allowed = f"{low} to {high}"
    in_range = (low or 0) <= count and (high is None or count <= high)
    return in_range, f"{count} {_pluralise(unit, count)} found, {allowed} required"


# ---- checks that several instructions share -----------------------------------------------------------------------

# Three asterisks, which divide paragraphs; a space on either side belongs to them.
DIVIDER = re.compile(r"\s?\*\*\*\s?")


def check_parts(parts: Sequence[str], unit: str, number: int) -> tuple[bool, str]:
    """Check how many of the parts have text; empty ones may stand at the start and at the end only."""
    if not all(part.strip() for part in parts[1:-1]):
        return False, f"an empty {unit} between two dividers"
    count = sum(bool(part.strip()) for part in parts)
    return compare_count(count, unit, "exactly", number)


def forbid_marks(raw: str, marks: str, name: str) -> tuple[bool, str]:
    """Check that none of the characters occurs; `name` says what they are."""
    return compare_count(sum(map(raw.count, marks)), name, "exactly", 0)


def forbid_repeats(words: Sequence[str]) -> Answer:
    """Check that no word occurs twice."""
    repeated = [word for word, count in Counter(words).items() if count > 1]
    return require_none(repeated, "repeated word")


def check_word_at(
    text: Text, keyword: str, n: int, m: int, compat: Compat, *, case_sensitive: bool = False
) -> Answer:
    """Check that the `m`th word of the `n`th sentence is the keyword."""
    sentences = select_sentences(text, compat)
    if not 1 <= n <= len(sentences):
        return False, f"{len(sentences)} sentences found, so there is no sentence {n}"
    sentence = sentences[n - 1]
    words = split_public_tokens(sentence) if compat == "upstream" else Text(sentence).words
    if not 1 <= m <= len(words):
        return False, f"sentence {n} has {len(words)} words, so there is not a word {m}"
    word = words[m - 1]
    if case_sensitive:
        is_same = word == keyword.strip()
    else:
        is_same = word.casefold() == keyword.strip().casefold()
    return is_same, f"word {m} of sentence {n} is {word!r}, {keyword!r} required"


def is_increasing(numbers: Sequence[int]) -> bool:
    """Is each number larger than the one before?"""
    return all(number < next_number for number, next_number in pairwise(numbers))


def remove_accents(text: str) -> str:
    """Return the text without accents: "é" becomes "e"."""
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char))
