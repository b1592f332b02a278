"""What the IFEval verifiers share: the empty answer, relation words of several languages, and finding words.

`@instruction(name)` is `@verifier` for an instruction: an answer without any text follows none, whatever is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import re2
from pydantic import BeforeValidator

from rubrank._plain import clean
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.shared.compared_text import reads_signs, select_text
from rubrank.verifiers.shared.patterns import compile_re2
from rubrank.verifiers.shared.relation import Relation
from rubrank.verifiers.verifier import Answer, verifier

Lang: TypeAlias = Literal["en", "fr", "es", "ja"]
"""The language of the instruction, where it changes what is asked (quotes, titles, options)."""

_RELATIONS: dict[str, Relation] = {
    **dict.fromkeys(("au moins", "al menos", "como mínimo", "以上", "至少", "不少于"), "at least"),
    **dict.fromkeys(("moins de", "menos de", "未満", "少于"), "less than"),
    **dict.fromkeys(("au plus", "como máximo", "以下", "以内", "至多", "最多", "不超过"), "at most"),
    **dict.fromkeys(("plus de", "más de", "多于", "超过"), "more than"),
    **dict.fromkeys(("exactement", "exactamente", "ちょうど", "恰好", "正好"), "exactly"),
    **dict.fromkeys(("environ", "alrededor de", "約", "大约", "左右"), "around"),
}


def relation_word(word: object) -> object:
    """The relation in English: "au moins" and "以上" are "at least"."""
    return _RELATIONS.get(word.strip().lower(), word) if isinstance(word, str) else word


AnyRelation: TypeAlias = Annotated[Relation, BeforeValidator(relation_word)]

_F = TypeVar("_F", bound=Callable[..., Any])


def instruction(
    name: str, *, family: str = "ifeval", version: int = 1, languages: Iterable[str] = ()
) -> Callable[[_F], _F]:
    """Register a function as the verifier of an instruction; an empty answer fails before it is asked."""

    def register(function: _F) -> _F:
        @wraps(function)
        def guarded(subject: Text | Rollout, **params: Any) -> Answer:
            # What asks for the prompt too is about signs, and reads the answer as it was written.
            if isinstance(subject, Text):
                subject = select_text(name, subject, params.get("compat"))
            raw = subject.raw if isinstance(subject, Text) else subject.answer
            if not raw.strip():
                return False, "the answer is empty"
            answer: Answer = function(subject, **params)
            return answer

        verifier(name, family=family, version=version + (not reads_signs(name)), languages=languages)(guarded)
        return function

    return register


# ---- finding words -------------------------------------------------------------------------------------------------

_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\|()]")
_NO_SPACES = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")


@lru_cache(maxsize=4096)
def as_word(word: str) -> re.Pattern[str]:
    """The word as a word of its own, in any case; in scripts without spaces, wherever it stands."""
    word = word.strip()
    left = r"(?<!\w)" if word[:1].isalnum() and not _NO_SPACES.match(word[0]) else ""
    right = r"(?!\w)" if word[-1:].isalnum() and not _NO_SPACES.match(word[-1]) else ""
    return re.compile(left + re.escape(word) + right, re.IGNORECASE)


@lru_cache(maxsize=4096)
def as_pattern(word: str, *, bounded: bool = False) -> Any:
    """The word as the public checkers use it: a pattern, not a literal. Most hold no special character; the rest run
    under RE2, and what is no pattern there is taken literally."""
    edge = r"\b" if bounded else ""
    if not _SPECIAL.search(word):
        return re.compile(edge + re.escape(word) + edge, re.IGNORECASE)
    try:
        return compile_re2(edge + word + edge, case_sensitive=False)
    except re2.error:
        return re.compile(edge + re.escape(word) + edge, re.IGNORECASE)


def count_word(text: str, word: str) -> int:
    """How often the word occurs as a word, in any case."""
    word = word.strip()
    if not word or (text.isascii() and word.lower() not in text.lower()):  # the usual case, without a pattern
        return 0
    return sum(1 for _ in as_word(word).finditer(text))


def count_pattern(text: str, word: str, *, bounded: bool = False) -> int:
    """How often the word occurs as the public checkers see it: see `as_pattern`."""
    if not bounded and text.isascii() and not _SPECIAL.search(word):
        return text.lower().count(word.lower())
    pattern = as_pattern(word, bounded=bounded)
    return sum(1 for _ in pattern.finditer(text if isinstance(pattern, re.Pattern) else clean(text)))


def brief(words: Iterable[str]) -> str:
    """A few words for a reason: `“a”, “b”`."""
    shown = [f"“{word}”" for word in words]
    return ", ".join(shown[:5]) + (" …" if len(shown) > 5 else "")
