"""Load the texts of prompts from `prompts/en/*.txt` and `prompts/zh/*.txt`, one file for each criterion.

    load_prompt("CoreFactAccuracy", "en").anchors          {0.0: "The main point …", 0.5: "The larger …", 1.0: "All …"}

A file consists of sections. On the left is a file, on the right what each section is for:

    [version]                       raised whenever the wording changes
    1
    [question]                      what is asked
    Are the core facts all there and right?
    [counts]                        what counts; one line for each
    [ignore]                        what does not count
    [edges]                         special cases
    [anchors]                       what the values mean, as shares of the domain: 0 = its low end, 1 = its high end
    1: All core facts are there and right.
    0.5: The larger part is.
    0: The main point is wrong or missing.
    [findings]                      the conclusion of the reasoning in a word; must agree with the verdict
    high: accurate
    between: partly accurate
    low: inaccurate

And if a criterion needs them:

    [needs]                         what a judge needs besides query and response: "system prompt", "earlier turns", or
    reference: core_facts, facts    reference material: `criterion.reference`, and parameters or metadata of these names
    [without]                       instruction to the judge if that is not there
    [cannot]                        when it may say that it cannot judge (the verdict is then missing)
    [params]                        how a parameter is put into words; {} is its value, `name=true` for truth values
    keys: It must hold these keys or columns: {}.
    [items]                         what a judge lists instead of giving a verdict; code computes the value
    rule: facts                     how, a name in `parsing/verdicts.py`
    values: 3                       the rule is for domains with so many values; 0 = a range
    each: every core fact           what an item is
    count: reference                there must be as many items as the reference has (may be left out)
    right: right | stated, and right        a verdict's name in code, the word for it, what it means

A line that consists of `[name]` starts a section; blank lines around a section are ignored. Files that begin with `_`
are frames, which the texts of a criterion are put into: texts that all criteria share (`_common`), the frame of a
user's question (`_question`), and one frame for each kind of judge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

from rubrank.errors import UnknownName
from rubrank.rubrics.rubric import Criterion

PromptLanguage: TypeAlias = Literal["en", "zh"]
LANGUAGES: tuple[PromptLanguage, ...] = ("en", "zh")

FOLDER = Path(__file__).parents[1] / "prompts"
_HEADER = re.compile(r"^\[([a-z]+)\]\s*$", re.MULTILINE)  # a line "[anchors]"
_SLOT = re.compile(r"\{(\w+)\}")  # "{criterion}"


@dataclass(frozen=True)
class Items:
    """The section `items`: what a judge lists instead of giving a verdict, and what it says about each item."""

    rule: str
    """How code computes a value from the items; a name in `parsing/verdicts.py`."""
    values: int
    """The rule is for domains with this many values; 0: a range."""
    each: str
    """What an item is, such as "every core fact"."""
    words: Mapping[str, tuple[str, str]]
    """Verdict about an item, by its name in code → (the word that the judge uses, what it means)."""
    counted: bool = False
    """Must there be as many items as the reference has?"""


@dataclass(frozen=True)
class Prompt:
    """The sections of one file; properties parse those that are more than text."""

    name: str
    language: PromptLanguage
    sections: Mapping[str, str]

    def __getitem__(self, section: str) -> str:
        return self.sections[section]

    def get(self, section: str) -> str:
        """Return the section, or ""."""
        return self.sections.get(section, "")

    @cached_property
    def version(self) -> int:
        """A number that is raised whenever the wording changes."""
        return int(self["version"])

    @cached_property
    def anchors(self) -> dict[float, str]:
        """Share of the domain → what it means, lowest first."""
        return dict(sorted((float(key), text) for key, text in self._read_pairs("anchors")))

    @cached_property
    def findings(self) -> dict[str, str]:
        """Level (high, between, low) → the word for it."""
        return dict(self._read_pairs("findings"))

    @cached_property
    def params(self) -> dict[str, str]:
        """Parameter, or parameter=value → a sentence about it."""
        return dict(self._read_pairs("params"))

    @cached_property
    def labels(self) -> dict[str, str]:
        """Name → short text; only in the frame `_common`."""
        return dict(self._read_pairs("labels"))

    @cached_property
    def needs(self) -> dict[str, tuple[str, ...]]:
        """What is needed → the names under which parameters or metadata may hold it."""
        needs = {}
        for need, names in self._read_pairs("needs"):
            needs[need] = tuple(name.strip() for name in names.split(",") if name.strip())
        return needs

    @cached_property
    def items(self) -> Items | None:
        """What a judge lists instead of giving a verdict; None: it gives a verdict."""
        lines = dict(self._read_pairs("items"))
        if not lines:
            return None
        rule = lines.pop("rule")
        values = int(lines.pop("values"))
        each = lines.pop("each")
        counted = lines.pop("count", "") == "reference"
        words = {}
        for name, text in lines.items():  # the other lines are verdicts
            word, _, meaning = text.partition("|")
            words[name] = (word.strip(), meaning.strip())
        return Items(rule=rule, values=values, each=each, words=words, counted=counted)

    def _read_pairs(self, section: str) -> list[tuple[str, str]]:
        """Return the lines "key: text" of a section as pairs."""
        pairs = []
        for line in self.get(section).splitlines():
            if line.strip():
                key, _, text = line.partition(":")
                pairs.append((key.strip(), text.strip()))
        return pairs


@lru_cache(maxsize=256)
def load_prompt(name: str, language: PromptLanguage) -> Prompt:
    """Load a prompt by the name of its file, such as "CoreFactAccuracy" or "_common"."""
    text = (FOLDER / language / f"{name}.txt").read_text(encoding="utf-8")
    _, *pieces = _HEADER.split(
        text
    )  # [text before the headers, header, section, header, section, …]
    headers = pieces[0::2]
    bodies = pieces[1::2]
    sections = {header: body.strip() for header, body in zip(headers, bodies, strict=True)}
    return Prompt(name, language, sections)


def load_labels(language: PromptLanguage) -> dict[str, str]:
    """Return the short texts that all prompts of a language share, such as headings, by their names."""
    return load_prompt("_common", language).labels


@lru_cache(maxsize=1)
def list_prompt_names() -> frozenset[str]:
    """Return the names of the criteria that have a prompt file."""
    return frozenset(
        path.stem for path in (FOLDER / "en").glob("*.txt") if not path.stem.startswith("_")
    )


def load_criterion_prompt(criterion: Criterion, language: PromptLanguage) -> Prompt:
    """Return the prompt of a criterion: its own, or the frame `_question` if it has a question of the user.

    Raises UnknownName if it has neither.
    """
    if criterion.question is not None:
        return load_prompt("_question", language)
    name = criterion.prompt_name
    if name not in list_prompt_names():
        raise UnknownName.of(
            f"criterion {criterion.name!r} for a judge", "name", name, list_prompt_names()
        )
    return load_prompt(name, language)


def fill(text: str, **values: object) -> str:
    """Return the text with values in its slots: fill("of {n} items", n=3) gives "of 3 items".

    A slot without a value stays. A slot within the text of a value is not filled, because a response may contain one.
    """
    return _SLOT.sub(lambda slot: str(values.get(slot[1], slot[0])), text)
