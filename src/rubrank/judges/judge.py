"""The contract of a judge: a model that is asked what no program can decide.

    judges.yaml
      judges:
        - name: main                        # asks about every judged criterion that no other judge names
          kind: batched
          endpoints:
            - {base_url: "http://localhost:8000/v1", model: Qwen3-32B}
        - name: ranker
          kind: listwise
          criteria: [GeneralQuality]
          endpoints:
            - {base_url: "https://api.openai.com/v1", model: gpt-5-mini, price: {input: 0.25, output: 2.0}}
      most_missing: 0.1                     # more missing answers than this share fail the step

    load_judges("judges.yaml")              Judges(judges=(Judge(name='main', …), …), …)

The way of a question, one named type for each arrow:

    cells → Call → Reply → Verdict, or outcomes of comparisons

A *kind* (`kinds/absolute.py`, `batched.py`, `pairwise.py`, `listwise.py`, `panel.py`) turns the cells of a group that
want a judge into `Call`s, hands them to an `Asker`, and reads its `Reply`s. The asker (`judges/client/`) knows about
endpoints, limits, retries, cost and the cache, and nothing about criteria. Whatever fails is *missing with a reason*,
never a number; what was spent on it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeAlias

import numpy as np
from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from rubrank._plain import Strict, validated
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.judges import kind_names
from rubrank.judges.template import Template
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import Verdict

JUDGED = "needs a judge"
"""How the reason of a cell begins that no verifier could decide."""

AWAY = "outage"
"""How the reason of an answer begins that was lost while no endpoint answered."""

Language: TypeAlias = Literal["auto", "en", "zh"]
Combine: TypeAlias = Literal["majority", "mean", "median"]
Structured: TypeAlias = Literal["auto", "json_schema", "json_object", "text"]
Order: TypeAlias = Literal["question_first", "data_first"]
OnOutage: TypeAlias = Literal["wait", "stop", "continue"]


class _Confidential(Strict):
    model_config = ConfigDict(hide_input_in_errors=True)  # it may hold secrets


# ------------------------------------------------------------------------------------------------------ configuration


class Price(_Confidential):
    """Of a million tokens, in whatever currency you count in."""

    input: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    output: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0.0, allow_inf_nan=False)
    """Of input tokens that the server had in its prefix cache; by default the price of input."""


class Batching(_Confidential):
    """The batch API of an endpoint (docs/scale.md): what it costs, and how much goes into one batch."""

    price: float = Field(default=0.5, ge=0.0, le=1.0, allow_inf_nan=False)
    """Share of the endpoint's prices that tokens cost in a batch; see your provider's list."""
    requests: int = Field(default=50_000, ge=1)
    megabytes: float = Field(default=190.0, gt=0.0, allow_inf_nan=False)
    """In one file, at most; larger ones are split."""
    window: str = "24h"
    """Within which the server is to answer; what it leaves open is sent again."""
    poll: float = Field(default=30.0, gt=0.0, allow_inf_nan=False)
    """Seconds between looks."""


class Endpoint(_Confidential):
    """A model on an OpenAI-compatible server: vLLM, SGLang, OpenAI, llama.cpp, `transformers serve`, Ollama …"""

    base_url: str = Field(repr=False)
    """It may hold a user and a password or a key in its query; `where` is the same without them."""
    model: str
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; local servers need none."""
    weight: float = Field(default=1.0, gt=0.0, allow_inf_nan=False)
    """Its share of the calls, where there are several; the others take over when it fails."""
    concurrency: int = Field(default=64, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    tokens_per_minute: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    structured: Structured = "auto"
    """How replies are held to their form. "auto": a JSON schema, and plain text once the server has refused it."""
    extra_body: Mapping[str, Any] = {}
    headers: Mapping[str, str] = Field(default={}, repr=False)
    price: Price = Price()
    batch: Batching = Batching()
    """What is so in batches of `rubrank grade`."""

    @field_validator("base_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise InvalidInput(
                "endpoint", "base_url", "a URL", repr(public_url(value)), "Such as http://localhost:8000/v1 for vLLM."
            )
        return value.rstrip("/")

    @property
    def where(self) -> str:
        """The URL as it may be printed and written: without secrets."""
        return public_url(self.base_url)


def public_url(url: str) -> str:
    """The URL without user, password, query and fragment: "https://me:key@host/v1?api-key=…" → "https://host/v1"."""
    address = re.split(r"[?#]", url, maxsplit=1)[0]
    scheme, sign, rest = address.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{sign}{host.rpartition('@')[2]}{slash}{path}"


class Sampling(_Confidential):
    """How the judge's model is sampled."""

    temperature: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    max_tokens: int = Field(default=1024, ge=1)
    seed: int | None = None


class Retry(_Confidential):
    """What is done about a call that fails."""

    attempts: int = Field(default=4, ge=1)
    first_wait: float = Field(default=0.5, ge=0.0)
    """Seconds; doubled each time, with jitter, unless the server says Retry-After."""
    longest_wait: float = Field(default=30.0, ge=0.0)
    breaker_failures: int = Field(default=8, ge=1)
    """So many failures in a row, and an endpoint is left alone for `breaker_pause` seconds."""
    breaker_pause: float = Field(default=20.0, ge=0.0)


class Judge(_Confidential):
    """One judge: what it is asked, how, and where."""

    name: str = "judge"
    kind: str = "batched"
    """"batched", "absolute", "pairwise", "listwise", or one that you registered (`rubrank.judge_kind`)."""
    endpoints: tuple[Endpoint, ...] = ()
    criteria: tuple[str, ...] | None = None
    """The criteria it decides; None: all that no other judge names."""
    sampling: Sampling = Sampling()
    language: Language = "auto"
    """Of the prompts; "auto": Chinese where the query is."""
    order: Order = "question_first"
    """What comes first in a call. "data_first": conversation and response, for long ones that several calls share."""
    prompt: Template | None = None
    """Messages of your own, with slots: a text file beside the file of judges (docs/prompts.md)."""
    timeout: float = Field(default=120.0, gt=0.0, allow_inf_nan=False)
    """Seconds for one call."""
    retry: Retry = Retry()
    # absolute, batched
    expected: bool = False
    """Score by the probabilities of all values of the domain (log-probabilities of the first token of the verdict),
    instead of the value said. Only for kind "absolute"."""
    # pairwise
    both_orders: bool = True
    pairs: int | None = Field(default=None, ge=1)
    """Pairs to compare in a group; None: all."""
    # listwise
    passes: int = Field(default=1, ge=1)
    """Calls for each group and criterion, each in another order."""
    # panel
    samples: int = Field(default=1, ge=1)
    """Answers asked from each member for every question."""
    members: tuple[Self, ...] = ()
    """Several judges that are asked the same; their answers are combined."""
    combine: Combine = "majority"
    examples: Mapping[str, tuple[Mapping[str, Any], ...]] = {}
    """Few-shot examples by criterion: {prompt, response, reasoning, verdict}."""
    seed: int = 0
    """Of orders and designs."""

    @field_validator("prompt", mode="before")
    @classmethod
    def _is_read(cls, value: Any, info: ValidationInfo) -> Any:
        folder = (info.context or {}).get("folder", Path())
        return None if value is None else Template.read(value, folder, f"judge {info.data.get('name', '')!r}")

    @field_validator("kind")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in kind_names():
            raise UnknownName.of("judge", "kind", value, kind_names())
        return value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.endpoints and not self.members:
            raise self.wrong("endpoints", "at least one, or members that have some", "none", "Say where to ask.")
        if self.endpoints and self.members:
            raise self.wrong("members", "left out where endpoints are given", "both", "A panel asks its members.")
        if self.expected and self.kind != "absolute":
            raise self.wrong("expected", 'used with kind "absolute"', f"kind {self.kind!r}", "Say kind: absolute.")
        if self.prompt is not None:
            self.prompt.check(self.kind, f"judge {self.name!r}")
        others = sorted({member.kind for member in self.members} - {self.kind})
        if others or any(member.members for member in self.members):
            got = f"kind {others[0]!r}" if others else "a panel in a panel"
            raise self.wrong("members", f"judges of the panel's kind {self.kind!r}", got, "Give all the same kind.")
        return self

    def wrong(self, parameter: str, allowed: str, got: str, remedy: str) -> InvalidInput:
        """An error about one of its settings."""
        return InvalidInput(f"judge {self.name!r}", parameter, allowed, got, remedy)

    @property
    def is_panel(self) -> bool:
        """Are several answers combined into one?"""
        return bool(self.members) or self.samples > 1

    @property
    def leaves(self) -> tuple[Judge, ...]:
        """Those that are asked: the members of a panel, or the judge itself."""
        return self.members or (self,)


class Judges(_Confidential):
    """All judges of a run, their cache, their deadline, and the share of answers that may be missing."""

    judges: tuple[Judge, ...] = Field(min_length=1)
    cascade: bool = True
    """Ask nothing about a rollout that a hard gate has stopped already."""
    deadline: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    """Seconds for all calls of one step; what is not answered by then is missing."""
    most_missing: float = Field(default=0.2, ge=0.0, le=1.0)
    """Share of the answers asked for that may be missing; above it the step fails, and always where all are."""
    on_outage: OnOutage = "wait"
    """What is done when no endpoint of a judge answers any more. "wait": up to `outage_wait` seconds, then stop;
    "stop": at once; "continue": what is asked meanwhile is missing."""
    outage_wait: float = Field(default=300.0, ge=0.0, allow_inf_nan=False)
    processes: int = Field(default=1, ge=1)
    """How many processes of the run ask at the same time: each takes its part of the endpoints' limits. Trainers that
    know the number say it themselves."""
    cache: str | None = None
    """The file in which replies are kept."""
    cache_only: bool = False
    """Answer from the cache; make no calls."""

    @model_validator(mode="after")
    def _no_overlap(self) -> Self:
        names = [judge.name for judge in self.judges]
        if len(set(names)) < len(names):
            raise InvalidInput("judges", "judges", "of different names", repr(names), "")
        owners = [judge.name for judge in self.judges if judge.criteria is None]
        if len(owners) > 1:
            raise InvalidInput(
                "judges", "criteria", "given for all judges but one", f"none for {owners}", "Say who decides what."
            )
        named = [name for judge in self.judges for name in judge.criteria or ()]
        twice = sorted({name for name in named if named.count(name) > 1})
        if twice:
            raise InvalidInput("judges", "criteria", "each of one judge", f"{twice} of two", "Use members for a panel.")
        if self.cache_only and self.cache is None:
            raise InvalidInput("judges", "cache_only", "used with a cache", "no cache", "Say cache: FILE.")
        return self

    def judge_of(self, criterion: str) -> Judge | None:
        """The judge that decides this criterion."""
        by_name = next((judge for judge in self.judges if judge.criteria and criterion in judge.criteria), None)
        return by_name or next((judge for judge in self.judges if judge.criteria is None), None)


@only_our_errors
def load_judges(source: str | Path | Mapping[str, Any] | Judge | Judges, *, folder: str | Path | None = None) -> Judges:
    """Judges from a YAML, TOML or JSON file or what it holds; a single judge is enough.

    folder: where templates (`prompt: file.txt`) are looked for; by default beside the file, or here.
    """
    from rubrank.rubrics.files import read_settings

    if isinstance(source, Judges):
        return source
    if isinstance(source, Judge):
        return Judges(judges=(source,))
    if not isinstance(source, Mapping | str | Path):
        allowed = "a file, or what one holds"
        raise InvalidInput("judges", "source", allowed, type(source).__name__, "Several stand under `judges:`.")
    data, where = (source, "judges") if isinstance(source, Mapping) else (read_settings(source), str(source))
    beside = Path() if isinstance(source, Mapping) else Path(source).parent
    if isinstance(data, Mapping) and "judges" not in data:
        data = {"judges": [data]}
    return validated(Judges, data, where, "docs/judges.md", folder=beside if folder is None else Path(folder))


# -------------------------------------------------------------------------------------------------------------- calls


@dataclass(frozen=True)
class Call:
    """One question to a model; two calls that are equal get the same answer from the cache."""

    messages: tuple[Mapping[str, str], ...]
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of the reply, for servers that can hold to it."""
    prompt_version: str = "1"
    sample: int = 0
    """Number of the answer, where several are asked for the same question."""
    logprobs: bool = False
    purpose: str = ""
    """What it is about, for the accounts: criterion and kind, such as "GeneralQuality (listwise)". Not in the key."""
    data: str | None = None
    """What is under judgment in the messages, and known: a reply is held against it. None: all of the user's."""


@dataclass(frozen=True)
class Usage:
    """Usage of a reply: the sum over all attempts that were paid."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True)
class Reply:
    """What came back: a text, or none and the reason. Whatever it cost is in `usage`."""

    text: str | None
    failure: str | None = None
    """Why there is no text, or why it cannot be used: "timeout after 120 s", "refused: …", "cut off at max_tokens" …"""
    usage: Usage = Usage()
    latency: float = 0.0
    """Seconds from asking to the reply, waits included; 0 from the cache."""
    attempts: int = 1
    model: str = ""
    endpoint: str = ""
    cached: bool = False
    finish_reason: str | None = None
    logprobs: tuple[Mapping[str, Any], ...] | None = None
    """For each token of the text: {"token": …, "logprob": …, "top": {token: logprob}}."""
    id: str = ""
    """Of the answer: the same whenever it comes from the cache, another when the question is asked again."""


class Asker(Protocol):
    """What answers calls: the client, the cache alone, or a scripted one in tests."""

    async def ask(self, call: Call) -> Reply:
        """The reply; a failure is a reply too, and nothing is raised for it."""
        ...


# ---------------------------------------------------------------------------------------------------------- judgments


@dataclass(frozen=True, eq=False)
class Question:
    """What one judge is asked about one group: cells (rollout, criterion), the criteria all of the same group."""

    group: Group
    criteria: tuple[Criterion, ...]
    wanted: np.ndarray
    """(G, K): which cells want an answer. For comparisons: which rollouts take part."""
    slots: tuple[int, ...] | None = None
    """The places of the rollouts in the group as it was meant to be; None: none is missing."""
    size: int | None = None
    """How many it was meant to have."""

    @property
    def places(self) -> tuple[Sequence[int], int]:
        """The place of every rollout, and how many places there are."""
        if self.slots is None or self.size is None:
            return range(len(self.group.rollouts)), len(self.group.rollouts)
        return self.slots, self.size


@dataclass(eq=False)
class Judgment:
    """What a judge said about one group; cells without an entry were not asked."""

    verdicts: dict[tuple[int, str], Verdict] = field(default_factory=dict)
    """(rollout, criterion) → value and reason; missing with a reason where the call failed."""
    outcomes: dict[str, np.ndarray] = field(default_factory=dict)
    """criterion → (G, G): 1 = row beats column, 0.5 = tie, NaN = not compared; the mean of contradicting answers."""
    words: dict[tuple[int, str], str] = field(default_factory=dict)
    """(rollout, criterion) → what was said in a comparison with it, and as what it was shown."""
    missing: dict[str, list[str]] = field(default_factory=dict)
    """criterion → reasons of the comparisons that failed."""
    asked: int = 0
    """Answers asked for: cells, pairs, or lists."""
    lost: int = 0
    """Of these, those without an answer."""
    disagreement: dict[str, float] = field(default_factory=dict)
    """criterion → how much a panel, or the two orders of a pair, disagree: 0 = never, 1 = always."""
    first_wins: dict[str, tuple[float, int]] = field(default_factory=dict)
    """criterion → (wins of the response shown first, ties counted half; comparisons): position bias, 0.5 = none."""
    replies: list[str] = field(default_factory=list)
    """Ids of the replies that it was read from."""

    def add(self, other: Judgment) -> None:
        """Add what another judge said about the same group; their criteria differ."""
        self.verdicts.update(other.verdicts)
        self.outcomes.update(other.outcomes)
        self.words.update(other.words)
        self.missing.update(other.missing)
        self.disagreement.update(other.disagreement)
        self.first_wins.update(other.first_wins)
        self.replies += other.replies
        self.asked += other.asked
        self.lost += other.lost


class JudgeKind(Protocol):
    """One way of asking."""

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """Ask about one group."""
        ...


def cells(wanted: np.ndarray, criteria: Sequence[Criterion]) -> list[tuple[int, Criterion]]:
    """The cells that want an answer, rollout by rollout."""
    return [(int(i), criteria[int(k)]) for i, k in np.argwhere(wanted)]
