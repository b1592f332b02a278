"""Shared by the verifiers of instructions (IFEval, M-IFEval, IFBench, IF-RLVR): registration, words, sentences.

`@instruction(name)` is `@verifier` for an instruction: an answer without any text follows none, whatever is asked.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial, wraps
from itertools import islice
from typing import Any, Literal, TypeAlias, TypeVar

import re2

from rubrank._plain import replace_surrogates
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.shared.patterns import compile_re2
from rubrank.verifiers.shared.public_tools import split_public_sentences
from rubrank.verifiers.verifier import Answer, Compat, verifier

Lang: TypeAlias = Literal["en", "fr", "es", "ja"]
"""The language of the instruction, where it changes what is asked (quotes, titles, options)."""

# Instructions about the signs themselves: Markdown, tags, brackets, copies of the prompt.
_ABOUT_SIGNS = re.compile(
    r"(?:^|:)(?:detectable_format|detectable_content|format|custom|copy|repeat|new|combination|paragraphs)(?:$|:)"
    r"|number_paragraphs|number_sentences|nth_paragraph|startend:quotation"
)
_F = TypeVar("_F", bound=Callable[..., Any])


def instruction(
    name: str, *, family: str = "ifeval", version: int = 1, languages: Iterable[str] = ()
) -> Callable[[_F], _F]:
    """Register a function as the verifier of an instruction. An empty answer fails without calling it.

    The function gets the text as a reader sees it: a word in an HTML comment is not there. It gets the answer as it was
    written if the instruction is about signs, if the function takes the rollout, and for `compat="upstream"`.
    """
    reads_signs = _ABOUT_SIGNS.search(name) is not None

    def register(function: _F) -> _F:
        @wraps(function)
        def check(subject: Text | Rollout, **params: Any) -> Answer:
            if isinstance(subject, Text):
                if not reads_signs and params.get("compat") != "upstream":
                    subject = subject.shown
                raw = subject.raw
            else:
                raw = subject.answer
            if not raw.strip():
                return False, "the answer is empty"
            answer: Answer = function(subject, **params)
            return answer

        # Reading the text as a reader sees it came later, and raised the version of all instructions that do.
        full_version = version if reads_signs else version + 1
        verifier(name, family=family, version=full_version, languages=languages)(check)
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


def forbid(faults: Sequence[str], kind: str) -> tuple[bool, str]:
    """Return the verdict on an answer that has these faults of a kind: it passes if there are none."""
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
    return len(_match_word(word).findall(text))


@lru_cache(maxsize=4096)
def _match_word(word: str) -> re.Pattern[str]:
    left = r"(?<!\w)" if word[0].isalnum() and not _NO_SPACES.match(word[0]) else ""
    right = r"(?!\w)" if word[-1].isalnum() and not _NO_SPACES.match(word[-1]) else ""
    return re.compile(left + re.escape(word) + right, re.IGNORECASE)


def count_within(text: str, word: str) -> int:
    """Count the word in any case, also inside other words."""
    word = word.strip().lower()
    return text.lower().count(word) if word else 0


@lru_cache(maxsize=4096)
def match_as_pattern(word: str, *, bounded: bool = False) -> Any:
    """Return the word as the public checkers use it: as a pattern, not a literal.

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
    """Count the word as the public checkers see it: see `match_as_pattern`."""
    pattern = match_as_pattern(word, bounded=bounded)
    if not isinstance(pattern, re.Pattern):
        text = replace_surrogates(text)  # RE2 needs valid UTF-8
    return sum(1 for _ in pattern.finditer(text))
