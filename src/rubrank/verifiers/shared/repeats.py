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
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

K = 12  # characters of a window
_MIX_FACTOR = 0x9E3779B97F4A7C15  # odd and random: spreads the codes of letters over 64 bits
_HASH_BASE = 0xD6E8FEB86659FD93  # the base of the polynomial, also odd and random
_ALL_BITS = 2**64 - 1
_MOST_PLACES = 1 << 20  # windows whose positions fit into the lower 20 bits of a hash
_MOST_PERIODS = 8  # that are tried for a chain of repeats, see `find_nested_loops`


@dataclass(frozen=True, slots=True)
class Repeat:
    """`length` characters from `start` on equal those `distance` earlier."""

    start: int
    length: int
    distance: int

    @property
    def times(self) -> float:
        """Return how often the segment stands in a row: 2 for one repetition right after it."""
        return 1 + self.length / self.distance


def find_repeats(text: str, k: int = K, least: int = 0) -> list[Repeat]:
    """Find all repeats of at least `k` (and `least`) characters, each from its nearest earlier copy, in order."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    if len(codes) <= k:
        return []
    previous = _find_previous(_hash_windows(codes, k))
    distances = np.where(previous >= 0, np.arange(len(previous)) - previous, 0)
    # Neighbouring windows with the same distance are one repeat.
    edges = np.flatnonzero(np.diff(distances, prepend=-1, append=-1))
    starts = edges[:-1]
    lengths = np.diff(edges) + k - 1
    candidates = (distances[starts] > 0) & (lengths >= least)
    repeats = []
    for start, length in zip(
        starts[candidates].tolist(), lengths[candidates].tolist(), strict=True
    ):
        distance = int(distances[start])
        earlier = start - distance
        # Different windows may have the same hash.
        if text[start : start + length] == text[earlier : earlier + length]:
            repeats.append(Repeat(start, length, distance))
    return repeats


def find_nested_loops(text: str, repeats: list[Repeat]) -> list[Repeat]:
    """Find loops whose segment repeats something itself, from the repeats of a text in reading order.

    In "Because of rain, because of rain, Because of rain, …" the nearest earlier copy of a passage is one phrase away,
    or two where it contains the capital letter. These many short repeats are one loop of the larger distance.
    """
    loops = []
    chain: list[Repeat] = []
    for repeat in repeats:
        # Neighbouring repeats overlap, unless one between them was too short to be listed.
        if chain and repeat.start > chain[-1].start + chain[-1].length:
            loops += _find_loop_of_chain(text, chain)
            chain = []
        chain.append(repeat)
    return loops + _find_loop_of_chain(text, chain)


def _find_loop_of_chain(text: str, chain: list[Repeat]) -> list[Repeat]:
    """Return the loop that a chain of neighbouring repeats is part of; [] if it is none."""
    counts = Counter(repeat.distance for repeat in chain)
    # The part of the segment that stands in it once is repeated at the period of the loop, every time.
    for distance, times in counts.most_common(_MOST_PERIODS):
        if times < 3:
            break
        of_distance = [repeat for repeat in chain if repeat.distance == distance]
        start = of_distance[0].start
        stop = of_distance[-1].start + of_distance[-1].length
        if text[start:stop] == text[start - distance : stop - distance]:
            return [Repeat(start, stop - start, distance)]
    return []


def _hash_windows(codes: NDArray[np.uint32], k: int) -> NDArray[np.uint64]:
    """Return the hash of every window of k characters, a polynomial; windows are put together from shorter ones."""
    mixed = codes.astype(np.uint64) * np.uint64(_MIX_FACTOR)
    mixed ^= mixed >> np.uint64(29)
    power = mixed  # hashes of windows of `size` characters, a power of two
    size = 1
    hashes = mixed[:0]  # hashes of windows of `width` characters
    width = 0
    while True:
        if k & size:
            hashes = _join_windows(power, hashes, size, width) if width else power
            width += size
        if width == k:
            return hashes ^ (hashes >> np.uint64(32))
        power = _join_windows(power, power, size, size)
        size *= 2


def _join_windows(
    first: NDArray[np.uint64], second: NDArray[np.uint64], first_size: int, second_size: int
) -> NDArray[np.uint64]:
    """Return the hashes of windows of `first_size` characters followed by those of `second_size`."""
    number = len(second) - first_size
    return (
        first[:number] * np.uint64(pow(_HASH_BASE, second_size, _ALL_BITS + 1))
        + second[first_size:]
    )


def _find_previous(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for each position the nearest earlier one of the same hash, or −1."""
    order = _sort_hashes(hashes)
    ordered = hashes[order]
    same = ordered[1:] == ordered[:-1]
    previous = np.full(len(hashes), -1, dtype=np.int64)
    previous[order[1:][same]] = order[:-1][same]
    return previous


def _sort_hashes(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return a stable order in which equal hashes stand together."""
    if len(hashes) <= _MOST_PLACES:
        # Sorting numbers is several times as fast as finding an order, so the position replaces the hash's lower bits.
        position_bits = np.uint64(_MOST_PLACES - 1)
        hash_bits = np.uint64(_ALL_BITS ^ (_MOST_PLACES - 1))
        keys = np.sort((hashes & hash_bits) | np.arange(len(hashes), dtype=np.uint64))
        order = (keys & position_bits).astype(np.int64)
        ordered = hashes[order]
        # Hashes that differ in the lower bits alone might stand between equal ones.
        differ_below = (ordered[1:] ^ ordered[:-1]) - np.uint64(1) < position_bits
        if not differ_below.any():
            return order
    # numpy sorts 16-bit digits by radix.
    digits = hashes.view(np.uint16).reshape(-1, 4)
    radix_order: NDArray[Any] = np.argsort(digits[:, 0], kind="stable")
    for column in (1, 2, 3):
        radix_order = radix_order[np.argsort(digits[radix_order, column], kind="stable")]
    return radix_order


_NUMERAL = (
    "one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|forty|fifty|sixty|a hundred"
    "|(?:one |two |five )?hundred|a thousand|(?:one )?thousand|many|several|multiple|a few|as many|numerous"
)
# "ten times", "5x", "over and over"
_OFTEN = (
    rf"\b(?:(?:\d[\d,]*|{_NUMERAL})\s+(?:more\s+)?times\b|\d+\s?x\b|again and again|over and over|repeatedly|twice\b"
    r"|endlessly|forever|in a loop)"
)
# What is to be said, quoted or not.
_SAID = r"(?:\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|[^.!?\n\"“]|[.!?](?=\S)){0,200}?"
# Where an order begins: at the start of a sentence, or after "please" or "you must". {} takes more words.
_IMPERATIVE = (
    r"(?:^|[.!?:;,\n(]\s*|\b(?:please|kindly|just|now|you (?:must|should|to|can)"
    r"|can you|could you|only|must|to|{})\s+)"
)
_VERB = "(?:say|write|type|print|recite|chant|sing|output|copy|include|insert|put)"
_QUOTED = '"[^"\n]{1,300}"|“[^”\n]{1,300}”|(?>\'[^\\n]{1,300}?\'(?!\\w))|‘[^’\\n]{1,300}’'
_UNIT = r"(?:word|sentence|phrase|line|name|letter|following|request|prompt|message|text)"
# "Write that …" and "write a note …" are not followed by the words to repeat; "write a sentence …" may be.
_NOT_WORDS_TO_WRITE = rf"(?!(?:that|about|how|why|down|me|us)\b|an?\s(?!{_UNIT}))"
# What is to be written: a few words or a quotation.
_BRIEFLY = rf"\s*:?\s*{_NOT_WORDS_TO_WRITE}(?:(?:{_QUOTED}|[^\s.!?:,\"“]++)\s*+){{1,8}}?"
_OBJECT = r"(?:[:\"“'‘«*]|(?:the|this|that|it|these|my|your|after|each|every|exactly|back|all|only|verbatim|word)\b)"
_ASKED = re.compile(
    "|".join(
        (
            # repeat "hello" ten times; write hello ten times; repeat the sentence above
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
_INSTRUCTION_CHARACTERS = (
    4_000  # of the beginning and of the end of a prompt, where its instructions are
)


# All rollouts of a query have the same prompt.
@lru_cache(maxsize=256)
def asks_to_repeat(prompt: str) -> bool:
    """Does the prompt ask for repetition? "Say it ten times" does, "it failed four times" does not."""
    return any(
        _ASKED.search(part)
        for part in {prompt[:_INSTRUCTION_CHARACTERS], prompt[-_INSTRUCTION_CHARACTERS:]}
    )
