"""Sentences and tokens as the public IFBench checkers see them, for `compat="upstream"`; not what a reader would say.

    >>> public_sentences('1. Mix it. Dr. Ray said "so." Then\\nwait... what')
    ['1.', 'Mix it.', 'Dr. Ray said "so".', 'Then wait...', 'what']
    >>> public_tokens("Don't stop (yet).")
    ['Do', "n't", 'stop', '(', 'yet', ')', '.']

The public checkers split sentences by rules: at every `.`, `?` and `!` that does not belong to a title, a number, an
address or an abbreviation of single letters, whatever follows. Their tokens come from a tokenizer made for
treebanks, which first splits sentences in another way, learnt from newspapers. Both are rebuilt here from what they
do. Not covered: what the second one learnt about single words, which decides some cases of an abbreviation before a
capital.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

from rubrank.texts.lexicon import ABBREVIATIONS, SENTENCE_STARTERS
from rubrank.texts.text import Text
from rubrank.verifiers.shared.compared_text import reads_signs, select_text
from rubrank.verifiers.verifier import BINARY, verifier

UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")
_F = TypeVar("_F", bound=Callable[..., Any])

ASCII_PUNCTUATION = string.punctuation
_NO_PUNCTUATION = str.maketrans("", "", ASCII_PUNCTUATION)


def instruction(name: str, family: str, version: int = 1) -> Callable[[_F], _F]:
    """Register a yes/no verifier of an answer; an empty answer follows no instruction, whatever it is."""

    def register(function: _F) -> _F:
        @wraps(function)
        def checked(text: Text, **params: Any) -> Any:
            text = select_text(name, text, params.get("compat"))
            return function(text, **params) if text.raw.strip() else (False, "the answer is empty")

        verifier(name, family=family, domain=BINARY, version=version + (not reads_signs(name)))(checked)
        return function

    return register


def without_punctuation(text: str) -> str:
    """The text without ASCII punctuation; what it stood between is joined."""
    return text.translate(_NO_PUNCTUATION)


def trimmed(word: str) -> str:
    """The word without ASCII punctuation and spaces at its ends."""
    return word.strip(ASCII_PUNCTUATION + " ")


def count_within(keyword: str, text: str) -> int:
    """How often the keyword occurs, inside of words too, whatever its case."""
    wanted = keyword.strip().lower()
    return text.lower().count(wanted) if wanted else 0


def count_whole(keyword: str, text: str) -> int:
    """How often the keyword occurs as a word (or words) of its own, whatever its case."""
    wanted, hay = keyword.strip().lower(), text.lower()
    count, at = 0, hay.find(wanted) if wanted else -1
    while at >= 0:
        end = at + len(wanted)
        whole = not (_glued(hay[at - 1 : at], wanted[0]) or _glued(hay[end : end + 1], wanted[-1]))
        count += whole
        at = hay.find(wanted, end if whole else at + 1)
    return count


def _glued(neighbour: str, edge: str) -> bool:
    """Do the two characters belong to one word? In scripts without spaces a word has no such edges."""
    return _in_word(neighbour) and _in_word(edge) and not UNSPACED.match(edge)


def _in_word(char: str) -> bool:
    return char.isalnum() or char == "_"


# ---- sentences ------------------------------------------------------------------------------------------------------

_KEPT, _STOP = "\x01", "\x02"  # a full stop that ends nothing; an end without a mark
_STARTER = r"(?:Mrs?|Ms|Dr|Prof|Capt|Cpt|Lt|(?:He|She|It|They|Their|Our|We|But|However|That|This)\s|Wherever)"
_ENDING_ABBREVIATION = re.compile(
    rf"((?<![A-Za-z.])[A-Z]\.[A-Z]\.(?:[A-Z]\.)?|(?<=\s)(?:Inc|Ltd|Jr|Sr|Co)\.) (?={_STARTER})"
)
_UNENDING = re.compile(
    r"(?:Mrs?|Ms|St|Dr|Ph\.D)\.|\.(?=com|net|org|io|gov|edu|me)|(?<=\d)\.(?=\d)"
    r"|[A-Za-z]\.[A-Za-z]\.(?:[A-Za-z]\.)?|(?<=\s)[A-Za-z]\.|(?<=\s)(?:Inc|Ltd|Jr|Sr|Co)\."
)
_DOTS = re.compile(r"\.{2,}")
_QUOTED_ENDS = (".”", '."', '!"', '?"')
_SENTENCE = re.compile(rf"[^.?!{_STOP}]*(?:[.?!]|{_STOP}|\Z)")


@lru_cache(maxsize=64)
def public_sentences(text: str) -> list[str]:
    """The sentences of the public splitter, on one line each. (Cached: do not change the list.)"""
    flat = f" {text} ".replace("\n", " ").replace(_KEPT, " ").replace(_STOP, " ")
    flat = _DOTS.sub(lambda dots: _KEPT * len(dots[0]) + _STOP, flat)
    flat = _ENDING_ABBREVIATION.sub(lambda found: found[1].replace(".", _KEPT) + _STOP, flat)
    flat = _UNENDING.sub(lambda found: found[0].replace(".", _KEPT), flat)
    for end in _QUOTED_ENDS:
        flat = flat.replace(end, end[::-1])  # `so."` → `so".`
    found = [part.replace(_KEPT, ".").rstrip(_STOP).strip() for part in _SENTENCE.findall(flat)]
    while found and not found[-1]:
        found.pop()
    return found


# ---- tokens ---------------------------------------------------------------------------------------------------------

_CHUNK = re.compile(r"\S+")
_AFTER_END = ")\";}]*:@'({[!?"  # what may follow the end of a sentence without a space
_INNER_END = re.compile(rf".*[.?!](?=[{re.escape(_AFTER_END)}])")
_CLOSING = re.compile(r"[\"')\]}]+(?:\s+|(?=--)|\Z)")
_LIST_LABELS = "abixyz"  # initials that the splitter takes for the label of an item rather than for a name
_NUMBER = re.compile(r"-?[.,]?\d[\d,.\-]*\Z")


def _newspaper_sentences(text: str) -> list[str]:
    """The sentences that the tokenizer starts from."""
    chunks = list(_CHUNK.finditer(text))
    starts, ends = [0], []
    for i, chunk in enumerate(chunks):
        following = chunks[i + 1] if i + 1 < len(chunks) else None
        at = _end_in(chunk[0], following is not None)
        if at and _breaks(chunk[0], at, following[0] if following else ""):
            ends.append(chunk.start() + at)
            starts.append(following.start() if at == len(chunk[0]) and following else ends[-1])
    ends.append(len(text.rstrip()))
    return _realigned(text, starts, ends)


def _end_in(chunk: str, more: bool) -> int:
    """Where in a chunk between spaces a sentence could end; 0: nowhere. The last place counts."""
    if more and chunk[-1] in ".?!":
        return len(chunk)
    if "." not in chunk and "?" not in chunk and "!" not in chunk:
        return 0
    inner = _INNER_END.match(chunk)
    return inner.end() if inner else 0


def _breaks(chunk: str, at: int, following: str) -> bool:
    """Does a sentence end there?"""
    head = chunk[:at]
    if "?" in head or "!" in head:
        return True
    after = chunk[at:] or following
    if head.endswith(".."):
        return _starts_sentence(after)
    stem = _last_piece(head).lstrip("`&#-,;:").rstrip(".").lower()
    if len(stem) == 1 and stem.isalpha():
        return stem not in ABBREVIATIONS and (
            (stem in _LIST_LABELS and not after[0].islower()) or _starts_sentence(after)
        )
    if stem in ABBREVIATIONS or stem.rpartition("-")[2] in ABBREVIATIONS:
        return _starts_sentence(after)
    return not (_NUMBER.match(stem) and (after[0].islower() or after[0] in ";:,.!?"))


def _last_piece(head: str) -> str:
    """What follows the last bracket, quote or colon; an apostrophe belongs to it."""
    at = max(head.rfind(mark) for mark in _AFTER_END)
    return head[at + (head[at : at + 1] != "'") :] if at >= 0 else head


def _starts_sentence(after: str) -> bool:
    """Is the next word, by its capital and its kind, the first of a sentence?"""
    return after[0].isupper() and after.rstrip(ASCII_PUNCTUATION).lower() in SENTENCE_STARTERS


def _realigned(text: str, starts: list[int], ends: list[int]) -> list[str]:
    """The sentences, with closing quotes and brackets given back to the sentence that they close."""
    found, moved = [], 0
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        start = max(start, moved)
        if i + 1 < len(starts):
            closing = _CLOSING.match(text, starts[i + 1], ends[i + 1])
            if closing:
                end, moved = closing.start() + len(closing[0].rstrip()), closing.end()
        found.append(text[start:end].strip() if i else text[start:end].rstrip())
    return [sentence for sentence in found if sentence]


_ALONE = r"\.{2,}|--|[;@#$%&?!()\[\]{}<>*\"“”‘’«»„`\x01]|[:,](?!\d)"
_PIECES = re.compile(rf"{_ALONE}|(?:(?!{_ALONE})\S)+")
_OPENING_QUOTE = re.compile(r"(?:^|(?<=[\s(\[{<]))\"")
_QUOTES = {"\x01": "``", '"': "''"}
_FULL_STOP = re.compile(r"(?<!\.)\.(?=[\])}>\"'»”’ ]*\Z)")
_CONTRACTION = re.compile(r"(?i)(.+?)(n't|'ll|'re|'ve|'[smd]|')\Z")
_OPENING = re.compile(r"(?i)'(?![mtsdn])\w\b")
_FUSED = {
    "cannot": 3,
    "gonna": 3,
    "gotta": 3,
    "gimme": 3,
    "lemme": 3,
    "wanna": 3,
    "d'ye": 1,
    "more'n": 4,
    "'tis": 2,
    "'twas": 2,
}


@lru_cache(maxsize=64)
def public_tokens(text: str) -> list[str]:
    """The tokens of the public tokenizer; punctuation marks are tokens too. (Cached: do not change the list.)"""
    return [token for sentence in _newspaper_sentences(text) for token in _tokens(sentence)]


def _tokens(sentence: str) -> list[str]:
    stop = _FULL_STOP.search(sentence)
    head = sentence[: stop.start()] if stop else sentence
    if '"' in sentence:
        head = _OPENING_QUOTE.sub("\x01", head)  # any rare character: the two kinds of quote differ from here on
    found = [token for piece in _PIECES.findall(head) for token in _uncontracted(piece)]
    if stop:
        found += [".", *sentence[stop.end() :].replace(" ", "")]
    return [_QUOTES.get(token, token) for token in found]


def _uncontracted(piece: str) -> list[str]:
    """`don't` → `do`, `n't`; `'quoted'` → `'`, `quoted`, `'`."""
    if "'" not in piece and piece.lower() not in _FUSED:
        return [piece]
    cut = _FUSED.get(piece.lower())
    if cut:
        return [piece[:cut], piece[cut:]]
    opening = ["'"] if _OPENING.match(piece) else []
    word = piece[len(opening) :]
    parts = _CONTRACTION.match(word)
    return opening + ([parts[1], parts[2]] if parts else [word])
