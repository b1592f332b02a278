"""Words of Japanese and Thai, which are written without spaces: `count_all_words(Text("私は学生です"))` is 4.

Chinese is counted by characters, as in 字数; so are Lao, Khmer and Burmese. Japanese and Thai are cut where a small
model sees a boundary (BudouX); its Japanese phrases are cut again between a word and the particles after it. Not
covered: endings of verbs, which grammars count as words of their own (読んでいます is two words here).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from rubrank.texts.text import Text
from rubrank.texts.words import count_words

_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff々]")
_JAPANESE_RUN = re.compile("[\u3041-\u3096\u30a1-\u30fe\uff66-\uff9f\u3400-\u9fff\uf900-\ufaff々〆]+")
_THAI_RUN = re.compile("[\u0e01-\u0e3a\u0e40-\u0e4e]+")
_LONGEST = 300  # characters that are cut at once: longer runs are not prose
_PIECE = re.compile("[\u3041-\u3096]+|[\u30a1-\u30fe\uff66-\uff9f]+|[\u3400-\u9fff\uf900-\ufaff々〆]+[\u3041-\u3096]*")
# Particles and endings that are words of their own after another word.
_AFTER = re.compile(
    "(?<=.)(?:について|によって|ている|ています|でした|ました|ません|である|だった|です|ます|から|まで|より|など|だけ|しか|ので|のに|ても|では|には|とは"
    "|へは|にも|でも|する|した|して|[はがをにでとものへやかねよだ])$"
)


def count_all_words(text: Text) -> int:
    """The words of the text; those of Japanese and Thai as words, not as characters."""
    raw = text.raw
    if raw.isascii():
        return text.word_count
    thai, japanese = _THAI_RUN.search(raw) is not None, _is_japanese(raw)
    if not thai and not japanese:
        return text.word_count
    count = 0
    if thai:
        runs = _THAI_RUN.findall(raw)
        count += sum(_count_thai(piece) for run in runs for piece in _pieces(run))
        raw = _THAI_RUN.sub(" ", raw)
    if japanese:
        runs = _JAPANESE_RUN.findall(raw)
        count += sum(_count_japanese(piece) for run in runs for piece in _pieces(run))
        raw = _JAPANESE_RUN.sub(" ", raw)
    return count + count_words(raw)


def _is_japanese(raw: str) -> bool:
    """Enough kana for the characters beside them to be Japanese."""
    if _KANA.search(raw) is None:
        return False
    return 20 * len(_KANA.findall(raw)) > len(_HAN.findall(raw))


def _pieces(run: str) -> list[str]:
    return [run[i : i + _LONGEST] for i in range(0, len(run), _LONGEST)]


@lru_cache(maxsize=4096)
def _count_thai(run: str) -> int:
    return len(_parser("thai").parse(run))


@lru_cache(maxsize=4096)
def _count_japanese(run: str) -> int:
    return sum(_count_phrase(phrase) for phrase in _parser("japanese").parse(run))


def _count_phrase(phrase: str) -> int:
    """A word, what follows it, and what follows that: 数えるのは is 数える, の, は."""
    count = 0
    for piece in _PIECE.findall(phrase):
        while after := _AFTER.search(piece):
            count += 1
            piece = piece[: after.start()]
        count += 1
    return count


@lru_cache(maxsize=2)
def _parser(language: str) -> Any:
    import budoux

    return getattr(budoux, f"load_default_{language}_parser")()
