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
from typing import Any

import numpy as np
from numpy.typing import NDArray

K = 12
_FACTOR = 0x9E3779B97F4A7C15
_WORD = 2**64 - 1


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
    found = []
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if distance[start] and end - start + k > least:
            found += _verified(codes, Repeat(start, end - start + k - 1, int(distance[start])))
    return found


def _hashes(codes: NDArray[np.uint32], k: int) -> NDArray[np.uint64]:
    """The hash of every window of k characters: k steps over the whole array."""
    mixed = codes.astype(np.uint64) * np.uint64(_FACTOR)
    mixed ^= mixed >> np.uint64(29)
    n = len(codes) - k + 1
    hashes = np.zeros(n, dtype=np.uint64)
    for i in range(k):
        hashes *= np.uint64(0xD6E8FEB86659FD93)
        hashes += mixed[i : i + n]
    return hashes ^ (hashes >> np.uint64(32))


def _last_seen(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each position the nearest earlier one of the same hash, or −1."""
    order = _radix_order(hashes)
    same = hashes[order[1:]] == hashes[order[:-1]]
    before = np.full(len(hashes), -1, dtype=np.int64)
    before[order[1:][same]] = order[:-1][same]
    return before


def _radix_order(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """A stable order by hash; numpy sorts 16-bit digits by radix."""
    digits = hashes.view(np.uint16).reshape(-1, 4)
    order: NDArray[Any] = np.argsort(digits[:, 0], kind="stable")
    for column in (1, 2, 3):
        order = order[np.argsort(digits[order, column], kind="stable")]
    return order


def _verified(codes: NDArray[np.uint32], repeat: Repeat) -> list[Repeat]:
    end = repeat.start + repeat.length
    same = np.array_equal(codes[repeat.start : end], codes[repeat.start - repeat.distance : end - repeat.distance])
    return [repeat] if same else []


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


def asks_to_repeat(prompt: str) -> bool:
    """Does the prompt ask for repetition? "Say it ten times" does, "it failed four times" does not."""
    return any(_ASKED.search(part) for part in {prompt[:_MOST_ASKED], prompt[-_MOST_ASKED:]})
