"""What an answer is truly worth: known here, and seen by no rule, verifier or judge.

    seen = read(ask, "<think>need honey</think>\nbees make honey. bees fear mud.")
    seen.right, seen.claims, seen.content      1 right sentence of 2, content 0.4 of what 3 facts would be

content   F1 of the right facts: of the sentences said, how many are right; of the facts asked for, how many are given
asks      mean of what programs can see of the wishes, each from 0 to 1
quality   √(content · asks), and 0 where a gate closes; additive quality is (content + asks) / 2, to see whether
          conclusions hang on the form
Neither thinking longer nor Markdown that was not asked for enters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from rubrank_lab.world import ADJECTIVES, CLOSING, DECORATIONS, FOREIGN, OPENING, TOPICS, Ask

_ADJECTIVES = "|".join(ADJECTIVES)
_CLAIM = re.compile(rf"(\w+) (\w+) (?:(?:{_ADJECTIVES}) )?(\w+)")
_MARKS = [re.escape(mark.strip()) for name, mark in DECORATIONS.items() if name not in ("heading", "ul", "ol")]
_DECORATION = re.compile("|".join(sorted(_MARKS, key=len, reverse=True)))
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_ITEM = re.compile(r"^(?:- |1\. )", re.MULTILINE)


@dataclass(frozen=True)
class Reading:
    """What can be read off an answer."""

    thinking: int
    """Words of the thinking part."""
    words: int
    claims: int
    right: int
    """Different right facts."""
    nouns: tuple[str, ...]
    """Of the topic, in the order in which they come."""
    distinct: float
    foreign: int
    repeated: int
    """How often the most frequent sentence is said."""
    opened: bool
    closed: bool
    commas: int
    titled: bool
    items: int
    markers: int

    @property
    def precision(self) -> float:
        """Of the sentences said, the share that is right."""
        return self.right / self.claims if self.claims else 0.0


@lru_cache(maxsize=4096)
def read(ask: Ask, response: str) -> Reading:
    """Take an answer apart."""
    thought, closed, said = response.partition("</think>")
    if not closed:
        thought, said = response, ""
    plain = _DECORATION.sub(" ", said).replace("**", "")
    body = _ITEM.sub("", _HEADING.sub("", plain)).replace(OPENING, " ")
    pieces = [" ".join(piece.replace(",", " ").split()) for piece in re.split(r"[.\n:]", body)]
    claims = [piece for piece in pieces if piece and piece != CLOSING]
    words = re.findall(r"[a-z]+", body)
    found = [match.groups() for piece in claims if (match := _CLAIM.fullmatch(piece))]
    known = TOPICS[ask.topic]
    return Reading(
        thinking=len(re.findall(r"[a-z]+", thought.replace("<think>", ""))),
        words=len(words),
        claims=len(claims),
        right=len({noun for topic, verb, noun in found if topic == ask.topic and known.get(noun) == verb}),
        nouns=tuple(word for word in words if word in known),
        distinct=len(set(words)) / len(words) if words else 0.0,
        foreign=sum(word in FOREIGN for word in words),
        repeated=max((claims.count(claim) for claim in claims), default=0),
        opened=OPENING in plain,
        closed=plain.rstrip().endswith(f"{CLOSING}."),
        commas=said.count(","),
        titled=said.lstrip().startswith("## "),
        items=len(re.findall(r"^- ", said, re.MULTILINE)),
        markers=count_markers(said),
    )


def count_markers(said: str) -> int:
    """Pieces of Markdown: a pair of stars is one."""
    return said.count("**") // 2 + sum(said.count(mark) for mark in DECORATIONS.values())


def content(ask: Ask, seen: Reading) -> float:
    """F1 of the right facts."""
    recall = min(1.0, seen.right / ask.facts)
    total = seen.precision + recall
    return 2 * seen.precision * recall / total if total else 0.0


def coverage(ask: Ask, seen: Reading) -> float:
    """Ternary: none, some or all of the nouns that must be mentioned."""
    given = sum(noun in seen.nouns for noun in ask.mention)
    return 1.0 if given == len(ask.mention) else 0.5 if given else 0.0


def order(seen: Reading) -> float:
    """Share of neighbouring nouns that stand in the order of the alphabet; 0 for fewer than two."""
    pairs = list(zip(seen.nouns, seen.nouns[1:], strict=False))
    return sum(a < b for a, b in pairs) / len(pairs) if pairs else 0.0


def density(seen: Reading) -> float:
    """Share of the words that are nouns of the topic."""
    return len(seen.nouns) / seen.words if seen.words else 0.0


def most_words(ask: Ask) -> int:
    """What "short" allows."""
    return 3 * ask.facts + 2


def wishes(ask: Ask, seen: Reading, response: str) -> dict[str, float]:
    """What is truly fulfilled of what was asked, each from 0 to 1."""
    said = response.partition("</think>")[2]
    found = {"FactCount": float(seen.claims == ask.facts)}
    if ask.mention:
        found["Coverage"] = coverage(ask, seen)
    if ask.avoid:
        found["Avoid"] = float(re.search(rf"\b{ask.avoid}\b", said) is None)
    if ask.title:
        found["Title"] = float(seen.titled)
    if ask.bullets:
        found["List"] = float(seen.items == ask.facts)
    if ask.closing:
        found["Closing"] = float(seen.closed)
    if ask.ordered:
        found["Order"] = order(seen)
    if ask.no_commas:
        found["NoComma"] = float(seen.commas == 0)
    if ask.short:
        found["Short"] = float(0 < seen.words <= most_words(ask))
    return found


@dataclass(frozen=True)
class Truth:
    """The true worth of one answer."""

    quality: float
    additive: float
    content: float
    asks: float
    satisfied: float
    """1 if every wish is fulfilled, every fact right, and no gate closed."""
    gate: float
    """1 if no gate closed."""


def truth(ask: Ask, response: str, truncated: bool) -> Truth:
    """By everything that is known."""
    seen = read(ask, response)
    told, met = content(ask, seen), wishes(ask, seen, response)
    asks = sum(met.values()) / len(met)
    gate = float(not truncated and is_clean(seen))
    whole = float(told > 0.999 and min(met.values()) > 0.999)
    return Truth(
        quality=gate * (told * asks) ** 0.5,
        additive=gate * (told + asks) / 2,
        content=told,
        asks=asks,
        satisfied=gate * whole,
        gate=gate,
    )


def is_clean(seen: Reading) -> bool:
    """There is an answer, it does not go round in circles, and it is in English."""
    return seen.claims > 0 and seen.repeated < 3 and seen.foreign < 2
