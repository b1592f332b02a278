"""The tools of the public checkers, where they are installed (`pip install rubrank[upstream]`): langdetect and janome.

`compat="upstream"` asks them, so that verdicts can be compared; without them it goes by our own detector and rules. The
public checkers run langdetect unseeded: on a few words it guesses differently each time. Here it has a seed.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

from rubrank._plain import clean

_SEED = 1
_MOST = 10_000  # characters
_LOCAL = threading.local()


@lru_cache(maxsize=1)
def _factory() -> Any:
    """A factory of detectors with a seed of its own: the one that others share stays as it is. None: not installed."""
    try:
        from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory
    except ImportError:
        return None
    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.seed = _SEED
    return factory


def has_langdetect() -> bool:
    """Is langdetect installed?"""
    return _factory() is not None


@lru_cache(maxsize=4096)
def public_language(text: str) -> str | None:
    """The language as langdetect names it ("zh-cn"); None where it finds nothing to go by: the public checkers pass."""
    from langdetect.lang_detect_exception import LangDetectException

    detector = _factory().create()
    detector.append(text)
    try:
        return str(detector.detect())
    except LangDetectException:
        return None


def has_janome() -> bool:
    """Is janome installed?"""
    return _tokenizer() is not None


def _tokenizer() -> Any:
    """One analyser a thread: it keeps state while it works."""
    if not hasattr(_LOCAL, "tokenizer"):
        try:
            from janome.tokenizer import Tokenizer
        except ImportError:
            _LOCAL.tokenizer = None
        else:
            _LOCAL.tokenizer = Tokenizer()
    return _LOCAL.tokenizer


@lru_cache(maxsize=256)
def japanese_tokens(text: str) -> tuple[tuple[str, str], ...]:
    """The words of a Japanese text, each with its part of speech ("名詞", "助詞" …); () if janome is not installed.

    Of a longer text than any answer is, only the beginning: the analyser takes its time.
    """
    tokenizer = _tokenizer()
    if tokenizer is None:
        return ()
    return tuple(
        (token.surface, token.part_of_speech.partition(",")[0])
        for token in tokenizer.tokenize(clean(text[:_MOST]))
    )
