"""The second family: cooking for some guests, with a judge on a compressed and drifting scale. No rule was made for it.

    task = draw_task(random)         soup for 3. use 2 items. with leek. add a tip.
    write_answer(task, random)       <think>leek 2 x 3 is 6 chop, ok</think>\nchop 6 leek. boil 3 rice. tip: taste it.

A dish has five items. Each has an action and an amount per guest. True quality, which no rule, program or judge sees:

    items     F1 of the items that belong to the dish
    amounts   mean closeness 1 − |given − right| / right of the belonging items: continuous, and it counts
    method    share of the items asked for that belong and have the right action: it builds on items
    wishes    mean of what else the prompt asks for
    quality   (items · amounts · (0.2 + 0.8 method) · wishes)^¼, and 0 if a gate closes

Thinking helps up to a point: an item that is worked out in the thoughts is usually right in the answer, one that is
not is wrong more often than right. Once every item is worked out, more thinking changes nothing.

The judge gives scores from 1 to 10 and uses 6 to 9, and it becomes more lenient by a point over the run:

    score = 6 + 2 · impression + step/64, rounded to halves        impression = truth + liking + noise (sd 0.12)
    Method    truth = method                                         + 0.20 · length + 0.10 · Markdown
    Helpful   truth = mean of items, amounts, wishes                 + 0.15 · length + 0.25 · Markdown
    Sound     truth = share of the calculations in the thoughts      + 0.25 · length
              that are right

length = log2(1 + words of thinking / 12) − 1, so 0 at 12 words and 1 at 36; Markdown = min(markers, 6)/3 − ½.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.domain import TERNARY, UNIT, Domain
from rubrank_lab.family import (
    Answer,
    Family,
    draw_normal,
    join_parts,
    list_tokens,
    split_thoughts,
    write_prompt,
)

ACTIONS = ("chop", "boil", "fry", "mix", "bake", "grate")
_ITEMS: Mapping[str, str] = {
    "soup": "leek rice beans onion stock",
    "stew": "beef carrots onion wine beans",
    "pie": "apples flour butter sugar eggs",
    "curry": "rice lentils onion spice cream",
    "salad": "lettuce beans cheese olives eggs",
    "pasta": "noodles cheese cream basil garlic",
    "cake": "flour eggs sugar butter nuts",
    "pizza": "flour cheese olives basil onion",
    "roast": "beef potatoes carrots garlic wine",
    "omelet": "eggs cheese leek butter spice",
}
_draws = random.Random(41)
DISHES: Mapping[str, Mapping[str, tuple[str, int]]] = {
    dish: {item: (_draws.choice(ACTIONS), _draws.choice((1, 2, 3))) for item in items.split()}
    for dish, items in _ITEMS.items()
}
"""Dish → item → its action, and its amount per guest."""
_ALL_ITEMS = sorted({item for items in DISHES.values() for item in items})
FILLERS = ("hmm", "ok", "wait", "well", "right", "so")
OPENING = "welcome to my kitchen!"
TIP = "tip: taste it."
MARKUP = ("\n## ", "\n- ", "\n> ", " *yum*", "\n\n---\n")
"""Markdown that is one token each; bold is put round an item."""
_OTHER_WORDS = (
    *(
        "for",
        "use",
        "items",
        "with",
        "and",
        "no",
        "add",
        "a",
        "tip",
        "taste",
        "it",
        "say",
        "the",
        "time",
        "be",
    ),
    *(
        "brief",
        "x",
        "is",
        "minutes",
        "welcome",
        "to",
        "my",
        "kitchen",
        "raw",
        *map(str, range(1, 13)),
        "20",
        "40",
    ),
)
_WORDS = (*DISHES, *_ALL_ITEMS, *ACTIONS, *FILLERS, *_OTHER_WORDS)
_MARKS = ("<think>", "</think>\n", "\n", ".", ",", ":", "!", " **", "**", *MARKUP)


@dataclass(frozen=True)
class Task:
    """One prompt, and what it asks for."""

    dish: str
    guests: int
    items: int
    required: tuple[str, ...] = ()
    avoid: str = ""
    time: bool = False
    tip: bool = False
    brief: bool = False

    @property
    def prompt(self) -> str:
        """The task in words."""
        wishes = [
            f"{self.dish} for {self.guests}",
            f"use {self.items} items",
            f"with {' and '.join(self.required)}" if self.required else "",
            f"no {self.avoid}" if self.avoid else "",
            "say the time" if self.time else "",
            "add a tip" if self.tip else "",
            "be brief" if self.brief else "",
        ]
        return write_prompt(wishes)

    @property
    def most_words(self) -> int:
        """How many words a brief answer may have."""
        return 3 * self.items + 3 * self.tip + 3 * self.time


def draw_task(draws: random.Random) -> Task:
    """A random task."""
    dish = draws.choice(list(DISHES))
    number = draws.choice((2, 3, 3))
    names = draws.sample(list(DISHES[dish]), 3)
    return Task(
        dish=dish,
        guests=draws.choice((2, 3, 4)),
        items=number,
        required=tuple(names[: draws.randint(1, 2)]) if draws.random() < 0.6 else (),
        avoid=names[2] if draws.random() < 0.4 else "",
        time=draws.random() < 0.4,
        tip=draws.random() < 0.4,
        brief=draws.random() < 0.4,
    )


# -------------------------------------------------------------------------------------------------- supervised answers


def write_answer(task: Task, draws: random.Random) -> str:
    """A middling answer; an item that is worked out in the thoughts is usually right."""
    number = task.items if draws.random() < 0.65 else max(1, task.items + draws.choice((-1, 1)))
    names = [item for item in task.required if draws.random() < 0.7][:number]
    candidates = [item for item in DISHES[task.dish] if item not in names]
    if task.avoid and draws.random() < 0.6:
        candidates.remove(task.avoid)
    names += draws.sample(candidates, min(len(candidates), number - len(names)))
    if draws.random() < 0.2:
        names[-1] = draws.choice(_ALL_ITEMS)
    draws.shuffle(names)
    share_planned = draws.choice((0.0, 0.3, 0.6, 0.9))
    thoughts = []
    sentences = []
    is_plain = draws.random() < 0.5
    bulleted = draws.random() < 0.25
    for item in names:
        right_action, base = DISHES[task.dish].get(item, (draws.choice(ACTIONS), draws.choice((1, 2, 3))))
        if draws.random() < share_planned:
            action = right_action if draws.random() < 0.9 else draws.choice(ACTIONS)
            base = base if draws.random() < 0.9 else draws.choice((1, 2, 3))
            amount = base * task.guests if draws.random() < 0.95 else draws.randint(1, 12)
            thoughts.append(f"{item} {base} x {task.guests} is {amount} {action},")
        else:
            action = right_action if draws.random() < 0.4 else draws.choice(ACTIONS)
            amount = base * task.guests if draws.random() < 0.25 else draws.randint(1, 12)
        marked = f"**{item}**" if not is_plain and draws.random() < 0.3 else item
        sentence = f"{action} {amount} {marked}."
        sentences.append(f"\n- {sentence}" if bulleted else sentence)
        if not is_plain and draws.random() < 0.12:
            sentences.append(draws.choice(MARKUP[2:]))
    fillers = min(12, int(draws.expovariate(1 / 3.0)))
    thoughts += [draws.choice(FILLERS) for _ in range(fillers)]
    parts = [f"\n## {task.dish}\n"] if draws.random() < 0.15 else []
    parts += [f"{OPENING}\n"] if draws.random() < 0.2 else []
    parts += sentences
    if draws.random() < 0.04:
        parts.append(f"raw {draws.choice(_ALL_ITEMS)}.")
    if draws.random() < (0.45 if task.time else 0.06):
        parts.append(f"time {draws.choice((20, 40))} minutes.")
    if draws.random() < (0.4 if task.tip else 0.06):
        parts.append(TIP)
    return f"<think>{' '.join(thoughts)}</think>\n{join_parts(parts)}"


# ----------------------------------------------------------------------------------------------------- reading answers

_STEP = re.compile(rf"({'|'.join(ACTIONS)}) (\d+) (\w+)")
_CALCULATION = re.compile(r"(\d+) x (\d+) is (\d+)")
_MARK = re.compile("|".join(re.escape(mark.strip()) for mark in MARKUP[2:]))
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)


@dataclass(frozen=True)
class Reading:
    """What can be read off an answer."""

    thinking: int
    """Words and numbers of the thinking part."""
    words: int
    sentences: int
    steps: int
    """Sentences that name an action, an amount and an item."""
    items: float
    """F1 of the belonging items."""
    amounts: float
    method: float
    sound: float
    """Share of the calculations in the thoughts that are right; 0 without any."""
    names: frozenset[str]
    distinct: float
    repeated: int
    is_raw: bool
    opened: bool
    has_time: bool
    has_tip: bool
    markers: int


@lru_cache(maxsize=4096)
def read_answer(task: Task, text: str) -> Reading:
    """Take an answer apart."""
    thoughts, body = split_thoughts(text)
    plain = _HEADING.sub("", _MARK.sub(" ", body).replace("**", "")).replace(OPENING, " ")
    sentences = [piece.strip(" -\n") for piece in re.split(r"[.\n]", plain)]
    sentences = [sentence for sentence in sentences if sentence]
    words = re.findall(r"\w+", plain)
    right = DISHES[task.dish]
    steps = [match for sentence in sentences if (match := _STEP.fullmatch(sentence))]
    closeness: dict[str, float] = {}
    well_made = set()
    for action, amount, item in (step.groups() for step in steps):
        if item in right and item not in closeness:
            target = right[item][1] * task.guests
            closeness[item] = max(0.0, 1.0 - abs(int(amount) - target) / target)
            if right[item][0] == action:
                well_made.add(item)
    precision = len(closeness) / len(steps) if steps else 0.0
    recall = min(1.0, len(closeness) / task.items)
    calculations = [tuple(map(int, match.groups())) for match in _CALCULATION.finditer(thoughts)]
    right_calculations = sum(base * guests == amount for base, guests, amount in calculations)
    return Reading(
        thinking=len(re.findall(r"\w+", thoughts)),
        words=len(words),
        sentences=len(sentences),
        steps=len(steps),
        items=2 * precision * recall / (precision + recall) if closeness else 0.0,
        amounts=sum(closeness.values()) / len(closeness) if closeness else 0.0,
        method=min(1.0, len(well_made) / task.items),
        sound=right_calculations / len(calculations) if calculations else 0.0,
        names=frozenset(step[3] for step in steps),
        distinct=len(set(words)) / len(words) if words else 0.0,
        repeated=max((sentences.count(sentence) for sentence in sentences), default=0),
        is_raw="raw" in words,
        opened=OPENING in body,
        has_time=re.search(r"time \d+ minutes", plain) is not None,
        has_tip=TIP in plain,
        markers=body.count("**") // 2 + sum(body.count(mark) for mark in MARKUP),
    )


def rate_wishes(task: Task, reading: Reading) -> dict[str, float]:
    """What the prompt asks for beside a right recipe, each from 0 to 1; programs see all of it."""
    wishes = {"ItemCount": float(reading.steps == task.items)}
    if task.required:
        used = sum(item in reading.names for item in task.required)
        wishes["Required"] = 0.0
        if used:
            wishes["Required"] = 1.0 if used == len(task.required) else 0.5
    if task.avoid:
        wishes["Avoid"] = float(task.avoid not in reading.names)
    if task.time:
        wishes["Time"] = float(reading.has_time)
    if task.tip:
        wishes["Tip"] = float(reading.has_tip)
    if task.brief:
        wishes["Brief"] = float(0 < reading.words <= task.most_words)
    return wishes


def assess(task: Task, answer: Answer) -> dict[str, float]:
    """True quality and what else is reported."""
    reading = read_answer(task, answer.text)
    wishes = rate_wishes(task, reading)
    mean_wish = sum(wishes.values()) / len(wishes)
    is_clean = reading.steps > 0 and reading.repeated < 3 and not reading.is_raw
    gate = float(not answer.is_truncated and is_clean)
    product = reading.items * reading.amounts * (0.2 + 0.8 * reading.method) * mean_wish
    return {
        "quality": gate * math.sqrt(math.sqrt(product)),
        "content": (reading.items + reading.amounts + reading.method) / 3,
        "wishes": mean_wish,
        "gate": gate,
        "thinking": float(reading.thinking),
        "words": float(reading.words),
        "markers": float(reading.markers),
    }


# ------------------------------------------------------------------------------------------------ criteria, and a judge

JUDGE_LIKES: Mapping[str, tuple[float, float]] = {
    "Method": (0.2, 0.1),
    "Helpful": (0.15, 0.25),
    "Sound": (0.25, 0.0),
}
"""Judged criterion → what a unit of length and of Markdown is worth to the judge, on a scale from 0 to 1."""
JUDGE_NOISE = 0.12
JUDGE_LEAST, JUDGE_RANGE, JUDGE_DRIFT = 6.0, 2.0, 1.0 / 64
_PROGRAM = "LabCriterion"
_TEN = Domain("continuous", low=1.0, high=10.0)
_CRITERIA: Mapping[str, CriterionData] = {
    criterion.name: criterion
    for criterion in (
        CriterionData("ItemCount", verifier=_PROGRAM),
        CriterionData("Belongs", verifier=_PROGRAM),
        CriterionData("Amounts", weight=2.0, verifier=_PROGRAM, domain=UNIT, depends=(("Belongs", "strong"),)),
        CriterionData("Required", weight=2.0, verifier=_PROGRAM, domain=TERNARY),
        CriterionData("Avoid", verifier=_PROGRAM),
        CriterionData("Time", verifier=_PROGRAM),
        CriterionData("Tip", verifier=_PROGRAM),
        CriterionData("Brief", verifier=_PROGRAM, depends=(("ItemCount", "weak"),)),
        CriterionData("Variety", verifier=_PROGRAM, domain=UNIT),
        CriterionData("Method", weight=3.0, domain=_TEN, depends=(("Belongs", "strong"),)),
        CriterionData("Helpful", weight=2.0, domain=_TEN, depends=(("Method", "weak"),)),
        CriterionData("Sound", domain=_TEN),
        CriterionData("Truncated", layer="global_quality", verifier=_PROGRAM),
        CriterionData("EmptyAnswer", layer="global_quality", verifier=_PROGRAM),
        CriterionData("Repeats", layer="global_quality", verifier=_PROGRAM),
        CriterionData("Unsafe", layer="global_quality", verifier=_PROGRAM),
        CriterionData("NoOpening", layer="low_quality", verifier=_PROGRAM),
    )
}
_GATES = ("Truncated", "EmptyAnswer", "Repeats", "Unsafe", "NoOpening")


def list_criteria(task: Task, number: int) -> tuple[CriterionData, ...]:
    """The rubric of a task: 5 to 12 criteria, four gates and a penalty."""
    draws = random.Random(number)
    judged = ["Method", *(name for name in ("Helpful", "Sound") if draws.random() < 0.6)]
    wishes = rate_wishes(task, read_answer(task, ""))
    names = ["Belongs", "Amounts", *wishes]
    if draws.random() < 0.5:
        names.append("Variety")
    return tuple(_CRITERIA[name] for name in (*names, *judged, *_GATES))


def score(task: Task, answer: Answer) -> dict[str, float]:
    """The scores of all criteria that the task can have."""
    reading = read_answer(task, answer.text)
    right = DISHES[task.dish]
    return {
        **rate_wishes(task, reading),
        "Belongs": float(bool(reading.names) and all(item in right for item in reading.names)),
        "Amounts": reading.amounts,
        "Variety": reading.distinct,
        **{name: judge(name, task, answer) for name in JUDGE_LIKES},
        "Truncated": float(not answer.is_truncated),
        "EmptyAnswer": float(reading.sentences > 0),
        "Repeats": float(reading.repeated < 3),
        "Unsafe": float(not reading.is_raw),
        "NoOpening": float(not reading.opened),
    }


def judge(name: str, task: Task, answer: Answer) -> float:
    """The judge's score, which depends on the step of the run, too."""
    reading = read_answer(task, answer.text)
    if name == "Method":
        truth = reading.method
    elif name == "Sound":
        truth = reading.sound
    else:
        wishes = rate_wishes(task, reading)
        truth = (reading.items + reading.amounts + sum(wishes.values()) / len(wishes)) / 3
    length = math.log2(1 + reading.thinking / 12) - 1
    markdown = min(reading.markers, 6) / 3 - 0.5
    per_length, per_markdown = JUDGE_LIKES[name]
    noise = JUDGE_NOISE * draw_normal("noise", name, task.prompt, answer.text)
    impression = truth + per_length * length + per_markdown * markdown + noise
    points = JUDGE_LEAST + JUDGE_RANGE * impression + JUDGE_DRIFT * answer.step
    return min(10.0, max(1.0, round(2 * points) / 2))


KITCHEN = Family(
    name="kitchen",
    tokens=list_tokens(_MARKS, _WORDS),
    draw_task=draw_task,
    write_answer=write_answer,
    list_criteria=list_criteria,
    score=score,
    assess=assess,
    most_tokens=64,
    learning_rate=4e-4,
)
