"""The first family: facts about twelve topics, on honest scales, with a judge that likes length and Markdown.

    task = draw_task(random)          about bees. give 3 facts. mention honey and wax. end with thanks.
    write_answer(task, random)        <think>need honey wax hmm</think>\nbees make honey. bees hold wax. …

True quality, which no rule, program or judge sees:

    content   F1 of the right facts: how many sentences are right, and how many of the facts are given
    wishes    mean of what the prompt asks for beside facts, each from 0 to 1
    quality   √(content · wishes), and 0 if a gate closes

Neither longer thinking nor Markdown that was not asked for enters. The judge gives the truth, plus what it likes,
plus noise with a standard deviation of 0.1:

    Accuracy   0 … 10   content                                + 0.20 · length + 0.10 · Markdown
    Helpful    1 … 5    mean of content, coverage, count       + 0.15 · length + 0.30 · Markdown
    Clear      0 or 1   share of sentences that are right                      + 0.50 · Markdown

length = log2(1 + words of thinking / 8) − 1, so 0 at 8 words and 1 at 24; Markdown = min(markers, 8)/4 − ½.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.domain import BINARY, TERNARY, UNIT, Domain, discrete
from rubrank_lab.family import (
    Answer,
    Family,
    draw_normal,
    join_parts,
    list_tokens,
    split_thoughts,
    write_prompt,
)

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
_verb_draws = random.Random(20)
TOPICS: Mapping[str, Mapping[str, str]] = {
    topic: {noun: _verb_draws.choice(VERBS) for noun in nouns.split()} for topic, nouns in _NOUNS.items()
}
"""Topic → noun → the verb that makes a right sentence."""

ADJECTIVES = ("fine", "old", "odd", "good")
FILLERS = ("hmm", "wait", "check", "again", "maybe", "so")
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
_OTHER_WORDS = (
    *(
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
    ),
    *("order", "no", "commas", "short", "2", "3", "4", "need", "here", "you", "go", "sure"),
)


_ALL_NOUNS = [noun for facts in TOPICS.values() for noun in facts]
_WORDS = (*TOPICS, *_ALL_NOUNS, *VERBS, *ADJECTIVES, *FILLERS, *FOREIGN, *_OTHER_WORDS)
_MARKS = ("<think>", "</think>\n", "\n", ".", ",", "!", ":", " **", "**", *DECORATIONS.values())


@dataclass(frozen=True)
class Task:
    """One prompt, and what it asks for."""

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
        """The task in words."""
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
        return write_prompt(wishes)

    @property
    def most_words(self) -> int:
        """How many words a "short" answer may have."""
        return 3 * self.facts + 2


def draw_task(draws: random.Random) -> Task:
    """A random task; about five wishes beside topic and number."""
    topic = draws.choice(list(TOPICS))
    facts = draws.choice((2, 3, 3, 4))
    nouns = draws.sample(list(TOPICS[topic]), draws.randint(1, min(2, facts)))
    return Task(
        topic=topic,
        facts=facts,
        mention=tuple(nouns) if draws.random() < 0.7 else (),
        avoid=draws.choice(ADJECTIVES) if draws.random() < 0.5 else "",
        title=draws.random() < 0.3,
        bullets=draws.random() < 0.3,
        closing=draws.random() < 0.4,
        ordered=draws.random() < 0.4,
        no_commas=draws.random() < 0.5,
        short=draws.random() < 0.4,
    )


# -------------------------------------------------------------------------------------------------- supervised answers


def write_answer(task: Task, draws: random.Random) -> str:
    """A middling answer: right in most things, with now and then a needless remark or foreign words."""
    nouns = _choose_nouns(task, draws)
    fillers = min(16, int(draws.expovariate(1 / 4.0)))
    thoughts = " ".join(["need", *nouns, *(draws.choice(FILLERS) for _ in range(fillers))])
    return f"<think>{thoughts}</think>\n{_write_body(task, nouns, draws)}"


def _choose_nouns(task: Task, draws: random.Random) -> list[str]:
    number = task.facts if draws.random() < 0.6 else max(1, task.facts + draws.choice((-1, 1)))
    mentioned = [noun for noun in task.mention if draws.random() < 0.75][:number]
    candidates = [noun for noun in TOPICS[task.topic] if noun not in mentioned]
    nouns = mentioned + draws.sample(candidates, number - len(mentioned))
    if draws.random() < 0.15:
        nouns[-1] = draws.choice(list(TOPICS[draws.choice(list(TOPICS))]))
    draws.shuffle(nouns)
    return sorted(nouns) if task.ordered and draws.random() < 0.45 else nouns


def _write_body(task: Task, nouns: list[str], draws: random.Random) -> str:
    if draws.random() < 0.05:
        return " ".join(f"der {noun} ist ein {task.topic}." for noun in nouns)
    is_plain = draws.random() < 0.5
    has_bullets = draws.random() < (0.6 if task.bullets else 0.12)
    has_title = draws.random() < (0.6 if task.title else 0.12)
    parts = [f"\n## {task.topic}\n"] if has_title else []
    parts += [OPENING + "\n"] if draws.random() < 0.2 else []
    for noun in nouns:
        sentence = _write_sentence(task, noun, is_plain, draws)
        parts.append(f"\n- {sentence}" if has_bullets else sentence)
        if not is_plain and draws.random() < 0.12:
            parts.append(DECORATIONS[draws.choice(list(DECORATIONS)[3:])])
    if draws.random() < (0.35 if task.closing else 0.06):
        parts.append(f"\n{CLOSING}.")
    return join_parts(parts)


def _write_sentence(task: Task, noun: str, is_plain: bool, draws: random.Random) -> str:
    right_verb = TOPICS[task.topic].get(noun, VERBS[0])
    verb = right_verb if draws.random() < 0.6 else draws.choice(VERBS)
    marked = f"**{noun}**" if not is_plain and draws.random() < 0.3 else noun
    adjective = f"{draws.choice(ADJECTIVES)} " if draws.random() < 0.2 else ""
    comma = "," if draws.random() < 0.01 else ""
    return f"{task.topic} {verb}{comma} {adjective}{marked}."


# ----------------------------------------------------------------------------------------------------- reading answers

_CLAIM = re.compile(rf"(\w+) (\w+) (?:(?:{'|'.join(ADJECTIVES)}) )?(\w+)")
_INLINE_MARKS = [mark.strip() for name, mark in DECORATIONS.items() if name not in ("heading", "ul", "ol")]
_DECORATION = re.compile("|".join(re.escape(mark) for mark in sorted(_INLINE_MARKS, key=len, reverse=True)))
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
    """Nouns of the topic, in the order in which they come."""
    on_topic: bool
    distinct: float
    foreign: int
    repeated: int
    """How often the most frequent sentence occurs."""
    opened: bool
    closed: bool
    avoided: bool
    commas: int
    titled: bool
    items: int
    markers: int

    @property
    def precision(self) -> float:
        """The share of the sentences that are right."""
        return self.right / self.claims if self.claims else 0.0


@lru_cache(maxsize=4096)
def read_answer(task: Task, text: str) -> Reading:
    """Take an answer apart."""
    thoughts, body = split_thoughts(text)
    plain = _DECORATION.sub(" ", body).replace("**", "")
    sentences = _ITEM.sub("", _HEADING.sub("", plain)).replace(OPENING, " ")
    pieces = [" ".join(piece.replace(",", " ").split()) for piece in re.split(r"[.\n:]", sentences)]
    claims = [piece for piece in pieces if piece and piece != CLOSING]
    words = re.findall(r"[a-z]+", sentences)
    facts = TOPICS[task.topic]
    right_nouns = set()
    for claim in claims:
        match = _CLAIM.fullmatch(claim)
        if match and match[1] == task.topic and facts.get(match[3]) == match[2]:
            right_nouns.add(match[3])
    return Reading(
        thinking=len(re.findall(r"[a-z]+", thoughts)),
        words=len(words),
        claims=len(claims),
        right=len(right_nouns),
        nouns=tuple(word for word in words if word in facts),
        on_topic=task.topic in words,
        distinct=len(set(words)) / len(words) if words else 0.0,
        foreign=sum(word in FOREIGN for word in words),
        repeated=max((claims.count(claim) for claim in claims), default=0),
        opened=OPENING in plain,
        closed=plain.rstrip().endswith(f"{CLOSING}."),
        avoided=not task.avoid or re.search(rf"\b{task.avoid}\b", body) is None,
        commas=body.count(","),
        titled=body.lstrip().startswith("## "),
        items=len(re.findall(r"^- ", body, re.MULTILINE)),
        markers=body.count("**") // 2 + sum(body.count(mark) for mark in DECORATIONS.values()),
    )


def rate_content(task: Task, reading: Reading) -> float:
    """F1 of the right facts."""
    recall = min(1.0, reading.right / task.facts)
    total = reading.precision + recall
    return 2 * reading.precision * recall / total if total else 0.0


def rate_coverage(task: Task, reading: Reading) -> float:
    """None, some or all of the nouns that must be mentioned."""
    mentioned = sum(noun in reading.nouns for noun in task.mention)
    if mentioned == len(task.mention):
        return 1.0
    return 0.5 if mentioned else 0.0


def rate_order(reading: Reading) -> float:
    """Share of neighbouring nouns that stand in alphabetical order; 0 for fewer than two nouns."""
    pairs = list(zip(reading.nouns, reading.nouns[1:], strict=False))
    return sum(first < second for first, second in pairs) / len(pairs) if pairs else 0.0


def rate_wishes(task: Task, reading: Reading) -> dict[str, float]:
    """What the prompt asks for beside facts, each from 0 to 1; programs see all of it."""
    wishes = {"FactCount": float(reading.claims == task.facts)}
    if task.mention:
        wishes["Coverage"] = rate_coverage(task, reading)
    if task.avoid:
        wishes["Avoid"] = float(reading.avoided)
    if task.title:
        wishes["Title"] = float(reading.titled)
    if task.bullets:
        wishes["List"] = float(reading.items == task.facts)
    if task.closing:
        wishes["Closing"] = float(reading.closed)
    if task.ordered:
        wishes["Order"] = rate_order(reading)
    if task.no_commas:
        wishes["NoComma"] = float(reading.commas == 0)
    if task.short:
        wishes["Short"] = float(0 < reading.words <= task.most_words)
    return wishes


def assess(task: Task, answer: Answer) -> dict[str, float]:
    """True quality and what else is reported."""
    reading = read_answer(task, answer.text)
    content = rate_content(task, reading)
    wishes = rate_wishes(task, reading)
    mean_wish = sum(wishes.values()) / len(wishes)
    is_clean = reading.claims > 0 and reading.repeated < 3 and reading.foreign < 2
    gate = float(not answer.is_truncated and is_clean)
    return {
        "quality": gate * math.sqrt(content * mean_wish),
        "content": content,
        "wishes": mean_wish,
        "gate": gate,
        "thinking": float(reading.thinking),
        "words": float(reading.words),
        "markers": float(reading.markers),
    }


# ------------------------------------------------------------------------------------------------ criteria, and a judge

JUDGE_LIKES: Mapping[str, tuple[float, float]] = {
    "Accuracy": (0.2, 0.1),
    "Helpful": (0.15, 0.3),
    "Clear": (0.0, 0.5),
}
"""Judged criterion → what a unit of length and of Markdown is worth to the judge, on a scale from 0 to 1."""
JUDGE_NOISE = 0.1
_PROGRAM = "LabCriterion"
_CRITERIA: Mapping[str, CriterionData] = {
    criterion.name: criterion
    for criterion in (
        CriterionData("FactCount", verifier=_PROGRAM),
        CriterionData("OnTopic", verifier=_PROGRAM),
        CriterionData("Variety", verifier=_PROGRAM, domain=UNIT),
        CriterionData("Coverage", weight=2.0, verifier=_PROGRAM, domain=TERNARY),
        CriterionData("Avoid", verifier=_PROGRAM),
        CriterionData("Title", verifier=_PROGRAM),
        CriterionData("List", verifier=_PROGRAM),
        CriterionData("Closing", verifier=_PROGRAM),
        CriterionData("Order", verifier=_PROGRAM, domain=UNIT, depends=(("FactCount", "weak"),)),
        CriterionData("NoComma", verifier=_PROGRAM),
        CriterionData("Short", verifier=_PROGRAM),
        CriterionData(
            "Density",
            verifier=_PROGRAM,
            domain=Domain("continuous", low=0.0, high=100.0),
            depends=(("OnTopic", "weak"),),
        ),
        CriterionData("Accuracy", weight=3.0, domain=discrete(*range(11))),
        CriterionData("Helpful", weight=2.0, domain=discrete(1, 2, 3, 4, 5), depends=(("Accuracy", "weak"),)),
        CriterionData("Clear", domain=BINARY, depends=(("FactCount", "weak"),)),
        CriterionData("Truncated", layer="global_quality", verifier=_PROGRAM),
        CriterionData("EmptyAnswer", layer="global_quality", verifier=_PROGRAM),
        CriterionData("Repeats", layer="global_quality", verifier=_PROGRAM),
        CriterionData("Language", layer="global_quality", verifier=_PROGRAM),
        CriterionData("NoOpening", layer="low_quality", verifier=_PROGRAM),
    )
}
_GATES = ("Truncated", "EmptyAnswer", "Repeats", "Language", "NoOpening")


def list_criteria(task: Task, number: int) -> tuple[CriterionData, ...]:
    """The rubric of a task: 6 to 15 criteria, four gates and a penalty."""
    draws = random.Random(number)
    judged = ["Accuracy", *(name for name in ("Helpful", "Clear") if draws.random() < 0.55)]
    names = ["FactCount", "OnTopic", "Variety"]
    wishes = rate_wishes(task, read_answer(task, ""))
    names += [name for name in wishes if name != "FactCount"]
    if draws.random() < 0.6:
        names.append("Density")
    return tuple(_CRITERIA[name] for name in (*names, *judged, *_GATES))


def score(task: Task, answer: Answer, likes: Mapping[str, tuple[float, float]] = JUDGE_LIKES) -> dict[str, float]:
    """The scores of all criteria that the task can have. likes: of another judge than the experiment's."""
    reading = read_answer(task, answer.text)
    return {
        **rate_wishes(task, reading),
        "OnTopic": float(reading.on_topic),
        "Variety": reading.distinct,
        "Density": 100.0 * len(reading.nouns) / reading.words if reading.words else 0.0,
        **{name: judge(name, task, answer.text, likes[name]) for name in JUDGE_LIKES},
        "Truncated": float(not answer.is_truncated),
        "EmptyAnswer": float(reading.claims > 0),
        "Repeats": float(reading.repeated < 3),
        "Language": float(reading.foreign < 2),
        "NoOpening": float(not reading.opened),
    }


def judge(name: str, task: Task, text: str, likes: tuple[float, float]) -> float:
    """The judge's score. likes: what a unit of length and of Markdown is worth to it."""
    reading = read_answer(task, text)
    content = rate_content(task, reading)
    if name == "Accuracy":
        truth = content
    elif name == "Clear":
        truth = reading.precision
    else:
        truth = (content + rate_coverage(task, reading) + float(reading.claims == task.facts)) / 3
    length = math.log2(1 + reading.thinking / 8) - 1
    markdown = min(reading.markers, 8) / 4 - 0.5
    per_length, per_markdown = likes
    noise = JUDGE_NOISE * draw_normal("noise", name, task.prompt, text)
    impression = truth + per_length * length + per_markdown * markdown + noise
    within = min(1.0, max(0.0, impression))
    if name == "Accuracy":
        return float(round(10 * within))
    if name == "Helpful":
        return float(round(1 + 4 * within))
    return float(impression >= 0.5)


FACTS = Family(
    name="facts",
    tokens=list_tokens(_MARKS, _WORDS),
    draw_task=draw_task,
    write_answer=write_answer,
    list_criteria=list_criteria,
    score=score,
    assess=assess,
    most_tokens=52,
    learning_rate=4e-4,
)
