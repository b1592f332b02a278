"""Finding what a text repeats, in linear time: loops of any period, and long passages that were there before.

    >>> find_repeats("I am sorry. " * 40)
    [Repeat(start=12, length=468, distance=12)]

Every window of `K` characters gets a rolling hash; windows are sorted by it (a radix sort, so linear), which tells for
each where it stood before. Neighbouring windows that stood the same distance before are one `Repeat`: the text from
`start` on, `length` characters, equals the text `distance` characters earlier. A loop of period p is a repeat of
distance p that is longer than p. Every repeat is compared letter by letter, so a clash of hashes cannot invent one.
Not found: repeats shorter than `K`, or with a changed letter every few characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

K = 12
_FACTOR = 0x9E3779B97F4A7C15
_BASE = 0xD6E8FEB86659FD93
_WORD = 2**64 - 1
_MOST_PLACES = 1 << 20


@dataclass(frozen=True, slots=True)
class Repeat:
    """`length` characters from `start` on equal those `distance` earlier."""

    start: int
    length: int
    distance: int

    @property
    def times(self) -> float:
        """How often the segment stands in a row: 2 for one repetition right after it."""
        return 1 + self.length / self.distance


def find_repeats(text: str, k: int = K, least: int = 0) -> list[Repeat]:
    """All repeats of at least `k` (and `least`) characters, each from its nearest earlier copy, in reading order."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    if len(codes) <= k:
        return []
    before = _last_seen(_hashes(codes, k))
    distance = np.where(before >= 0, np.arange(len(before)) - before, 0)
    edges = np.flatnonzero(np.diff(distance, prepend=-1, append=-1))
    starts, lengths = edges[:-1], np.diff(edges) + k - 1
    wanted = (distance[starts] > 0) & (lengths >= least)
    found = zip(starts[wanted].tolist(), lengths[wanted].tolist(), distance[starts[wanted]].tolist(), strict=True)
    return [Repeat(*one) for one in found if _verified(text, *one)]


def _hashes(codes: NDArray[np.uint32], k: int) -> NDArray[np.uint64]:
    """The hash of every window of k characters, a polynomial; windows are put together from shorter ones."""
    mixed = codes.astype(np.uint64) * np.uint64(_FACTOR)
    mixed ^= mixed >> np.uint64(29)
    doubled, size, hashes, width = mixed, 1, mixed[:0], 0
    while True:
        if k & size:
            hashes = _joined(doubled, hashes, size, width) if width else doubled
            width += size
        if width == k:
            return hashes ^ (hashes >> np.uint64(32))
        doubled, size = _joined(doubled, doubled, size, size), 2 * size


def _joined(first: NDArray[np.uint64], second: NDArray[np.uint64], one: int, other: int) -> NDArray[np.uint64]:
    """Hashes of windows of `one` characters followed by those of `other`."""
    number = len(second) - one
    return first[:number] * np.uint64(pow(_BASE, other, _WORD + 1)) + second[one:]


def _last_seen(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each position the nearest earlier one of the same hash, or −1."""
    order, ordered = _ordered(hashes)
    same = ordered[1:] == ordered[:-1]
    before = np.full(len(hashes), -1, dtype=np.int64)
    before[order[1:][same]] = order[:-1][same]
    return before


def _ordered(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """A stable order in which equal hashes stand together, and the hashes in it.

    Numbers are sorted several times as fast as an order is found: so the place takes the lower bits of each hash.
    """
    if len(hashes) > _MOST_PLACES:
        order = _radix_order(hashes)
        return order, hashes[order]
    places, upper = np.uint64(_MOST_PLACES - 1), np.uint64(_WORD ^ (_MOST_PLACES - 1))
    keys = np.sort((hashes & upper) | np.arange(len(hashes), dtype=np.uint64))
    order = (keys & places).astype(np.int64)
    ordered = hashes[order]
    apart = (ordered[1:] ^ ordered[:-1]) - np.uint64(1) < places  # unlike, but in the bits that were left out alone
    if apart.any():  # other hashes might stand between equal ones
        order = _radix_order(hashes)
        ordered = hashes[order]
    return order, ordered


def _radix_order(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """A stable order by hash; numpy sorts 16-bit digits by radix."""
    digits = hashes.view(np.uint16).reshape(-1, 4)
    order: NDArray[Any] = np.argsort(digits[:, 0], kind="stable")
    for column in (1, 2, 3):
        order = order[np.argsort(digits[order, column], kind="stable")]
    return order


def _verified(text: str, start: int, length: int, distance: int) -> bool:
    return text[start : start + length] == text[start - distance : start - distance + length]


_NUMERAL = (
    "one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|forty|fifty|sixty|a hundred"
    "|(?:one |two |five )?hundred|a thousand|(?:one )?thousand|many|several|multiple|a few|as many|numerous"
)
_OFTEN = (
    rf"\b(?:(?:\d[\d,]*|{_NUMERAL})\s+(?:more\s+)?times\b|\d+\s?x\b|again and again|over and over|repeatedly|twice\b"
    r"|endlessly|forever|in a loop)"
)
_SAID = r"(?:\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|[^.!?\n\"“]|[.!?](?=\S)){0,200}?"  # what is to be said, quoted or not
_IMPERATIVE = (
    r"(?:^|[.!?:;,\n(]\s*|\b(?:please|kindly|just|now|you (?:must|should|to|can)|can you|could you|only|must|to|{})\s+)"
)
_VERB = "(?:say|write|type|print|recite|chant|sing|output|copy|include|insert|put)"
_QUOTED = '"[^"\n]{1,300}"|“[^”\n]{1,300}”|(?>\'[^\\n]{1,300}?\'(?!\\w))|‘[^’\\n]{1,300}’'
_UNIT = r"(?:word|sentence|phrase|line|name|letter|following|request|prompt|message|text)"
_BRIEFLY = (  # what is to be written: a few words or a quotation, not "a note that the pump failed"
    rf"\s*:?\s*(?!(?:that|about|how|why|down|me|us)\b|an?\s(?!{_UNIT}))(?:(?:{_QUOTED}|[^\s.!?:,\"“]++)\s*+){{1,8}}?"
)
_OBJECT = r"(?:[:\"“'‘«*]|(?:the|this|that|it|these|my|your|after|each|every|exactly|back|all|only|verbatim|word)\b)"
_ASKED = re.compile(
    "|".join(
        (
            rf"{_IMPERATIVE.format('and|then')}repeat\b(?! (?:offend|custom|visit|business|order)){_SAID}{_OFTEN}",
            rf"{_IMPERATIVE.format('and|then')}{_VERB}\b{_BRIEFLY}{_OFTEN}",
            rf"{_IMPERATIVE.format('first')}repeat\s*{_OBJECT}",
            r"\blyrics?\b|\bchorus\b|歌词|歌詞",
            r"\br[ée]p[èé]t(?:e|ez|er) |\brepit[ae]\b|\bwiederhol(?:e|en Sie)\b",
            r"繰り返(?:して|し[書言])|[0-9０-９一二三四五六七八九十百]+回(?:書|言|繰り返)",
            r"(?<![不别勿])(?<!不要)(?<!避免)(?<!没有)(?:重复|重複)[^。！？\n]{0,60}?[0-9一二两三四五六七八九十百千几多]+\s*[遍次]",
            r"(?:请|一直|反复|不断|不停地?|你)(?:重复|重複)|(?<![不要避免])(?:重复|重複)(?:下面|以下|这|上面|我的|[“「\"：:])",
            r"(?<!不要)(?<!不用)(?:复述|複述)|反[复覆](?:写|说|念|抄|输出)",
            r"(?:[写寫说說念唸读讀抄唱背]|输出)(?![了过])(?:“[^”\n]{1,200}”|「[^」\n]{1,200}」|[^。！？，,\n“「]){0,60}?[0-9一二两三四五六七八九十百千几]+\s*遍",
        )
    ),
    re.IGNORECASE,
)
_MOST_ASKED = 4_000  # characters of the beginning and the end of a prompt: an instruction stands there


@lru_cache(maxsize=256)  # all rollouts of a query have its prompt
def asks_to_repeat(prompt: str) -> bool:
    """Does the prompt ask for repetition? "Say it ten times" does, "it failed four times" does not."""
    return any(_ASKED.search(part) for part in {prompt[:_MOST_ASKED], prompt[-_MOST_ASKED:]})
