"""Shared by the verifiers of instructions (IFEval, M-IFEval, IFBench, IF-RLVR): registration, relations, finding words.

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
    **dict.fromkeys(
        ("au plus", "como máximo", "以下", "以内", "至多", "最多", "不超过"), "at most"
    ),
    **dict.fromkeys(("plus de", "más de", "多于", "超过"), "more than"),
    **dict.fromkeys(("exactement", "exactamente", "ちょうど", "恰好", "正好"), "exactly"),
    **dict.fromkeys(("environ", "alrededor de", "約", "大约", "左右"), "around"),
}


def translate_relation(word: object) -> object:
    """Return the relation in English: "au moins" and "以上" become "at least"."""
    if not isinstance(word, str):
        return word
    return _RELATIONS.get(word.strip().lower(), word)


AnyRelation: TypeAlias = Annotated[Relation, BeforeValidator(translate_relation)]

_F = TypeVar("_F", bound=Callable[..., Any])


def instruction(
    name: str, *, family: str = "ifeval", version: int = 1, languages: Iterable[str] = ()
) -> Callable[[_F], _F]:
    """Register a function as the verifier of an instruction. An empty answer fails without calling it."""

    def register(function: _F) -> _F:
        @wraps(function)
        def check(subject: Text | Rollout, **params: Any) -> Answer:
            # Functions that take the rollout are about signs, and read the answer as it was written.
            if isinstance(subject, Text):
                subject = select_text(name, subject, params.get("compat"))
            raw = subject.raw if isinstance(subject, Text) else subject.answer
            if not raw.strip():
                return False, "the answer is empty"
            answer: Answer = function(subject, **params)
            return answer

        # Reading the text as a reader sees it came later, and raised the version of all instructions that do.
        full_version = version if reads_signs(name) else version + 1
        verifier(name, family=family, version=full_version, languages=languages)(check)
        return function

    return register


# ---- finding words -------------------------------------------------------------------------------------------------

_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\|()]")
_NO_SPACES = re.compile(
    "[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f]"
)


@lru_cache(maxsize=4096)
def match_word(word: str) -> re.Pattern[str]:
    """Return a pattern for the word on its own, in any case; in scripts without spaces, wherever it stands."""
    word = word.strip()
    left = r"(?<!\w)" if word[:1].isalnum() and not _NO_SPACES.match(word[0]) else ""
    right = r"(?!\w)" if word[-1:].isalnum() and not _NO_SPACES.match(word[-1]) else ""
    return re.compile(left + re.escape(word) + right, re.IGNORECASE)


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


def count_word(text: str, word: str) -> int:
    """Count the word as a word of its own, in any case."""
    word = word.strip()
    if not word:
        return 0
    if (
        text.isascii() and word.lower() not in text.lower()
    ):  # the usual case, several times as fast as a pattern
        return 0
    return len(match_word(word).findall(text))


def count_pattern(text: str, word: str, *, bounded: bool = False) -> int:
    """Count the word as the public checkers see it: see `match_as_pattern`."""
    pattern = match_as_pattern(word, bounded=bounded)
    if not isinstance(pattern, re.Pattern):
        text = clean(text)  # RE2 needs valid UTF-8
    return sum(1 for _ in pattern.finditer(text))


def quote_some(words: Iterable[str]) -> str:
    """Quote up to five words for a reason: `“a”, “b”`."""
    quoted = [f"“{word}”" for word in words]
    return ", ".join(quoted[:5]) + (" …" if len(quoted) > 5 else "")
