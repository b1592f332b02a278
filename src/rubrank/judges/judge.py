"""The contract of a judge: a model that decides what no program can.

    judges.yaml
      judges:
        - name: main                        # decides every judged criterion that no other judge names
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

From a question to its answer:

    Question (cells of a group) → Call → Reply → Judgment (verdicts, or outcomes of comparisons)

A *kind* (`kinds/`) turns the cells of a group that need a judge into `Call`s, hands them to an `Asker`, and parses its
`Reply`s. The asker (`judges/client/`) knows about endpoints, limits, retries, cost and the cache, and nothing about
criteria. An answer that fails is *missing with a reason*, never a number; its cost is counted.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from rubrank._plain import Strict, validate_model
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.judges import COMPARES, KINDS, list_kind_names
from rubrank.judges.client.limits import Spending
from rubrank.judges.template import Template
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import Verdict

T = TypeVar("T")

SYSTEM_ONE: Final = "systemone"
"""The protocol of decision models, which answer typed questions with probabilities."""


Language: TypeAlias = Literal["auto", "en", "zh"]
Combine: TypeAlias = Literal["majority", "mean", "median"]
Structured: TypeAlias = Literal["auto", "json_schema", "json_object", "text"]
Order: TypeAlias = Literal["question_first", "data_first"]
ApiProtocol: TypeAlias = Literal["chat", "systemone"]
OnOutage: TypeAlias = Literal["wait", "stop", "continue"]


# Settings that only some kinds of the library use. With another kind they are refused instead of ignored.
_KINDS_WITH_PROMPTS = ("absolute", "batched", "pairwise", "listwise")
_KINDS_OF_SETTING: dict[str, tuple[str, ...]] = {
    "order": _KINDS_WITH_PROMPTS,
    "prompt": _KINDS_WITH_PROMPTS,
    "examples": _KINDS_WITH_PROMPTS,
    "expected": ("absolute", "decision"),
    "probabilities": ("absolute", "batched"),
    "request_tokens": ("decision",),
    "state_tokens": ("decision",),
    "both_orders": ("pairwise",),
    "pairs": ("pairwise",),
    "rounds": ("pairwise",),
    "passes": ("listwise",),
}


# Settings that a member takes from its panel if it leaves them out.
_INHERITED = {
    "sampling",
    "language",
    "order",
    "prompt",
    "timeout",
    "retry",
    "examples",
    "seed",
    "samples",
    "expected",
    "probabilities",
    "both_orders",
    "pairs",
    "rounds",
    "passes",
    "request_tokens",
    "state_tokens",
}


class _Confidential(Strict):
    model_config = ConfigDict(hide_input_in_errors=True)  # it may hold secrets


# ------------------------------------------------------------------------------------------------------ configuration


class Price(_Confidential):
    """Price of a million tokens, in any currency."""

    input: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    output: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0.0, allow_inf_nan=False)
    """Price of input tokens in the server's prefix cache; by default the price of input."""


class Batching(_Confidential):
    """The batch API of an endpoint (docs/scale.md): its price, and the size of batches."""

    price: float = Field(default=0.5, ge=0.0, le=1.0, allow_inf_nan=False)
    """Price of tokens in a batch, as a share of the endpoint's prices; see your provider's list."""
    requests: int = Field(default=50_000, ge=1)
    megabytes: float = Field(default=190.0, gt=0.0, allow_inf_nan=False)
    """Maximum size of one file; larger ones are split."""
    window: str = "24h"
    """Time within which the server should answer; requests that it does not answer are submitted again."""
    poll: float = Field(default=30.0, gt=0.0, allow_inf_nan=False)
    """Seconds between requests for the state of a batch."""


class Endpoint(_Confidential):
    """A model on an OpenAI-compatible server: vLLM, SGLang, OpenAI, llama.cpp, `transformers serve`, Ollama …"""

    base_url: str = Field(repr=False)
    """May contain user and password, or a key in its query; `where` is the URL without them."""
    model: str
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; local servers need none."""
    weight: float = Field(default=1.0, gt=0.0, allow_inf_nan=False)
    """Its share of the calls, if there are several; the others take over when it fails."""
    concurrency: int = Field(default=64, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    tokens_per_minute: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    path: str = "/systemone"
    """For kind "decision": where requests are posted, behind `base_url`."""
    cached_from: tuple[str, ...] = ()
    """Other URLs at which this model was served before, such as "http://node*:8000/v1" or "*" (any): the reply cache
    answers with their replies, too."""
    prompt_cache: bool = False
    """Mark what calls share with `cache_control`, for providers that cache only marked prefixes (Anthropic's models):
    the system message, and with `order: data_first` also the data."""
    structured: Structured = "auto"
    """How the server enforces the form of replies. "auto": by a JSON schema; if it rejects that, JSON; then text."""
    extra_body: Mapping[str, Any] = {}
    headers: Mapping[str, str] = Field(default={}, repr=False)
    price: Price = Price()
    batch: Batching = Batching()
    """Settings for the batch API, which `rubrank grade` can use."""

    @field_validator("base_url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        """Refuse what is not a URL, and remove a slash at the end."""
        remedy = ""
        if not value.startswith(("http://", "https://")):
            remedy = "For a local vLLM server it is http://localhost:8000/v1."
        elif _has_broken_password(value):
            remedy = "In a password write %2F, %3F and %23 in place of /, ? and #."
        if remedy:
            got = repr(remove_secrets(value))
            raise InvalidInput("endpoint", "base_url", allowed="a URL", got=got, remedy=remedy)
        return value.rstrip("/")

    @property
    def where(self) -> str:
        """The URL as it may be printed and written: without secrets."""
        return remove_secrets(self.base_url)


def remove_secrets(url: str) -> str:
    """Return the URL without secrets: "https://me:key@host/v1?api-key=…" → "https://host/v1".

    Text that is no URL may come here too, before it is refused: "me:key@host" → "host", "https://me:k/ey@host" → "https://…".
    """
    scheme, address, path = _split_url(url)
    if _has_broken_password(url):
        return f"{scheme}…"  # everything after the scheme may be a part of the password
    path = re.split(r"[?#]", path, maxsplit=1)[0]
    return f"{scheme}{address.rpartition('@')[2]}{path}"


def _has_broken_password(url: str) -> bool:
    """Does "/", "?" or "#" in a password end the address too early? In "me:k/ey@host" the port would be "k"."""
    _, address, path = _split_url(url)
    is_port = re.search(r":\d*$", address) is not None
    is_ipv6 = address.endswith("]")
    return ":" in address and not is_port and not is_ipv6 and "@" not in address and "@" in path


def _split_url(url: str) -> tuple[str, str, str]:
    """Split "https://me:key@host/v1?a=b" into "https://" (or "", if there is none), "me:key@host" and "/v1?a=b"."""
    match = re.fullmatch(r"([A-Za-z]+://)?([^/?#]*)(.*)", url, re.DOTALL)
    assert match is not None  # all parts may be empty
    return match[1] or "", match[2], match[3]


class Sampling(_Confidential):
    """How the judge's model is sampled."""

    temperature: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    max_tokens: int = Field(default=1024, ge=1)
    seed: int | None = None


class Retry(_Confidential):
    """Retries of a call that fails."""

    attempts: int = Field(default=4, ge=1)
    first_wait: float = Field(default=0.5, ge=0.0, allow_inf_nan=False)
    """Seconds; doubled each time, with jitter, unless the server sends Retry-After."""
    longest_wait: float = Field(default=30.0, ge=0.0)
    breaker_failures: int = Field(default=8, ge=1)
    """After this many failures in a row the circuit breaker opens, for `breaker_pause` seconds."""
    breaker_pause: float = Field(default=20.0, ge=0.0)


class Escalation(_Confidential):
    """Which answers of a judge go to its fallback; a number alone is `most`."""

    most: float = Field(default=1.0, ge=0.0, le=1.0, allow_inf_nan=False)
    """Largest share of the answers that is escalated, the least sure first."""
    threshold: float = Field(default=1.0, ge=0.0, le=1.0, allow_inf_nan=False)
    """Answers with a smaller margin may be escalated. The margin is the probability of the likeliest value minus that
    of the next. With `most: 1`, a threshold of 1 escalates all answers, even certain ones."""
    thresholds: Mapping[str, Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]] = {}
    """The same by criterion; `rubrank judge calibrate` measures them. Without a `threshold` beside them, criteria that
    are not listed are never escalated: a misspelt name must not send everything to the expensive judge."""

    @model_validator(mode="before")
    @classmethod
    def _accept_share(cls, value: Any) -> Any:
        """Accept a number alone as `most`; with `thresholds`, criteria that are not listed are not escalated."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"most": value}
        if isinstance(value, Mapping) and value.get("thresholds") and "threshold" not in value:
            return {**value, "threshold": 0.0}
        return value


class Judge(_Confidential):
    """One judge: what it decides, how it is asked, and its endpoints."""

    name: str = "judge"
    kind: str = "batched"
    """"batched", "absolute", "decision", "pairwise", "listwise", or one that you registered (`rubrank.judge_kind`)."""
    endpoints: tuple[Endpoint, ...] = ()
    criteria: tuple[str, ...] | None = None
    """The criteria it decides; None: all that no other judge names."""
    sampling: Sampling = Sampling()
    language: Language = "auto"
    """Language of the prompts; "auto": Chinese if the query is Chinese."""
    order: Order = "question_first"
    """What comes first in a call. "data_first": the data, for long responses that several calls share."""
    prompt: Template | None = None
    """Your own messages, with slots: a text file beside the file of judges (docs/prompts.md)."""
    timeout: float = Field(default=120.0, gt=0.0, allow_inf_nan=False)
    """Seconds for one request."""
    retry: Retry = Retry()
    # Settings of kinds that score
    expected: bool = False
    """Score by the mean of all values of the domain, weighted by their probabilities, instead of the verdict. Only for
    kinds "absolute" and "decision"."""
    probabilities: bool = False
    """Keep beside each score how likely the other values are, by their log-probabilities, if the server returns them.
    For kinds "absolute" and "batched"; a decision model and a panel always say how sure they are."""
    # Settings of kind "decision"
    request_tokens: int = Field(default=64_000, ge=1)
    """Most tokens of a request; criteria that do not fit are sent in another request."""
    state_tokens: int = Field(default=32_000, ge=1)
    """Most tokens of the response with its conversation and one question; a longer one is missing."""
    # Settings of kind "pairwise"
    both_orders: bool = True
    pairs: Annotated[int, Field(ge=1)] | Literal["swiss", "bracket", "pivot"] | None = None
    """Pairs to compare in a group; None: all. "swiss", "bracket", "pivot": chosen round by round from what was
    answered so far (`judges/design.py`)."""
    rounds: int | None = Field(default=None, ge=1)
    """Rounds of a design that chooses pairs round by round; None: the default of the design."""
    # Settings of kind "listwise"
    passes: int = Field(default=1, ge=1)
    """Calls for each group and criterion, each in a different order."""
    # A panel: several answers to each question, which are combined
    samples: int = Field(default=1, ge=1)
    """Answers of each member to every question."""
    members: tuple[Self, ...] = ()
    """Several judges that answer the same questions; their answers are combined."""
    combine: Combine = "majority"
    # A fallback: a better judge, which is asked about the answers that this one is not sure of
    escalate: Escalation | None = None
    """Which answers go to the fallback."""
    fallback: Self | None = None
    calibration: Mapping[str, tuple[tuple[float, float], ...]] = {}
    """Criterion → pairs of a probability that the judge gives and the one that is right, as `rubrank judge calibrate`
    measures them; between the pairs, straight lines."""
    # Settings of several kinds, continued
    examples: Mapping[str, tuple[Mapping[str, Any], ...]] = {}
    """Few-shot examples by criterion: {prompt, response, reasoning, verdict}."""
    seed: int = 0
    """Seed of random orders and choices of pairs."""

    @model_validator(mode="before")
    @classmethod
    def _pass_kind_to_members(cls, data: Any) -> Any:
        """Give members without a kind the kind of the panel."""
        if not isinstance(data, Mapping) or "kind" not in data:
            return data
        if not isinstance(data.get("members"), list | tuple):
            return data
        members = []
        for member in data["members"]:
            if isinstance(member, Mapping):
                member = {"kind": data["kind"], **member}
            members.append(member)
        return {**data, "members": members}

    @field_validator("prompt", mode="before")
    @classmethod
    def _read_prompt(cls, value: Any, info: ValidationInfo) -> Any:
        """Read the template from its file, beside the file of judges."""
        folder = (info.context or {}).get("folder", Path())
        if value is None:
            return None
        return Template.read(value, folder, owner=f"judge {info.data.get('name', '')!r}")

    @field_validator("kind")
    @classmethod
    def _check_kind(cls, value: str) -> str:
        """Refuse a kind that is not registered."""
        if value not in list_kind_names():
            raise UnknownName.of("judge", "kind", value, list_kind_names())
        return value

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        """Check settings that depend on each other."""
        fallback = self.fallback
        judge_and_fallback = () if fallback is None else (self, fallback)
        says_how_sure = (
            self.kind == "decision" or self.is_panel or self.probabilities or self.expected
        )
        problems = [  # (is it wrong?, setting, what is allowed, what is there)
            (
                bool(self.endpoints) == bool(self.members),
                "endpoints",
                "at least one, or members instead that have some",
                "both" if self.endpoints else "none",
            ),
            (
                any(member.kind != self.kind or member.members for member in self.members),
                "members",
                f"judges of the panel's kind {self.kind!r}, and no panels",
                ", ".join(f"{member.name} ({member.kind})" for member in self.members),
            ),
            (
                self.rounds is not None and not isinstance(self.pairs, str),
                "rounds",
                'given with pairs: "swiss", "bracket" or "pivot"',
                f"pairs: {self.pairs}",
            ),
            (
                (self.escalate is None) != (fallback is None),
                "escalate" if self.escalate is None else "fallback",
                "given, because escalate and fallback come together: escalate: 0.15",
                "none",
            ),
            (
                any(judge.kind in COMPARES for judge in judge_and_fallback),
                "kind",
                "a kind that scores, in a cascade",
                " and ".join(judge.kind for judge in judge_and_fallback),
            ),
            (
                fallback is not None
                and (fallback.fallback is not None or fallback.criteria is not None),
                "fallback",
                "a plain judge: it is only asked about answers that this judge is not sure of",
                "one with a fallback or criteria of its own",
            ),
            (
                fallback is not None and not says_how_sure,
                "fallback",
                "used by a judge that says how sure it is: probabilities, samples, members, or kind: decision",
                f"kind {self.kind!r} without probabilities",
            ),
        ]
        is_library_kind = isinstance(KINDS[self.kind], str)  # a user's own may use any setting
        for setting, kinds in _KINDS_OF_SETTING.items():
            is_set = getattr(self, setting) != type(self).model_fields[setting].default
            names = " or ".join(f'"{kind}"' for kind in kinds)
            is_unused = is_set and is_library_kind and self.kind not in kinds
            problems.append((is_unused, setting, f"used with kind {names}", f"kind {self.kind!r}"))
        allowed = "pairs of probabilities that do not fall, as rubrank judge calibrate gives them"
        for name, pairs in self.calibration.items():
            is_wrong = not _are_rising_probabilities(pairs)
            problems.append((is_wrong, f"calibration of {name!r}", allowed, repr(pairs)[:80]))
        for is_wrong, setting, allowed, got in problems:
            if is_wrong:
                raise self.make_error(setting, allowed, got)
        if self.prompt is not None:
            self.prompt.check(self.kind, f"judge {self.name!r}")
        return self

    def make_error(self, parameter: str, allowed: str, got: str, remedy: str = "") -> InvalidInput:
        """Return the error about one of the settings of this judge, for the caller to raise."""
        return InvalidInput(f"judge {self.name!r}", parameter, allowed, got, remedy)

    def complete_members(self) -> Self:
        """Return the judge with its settings in all members that left them out.

        Its fallback, which may be a panel too, passes its own settings to its own members.
        """
        settings = {name: getattr(self, name) for name in _INHERITED & self.model_fields_set}
        members = []
        for member in self.members:
            new = {name: settings[name] for name in settings.keys() - member.model_fields_set}
            members.append(member.model_copy(update=new))
        fallback = None if self.fallback is None else self.fallback.complete_members()
        return self.model_copy(update={"members": tuple(members), "fallback": fallback})

    @property
    def is_panel(self) -> bool:
        """Are several answers combined into one?"""
        return bool(self.members) or self.samples > 1

    @property
    def voters(self) -> tuple[Judge, ...]:
        """The judges whose answers are combined: the members of a panel, or the judge itself."""
        return self.members or (self,)

    @property
    def leaves(self) -> tuple[Judge, ...]:
        """The judges that send calls: its voters, and those of its fallback."""
        return self.voters if self.fallback is None else (*self.voters, *self.fallback.leaves)


def _are_rising_probabilities(pairs: Sequence[tuple[float, float]]) -> bool:
    """Are there pairs of numbers from 0 to 1, and does neither number fall from one pair to the next?"""
    for column in zip(*pairs, strict=True):
        if not all(0.0 <= value <= 1.0 for value in column) or list(column) != sorted(column):
            return False
    return bool(pairs)


class Judges(_Confidential):
    """All judges of a run, their cache, their deadline, and the share of answers that may be missing."""

    judges: tuple[Judge, ...] = Field(min_length=1)
    cascade: bool = True
    """Do not judge a rollout that a hard gate has stopped already. (Not to be confused with the cascade of a judge and
    its fallback.)"""
    deadline: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    """Seconds for all calls of one step; answers that come later are missing."""
    most_missing: float = Field(default=0.2, ge=0.0, le=1.0)
    """Share of the answers that may be missing; the step fails if more are, and always if all are."""
    most_cost: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    """No call is sent once this much has been spent, over all steps of the run; further answers are missing. It is
    exceeded by at most one call. With several `processes` each has its share."""
    currency: str = Field(default="", max_length=12)
    """The currency of the prices, such as EUR; only shown with costs."""
    on_outage: OnOutage = "wait"
    """What to do when no endpoint of a judge answers any more. "wait": up to `outage_wait` seconds, then stop;
    "stop": at once; "continue": answers are missing meanwhile."""
    outage_wait: float = Field(default=300.0, ge=0.0, allow_inf_nan=False)
    processes: int = Field(default=1, ge=1)
    """Number of processes of the run that use the endpoints at the same time; each gets its share of the limits.
    Trainers that know the number set it themselves."""
    cache: str | None = None
    """The file of the reply cache."""
    cache_only: bool = False
    """Answer from the cache; make no calls."""
    # Copies of the settings (`model_copy`) share it: they belong to the same run.
    _spending: Spending = PrivateAttr(default_factory=Spending)

    @property
    def spending(self) -> Spending:
        """What the calls have cost so far."""
        return self._spending

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        """Check what depends on several judges or settings."""
        leaves = [leaf for judge in self.judges for leaf in judge.leaves]
        prices = [endpoint.price for leaf in leaves for endpoint in leaf.endpoints]
        names = [judge.name for judge in self.judges]
        general = [judge.name for judge in self.judges if judge.criteria is None]
        criteria = Counter(name for judge in self.judges for name in judge.criteria or ())
        repeated = [name for name, count in criteria.items() if count > 1]
        problems = [  # (is it wrong?, setting, what is allowed, what is there)
            (
                self.most_cost is not None and not any(p.input or p.output for p in prices),
                "most_cost",
                "used with prices: give each endpoint that costs something its price",
                "no endpoint with a price",
            ),
            (len(set(names)) < len(names), "judges", "of different names", repr(names)),
            (
                len(general) > 1,
                "criteria",
                "given for all judges but one",
                f"none for {general}",
            ),
            (
                bool(repeated),
                "criteria",
                "each of one judge (a panel has members)",
                f"{repeated} of two",
            ),
            (
                self.cache_only and self.cache is None,
                "cache_only",
                "used with a cache: FILE",
                "no cache",
            ),
        ]
        for is_wrong, setting, allowed, got in problems:
            if is_wrong:
                raise InvalidInput("judges", setting, allowed, got)
        return self

    def judge_of(self, criterion: str) -> Judge | None:
        """Return the judge that decides this criterion; None if no judge does."""
        general = None
        for judge in self.judges:
            if judge.criteria is None:
                general = judge
            elif criterion in judge.criteria:
                return judge
        return general


@only_our_errors
def load_judges(
    source: str | Path | Mapping[str, Any] | Judge | Judges, *, folder: str | Path | None = None
) -> Judges:
    """Load judges from a YAML, TOML or JSON file or what it holds; a single judge is enough.

    folder: where templates (`prompt: file.txt`) are looked for; by default beside the file, or the current folder.
    """
    from rubrank.rubrics.files import read_settings

    if isinstance(source, Judges):
        return source
    if isinstance(source, Judge):
        return Judges(judges=(source,))
    if not isinstance(source, Mapping | str | Path):
        raise InvalidInput(
            "judges",
            "source",
            allowed="a file, or the data of one",
            got=type(source).__name__,
            remedy="List several judges under `judges:`.",
        )
    if isinstance(source, Mapping):
        data: Any = source
        where = "judges"
        default_folder = Path()
    else:
        data = read_settings(source)
        where = str(source)
        default_folder = Path(source).parent
    if isinstance(data, Mapping) and "judges" not in data:  # a single judge
        data = {"judges": [data]}
    template_folder = default_folder if folder is None else Path(folder)
    return validate_model(Judges, data, where, "judges", folder=template_folder)


# -------------------------------------------------------------------------------------------------------------- calls


@dataclass(frozen=True)
class Call:
    """One request to a model; equal calls get the same reply from the cache."""

    messages: tuple[Mapping[str, str], ...]
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of the reply, for servers that can enforce it."""
    prompt_version: str = "1"
    sample: int = 0
    """Number of the answer, if several answers to the same prompt are needed."""
    logprobs: bool = False
    purpose: str = ""
    """For usage reports: criterion and kind, such as "GeneralQuality (listwise)". Not part of the key."""
    protocol: ApiProtocol = "chat"
    """"systemone": the content of the only message is the body of the request, as JSON."""
    shares_data: bool = False
    """Does the user message begin with the data, which calls about other criteria share? Not part of the key."""
    data: str | None = None
    """The part of the messages that is judged: replies are checked for copies of it. None: all user messages."""


@dataclass(frozen=True)
class Usage:
    """Tokens and cost of a reply: the sum over all requests that were paid for."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cost + other.cost,
        )


@dataclass(frozen=True)
class Reply:
    """The answer to a call: a text, or the reason why there is none. What it cost is in `usage`."""

    text: str | None
    failure: str | None = None
    """Why there is no text, or why it cannot be used: "timeout after 120 s", "refused: …", "cut off at max_tokens" …"""
    usage: Usage = Usage()
    latency: float = 0.0
    """Seconds from the call to the reply, waits included; 0 from the cache."""
    attempts: int = 1
    model: str = ""
    endpoint: str = ""
    cached: bool = False
    finish_reason: str | None = None
    logprobs: tuple[Mapping[str, Any], ...] | None = None
    """For each token of the text: {"token": …, "logprob": …, "top": {token: logprob}}."""
    id: str = ""
    """The same whenever the reply comes from the cache, another if the call is sent again."""


class Asker(Protocol):
    """Answers calls: the client of an endpoint, a model in this process, or a script in tests."""

    async def ask(self, call: Call) -> Reply:
        """Return the reply. A failure is a reply too: nothing is raised for it."""
        ...


AskerOf: TypeAlias = Callable[[Judge], Asker]
"""A function that returns the asker of a judge, or of a member of a panel."""


@dataclass(eq=False)
class WrappedAsker:
    """Passes calls on to another asker; subclasses change the calls, or look at the replies."""

    asker: Asker

    async def ask(self, call: Call) -> Reply:
        """Return the reply of the other asker."""
        return await self.asker.ask(call)

    def unreadable(self, call: Call, reply: Reply) -> None:
        """Tell the other asker that no verdict could be found in this reply."""
        if hasattr(self.asker, "unreadable"):
            self.asker.unreadable(call, reply)


# ---------------------------------------------------------------------------------------------------------- judgments


@dataclass(frozen=True)
class Declined(Verdict):
    """A missing verdict, because the judge refuses or says that it cannot tell; asking again would not help.

    Any other missing verdict from a reply means that the reply could not be read: the next run sends the call again.
    """


@dataclass(frozen=True, eq=False)
class Question:
    """What one judge is asked about one group: cells (rollout, criterion)."""

    group: Group
    criteria: tuple[Criterion, ...]
    wanted: np.ndarray
    """(G, K): the cells to be judged. For comparisons: the rollouts that take part."""
    slots: tuple[int, ...] | None = None
    """The places of the rollouts in the complete group; None: none is missing."""
    size: int | None = None
    """Number of rollouts in the complete group."""

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
    """(rollout, criterion) → value and reason; missing with a reason if the call failed."""
    outcomes: dict[str, np.ndarray] = field(default_factory=dict)
    """criterion → (G, G): 1 = row beats column, 0.5 = tie, NaN = not compared; the mean of contradicting answers."""
    words: dict[tuple[int, str], str] = field(default_factory=dict)
    """(rollout, criterion) → what the judge said about it in a comparison, and how it was labelled there."""
    missing: dict[str, list[str]] = field(default_factory=dict)
    """criterion → reasons of the comparisons that failed."""
    asked: int = 0
    """Number of requested answers: cells, pairs, or lists."""
    lost: int = 0
    """Number of these that are missing."""
    disagreement: dict[str, float] = field(default_factory=dict)
    """criterion → how much a panel, or the two orders of a pair, disagree: 0 = never, 1 = always."""
    first_wins: dict[str, tuple[float, int]] = field(default_factory=dict)
    """criterion → (wins of the response shown first, ties counted half; comparisons): position bias, 0.5 = none."""
    replies: list[str] = field(default_factory=list)
    """Ids of the replies that the judgment was parsed from."""

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
    """How a judge is asked: about one cell, one response, a pair, or a list."""

    async def judge(self, question: Question, judge: Judge, asker: Asker) -> Judgment:
        """Ask about one group."""
        ...

    def calls(self, question: Question, judge: Judge) -> int:
        """Return how many calls it will make at most for this question."""
        ...


def report_if_unreadable(
    asker: Asker, call: Call, reply: Reply, verdicts: Iterable[Verdict]
) -> None:
    """Tell the asker of a reply in which a verdict could not be found, so that the next run sends the call again.

    verdicts: what was found in the reply. A judge that declined was understood, and is not asked again. A call that
    failed is not reported, because its reply has no text. An asker without `unreadable` is told nothing.
    """
    is_unreadable = any(
        verdict.value is None and not isinstance(verdict, Declined) for verdict in verdicts
    )
    if is_unreadable and reply.failure is None and hasattr(asker, "unreadable"):
        asker.unreadable(call, reply)


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run the coroutines at the same time, and return all results in order; an error cancels the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
    return [task.result() for task in tasks]
