"""What there is to know, to ask and to say: twelve topics with six facts each, and a few hundred tokens.

    TOPICS["bees"]            {"hive": "build", "honey": "make", …}     noun → its verb
    ask = draw_ask(random)    about bees. give 3 facts. mention honey and wax. end with thanks.
    answer(ask, random)       <think>need honey wax hmm</think>\nbees make honey. bees build wax. …

An ask is a prompt and what it wants; `answer` is a middling answer to it, for the supervised start: right in most
things, wrong in some, with now and then a heading, a list, a needless remark, an endless thought or foreign words.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

VERBS = ("make", "need", "fear", "hold", "seek", "lose")
_NOUNS: Mapping[str, str] = {
    "bees": "honey wax pollen smoke queens hives",
    "lakes": "water fish reeds boats depth ice",
    "clocks": "springs hands gears bells oil glass",
    "bread": "flour yeast salt crust ovens crumbs",
    "rivers": "banks mud stones bridges mills floods",
    "stars": "light gas dust heat names orbits",
    "birds": "nests wings seeds songs eggs cats",
    "trees": "roots leaves rain bark shade fire",
    "ships": "sails ropes crews ports anchors maps",
    "books": "pages ink readers covers shelves titles",
    "trains": "rails steam tickets doors brakes tunnels",
    "wheels": "axles spokes grease rims roads carts",
}
_draw = random.Random(20)
TOPICS: Mapping[str, Mapping[str, str]] = {
    topic: {noun: _draw.choice(VERBS) for noun in nouns.split()} for topic, nouns in _NOUNS.items()
}
"""Topic → noun → the verb that makes a right sentence."""

ADJECTIVES = ("fine", "old", "odd", "good")
THOUGHTS = ("hmm", "wait", "check", "again", "maybe", "so")
FOREIGN = ("und", "der", "ist", "ein")
OPENING = "sure! here you go:"
CLOSING = "thanks"
DECORATIONS: Mapping[str, str] = {
    "heading": "\n## ",
    "ul": "\n- ",
    "ol": "\n1. ",
    "blockquote": "\n> ",
    "hr": "\n\n---\n",
    "table": "\n\n| a | b |\n|---|---|\n| c | d |\n",
    "code": "\n\n```\nx\n```\n",
    "inline": " `x`",
    "link": " [x](y)",
    "italic": " *so*",
}
"""Markdown that is one token each; bold is put round a noun."""
_SMALL = (
    "about",
    "give",
    "facts",
    "mention",
    "and",
    "avoid",
    "end",
    "with",
    CLOSING,
    "title",
    "as",
    "list",
    "in",
    "order",
    "no",
    "commas",
    "short",
    "2",
    "3",
    "4",
    "need",
    "here",
    "you",
    "go",
    "sure",
)
_LED = ("about", "give", "mention", "avoid")
END, PAD = "<|end|>", "<|pad|>"


def tokens() -> list[str]:
    """Every token, as it stands in a text; words come with a space before them and without."""
    words = {*TOPICS, *(noun for nouns in TOPICS.values() for noun in nouns), *VERBS, *ADJECTIVES, *THOUGHTS, *FOREIGN}
    marks = ["<think>", "</think>\n", "\n", ".", ",", "!", ":", " **", "**", *DECORATIONS.values()]
    return [PAD, END, *marks, *(form for word in sorted(words | set(_SMALL)) for form in (word, f" {word}"))]


@dataclass(frozen=True)
class Ask:
    """One prompt, and what it wants."""

    topic: str
    facts: int
    mention: tuple[str, ...] = ()
    avoid: str = ""
    title: bool = False
    bullets: bool = False
    closing: bool = False
    ordered: bool = False
    no_commas: bool = False
    short: bool = False

    @property
    def prompt(self) -> str:
        """In words."""
        wishes = [
            f"about {self.topic}",
            f"give {self.facts} facts",
            f"mention {' and '.join(self.mention)}" if self.mention else "",
            f"avoid {self.avoid}" if self.avoid else "",
            "with title" if self.title else "",
            "as list" if self.bullets else "",
            "in order" if self.ordered else "",
            "no commas" if self.no_commas else "",
            "short" if self.short else "",
            f"end with {CLOSING}" if self.closing else "",
        ]
        return " ".join(f"{wish}." for wish in wishes if wish) + "\n"

    @classmethod
    def parse(cls, prompt: str) -> Ask:
        """From its words."""
        said = [wish.strip() for wish in prompt.split(".") if wish.strip()]
        after = {name: wish.removeprefix(f"{name} ") for wish in said for name in _LED if wish.startswith(f"{name} ")}
        return cls(
            topic=after["about"],
            facts=int(after["give"].split()[0]),
            mention=tuple(after["mention"].split(" and ")) if "mention" in after else (),
            avoid=after.get("avoid", ""),
            title="with title" in said,
            bullets="as list" in said,
            closing=f"end with {CLOSING}" in said,
            ordered="in order" in said,
            no_commas="no commas" in said,
            short="short" in said,
        )


@lru_cache(maxsize=4096)
def parsed(prompt: str) -> Ask:
    """`Ask.parse`, remembered: every verifier asks."""
    return Ask.parse(prompt)


def draw_ask(chance: random.Random) -> Ask:
    """An ask; about five wishes beside topic and number."""
    topic = chance.choice(list(TOPICS))
    facts = chance.choice((2, 3, 3, 4))
    nouns = chance.sample(list(TOPICS[topic]), chance.randint(1, min(2, facts)))
    return Ask(
        topic=topic,
        facts=facts,
        mention=tuple(nouns) if chance.random() < 0.7 else (),
        avoid=chance.choice(ADJECTIVES) if chance.random() < 0.5 else "",
        title=chance.random() < 0.3,
        bullets=chance.random() < 0.3,
        closing=chance.random() < 0.4,
        ordered=chance.random() < 0.4,
        no_commas=chance.random() < 0.5,
        short=chance.random() < 0.4,
    )


# ------------------------------------------------------------------------------------------------- the supervised start


def answer(ask: Ask, chance: random.Random) -> str:
    """A middling answer."""
    nouns = _nouns(ask, chance)
    return f"<think>{_thought(nouns, chance)}</think>\n{_said(ask, nouns, chance)}"


def _nouns(ask: Ask, chance: random.Random) -> list[str]:
    number = ask.facts if chance.random() < 0.6 else max(1, ask.facts + chance.choice((-1, 1)))
    kept = [noun for noun in ask.mention if chance.random() < 0.75][:number]
    others = [noun for noun in TOPICS[ask.topic] if noun not in kept]
    chosen = kept + chance.sample(others, number - len(kept))
    if chance.random() < 0.15:
        chosen[-1] = chance.choice(list(TOPICS[chance.choice(list(TOPICS))]))
    chance.shuffle(chosen)
    return sorted(chosen) if ask.ordered and chance.random() < 0.45 else chosen


def _thought(nouns: list[str], chance: random.Random) -> str:
    fillers = min(16, int(chance.expovariate(1 / 4.0)))
    return " ".join(["need", *nouns, *(chance.choice(THOUGHTS) for _ in range(fillers))])


def _said(ask: Ask, nouns: list[str], chance: random.Random) -> str:
    if chance.random() < 0.05:
        return " ".join(f"der {noun} ist ein {ask.topic}." for noun in nouns)
    plain = chance.random() < 0.5
    bullets = chance.random() < (0.6 if ask.bullets else 0.12)
    titled = chance.random() < (0.6 if ask.title else 0.12)
    parts = [f"\n## {ask.topic}\n"] if titled else []
    parts += [OPENING + "\n"] if chance.random() < 0.2 else []
    for noun in nouns:
        sentence = _sentence(ask, noun, plain, chance)
        parts.append(f"\n- {sentence}" if bullets else sentence)
        if not plain and chance.random() < 0.12:
            parts.append(DECORATIONS[chance.choice(list(DECORATIONS)[3:])])
    if chance.random() < (0.35 if ask.closing else 0.06):
        parts.append(f"\n{CLOSING}.")
    return _joined(parts)


def _sentence(ask: Ask, noun: str, plain: bool, chance: random.Random) -> str:
    right = TOPICS[ask.topic].get(noun, VERBS[0])
    verb = right if chance.random() < 0.6 else chance.choice(VERBS)
    told = f"**{noun}**" if not plain and chance.random() < 0.3 else noun
    adjective = f"{chance.choice(ADJECTIVES)} " if chance.random() < 0.2 else ""
    comma = "," if chance.random() < 0.01 else ""
    return f"{ask.topic} {verb}{comma} {adjective}{told}."


def _joined(parts: list[str]) -> str:
    """With a space between two sentences, and none after a line break or before a decoration."""
    text = ""
    for part in parts:
        apart = text and not text.endswith("\n") and not part.startswith(("\n", " "))
        text += f" {part}" if apart else part
    return text
