"""The prompts of a run: rows of files and hub datasets, their order in the run, and how a batch is split over devices.

Rows. Prompt and rubric are found by their usual column names (`rubrank.tables.columns.COLUMNS`), or by those in the
config. All other columns are passed on, for verifiers that look up a reference, except those that mean something else
to TRL:

    {"question": "Name a lake.", "instruction_id_list": ["punctuation:no_comma"], "answer": "West Lake"}
    →  {"prompt": "Name a lake.", "rubric": {"instruction_id_list": […], "kwargs": None}, "answer": "West Lake"}

Order. It is laid out for all steps before the first one:

    >>> from rubrank.training.job.data import MixStage, lay_out
    >>> lay_out([MixStage(batches=2, sources=(0, 1), shares=(0.75, 0.25))], sizes=[4, 2], batch=4, seed=0).tolist()
    [4, 0, 2, 1, 3, 5, 3, 2]

Numbers below 4 are rows of the first source here, the others of the second. The trainer walks the list from beginning
to end, so stages need no separate samplers, and a resumed run finds its place by counting.

Every batch is mixed by the shares of the sources. At any time of a stage, the prompts taken from a source differ from
its share by less than the number of sources. The rows of a source come in random order, and none is repeated before all
were used. A source that occurs in two stages continues where it stopped.

Batches. A batch of rollouts is split over devices and optimizer steps, such that rollouts are always generated in whole
groups:

    split_batch(Training(prompts_per_batch=16, num_generations=8), None, world=2, where="config.yaml")
    BatchSplit(rollouts=128, per_device=8, accumulation=8, steps_per_generation=8, evaluated=8)
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import Any, Literal

import numpy as np

from rubrank._plain import shorten, word_set
from rubrank.errors import InvalidInput, UnknownName
from rubrank.rollouts.shapes import are_messages, convert_message, parse_json_cell
from rubrank.rubrics.rubric import Rubric
from rubrank.tables.columns import COLUMNS
from rubrank.tables.sources import Row, read_rows
from rubrank.training.job.config import HeldOut, Job, Source, Stage, Training
from rubrank.training.queries import INSTRUCTION_COLUMNS

ENVIRONMENT = "environment"
"""Column that names the environment of a row, if a run has several; TRL reads it."""
SOURCE = "rubrank_source"
"""Column that tells metrics and records from which source a prompt comes."""
STAGE = "rubrank_stage"
"""Column that tells metrics and records to which stage a prompt belongs."""
_RESERVED_COLUMNS = word_set("""
    prompt rubric completion completions completion_ids trainer_state log_extra log_metric environment environments
    image images video videos audio
""")
"""Columns of a source that are not passed on: TRL or rubrank would misread them."""


# ---------------------------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True, eq=False)
class SourceRows:
    """A source, and its rows."""

    source: Source
    rows: tuple[Mapping[str, Any], ...]

    @property
    def path(self) -> str:
        """The path of the source, as in the config."""
        return self.source.path


def make_source_key(source: Source) -> tuple[Any, ...]:
    """Return what identifies the rows of a source: sources with the same key have the same rows."""
    return source.path, tuple(sorted(source.columns.items())), source.limit


def read_source(job: Job, source: Source) -> SourceRows:
    """Read all prompts of a source; raises InvalidInput for the first row that cannot be used."""
    is_hub = source.path.startswith("hf:")
    path = source.path if is_hub else str(job.path(source.path))
    reserved = _RESERVED_COLUMNS
    if isinstance(job.config.environments, Mapping):  # several environments: each row names its own
        reserved = reserved - {ENVIRONMENT}
    rows = []
    for number, row in enumerate(islice(read_rows(path), source.limit), start=1):
        rows.append(_make_prompt_row(row, source, reserved, f"{source.path}: row {number}"))
    if not rows:
        raise InvalidInput(source.path, "rows", allowed="at least one", got="none", remedy="")
    return SourceRows(source, tuple(rows))


def _make_prompt_row(
    row: Row, source: Source, reserved: frozenset[str], where: str
) -> dict[str, Any]:
    """Make a row of the run: `prompt`, `rubric` (None: no own), and all columns that are not reserved."""
    prompt_column = _find_column(row, source, "prompt", where)
    rubric_column = _find_column(row, source, "rubric", where)
    if prompt_column is None:
        allowed = f"the prompt ({', '.join(COLUMNS['prompt'][:5])} …)"
        remedy = "Name it in the config: columns: {prompt: …}."
        got = ", ".join(map(str, row))
        raise InvalidInput(where, "one of the columns", allowed=allowed, got=got, remedy=remedy)
    used_columns = {prompt_column, rubric_column}
    rubric = None
    if rubric_column is not None:
        rubric = row[rubric_column] or None
    else:
        # Without a rubric column, the instructions of IFEval are the rubric.
        used_columns.update(INSTRUCTION_COLUMNS)
        if row.get("instruction_id_list") is not None:
            rubric = {name: row.get(name) for name in INSTRUCTION_COLUMNS}
    prompt_row = {
        str(name): value
        for name, value in row.items()
        if name not in used_columns and name not in reserved
    }
    prompt_row["prompt"] = _read_prompt(row[prompt_column], where)
    prompt_row["rubric"] = rubric
    # A column may have different types in different sources, so the trainer's table holds plain JSON data.
    return dict(json.loads(json.dumps(prompt_row, default=_to_plain)))


def _to_plain(value: Any) -> Any:
    """Convert a NumPy array or number to lists and numbers, and anything else to text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _find_column(
    row: Row, source: Source, field: Literal["prompt", "rubric"], where: str
) -> str | None:
    """Return the column of a field: the one that the config names, else the first of the usual names with a value.

    None if the row has none of the usual columns. Raises UnknownName if it lacks the one that the config names.
    """
    column = source.columns.get(field)
    if column is None:
        return next((name for name in COLUMNS[field] if row.get(name) is not None), None)
    if column not in row:
        raise UnknownName.of(where, f"column of {field!r}", column, map(str, row))
    return column


def _read_prompt(cell: Any, where: str) -> Any:
    """Return a prompt as a text or as messages; raises if it is empty, has images, or contains the answer."""
    prompt = parse_json_cell(cell)
    if isinstance(prompt, str) and prompt.strip():
        return prompt
    problem = repr(prompt)
    if are_messages(prompt):
        messages = [convert_message(message) for message in prompt]
        if not all(_is_text(message.get("content")) for message in prompt):
            problem = f"content that is not text: {problem}"
        elif messages[-1]["role"] == "assistant":
            problem = "an answer as the last message: the policy will give its own"
        else:
            return messages
    allowed = "a text, or messages with texts that end before the answer, not empty"
    raise InvalidInput(where, "prompt", allowed, shorten(problem))


def _is_text(content: Any) -> bool:
    """Whether the content of a message is a text, or a list of parts that are texts."""
    if isinstance(content, list | tuple):
        return all(
            isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in content
        )
    return isinstance(content, str)


def is_chat(row: Mapping[str, Any]) -> bool:
    """Whether the prompt of a row consists of messages."""
    return not isinstance(row["prompt"], str)


@dataclass(frozen=True, eq=False)
class JobData:
    """The rows of all sources; a source that several stages name is read once."""

    training_sources: Mapping[Any, SourceRows]
    """Key of a source (`make_source_key`) → its rows."""
    held_out_sources: Sequence[SourceRows]

    @cached_property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        """The rows of all sources that are trained on, each with the path of its source."""
        return _name_sources(self.training_sources.values())

    @cached_property
    def held_out_rows(self) -> tuple[Mapping[str, Any], ...]:
        """The rows of all held-out sources, each with the path of its source."""
        return _name_sources(self.held_out_sources)

    @property
    def counts(self) -> list[int]:
        """The number of rows of each source that is trained on."""
        return [len(source.rows) for source in self.training_sources.values()]

    def make_fingerprint(self, rubric: Rubric | None) -> dict[str, Any]:
        """Return the numbers of rows, and digests of the data and the rubric; a resumed run must have the same."""
        row_counts = {}
        source_digests = {}
        for source_rows in (*self.training_sources.values(), *self.held_out_sources):
            limit = source_rows.source.limit
            name = f"{source_rows.path}[:{limit}]" if limit else source_rows.path
            row_counts[name] = len(source_rows.rows)
            source_digests[name] = _digest(source_rows.rows)
        rubric_digest = None if rubric is None else _digest(rubric.model_dump(mode="json"))
        return {
            "rows": row_counts,
            "contents": {"rubric": rubric_digest, "sources": source_digests},
        }


def _name_sources(sources: Iterable[SourceRows]) -> tuple[Mapping[str, Any], ...]:
    """Return the rows of all sources, each with the path of its source in the column `SOURCE`."""
    return tuple({**row, SOURCE: source.path} for source in sources for row in source.rows)


def _digest(data: Any) -> str:
    """Return a short hash of JSON data."""
    text = json.dumps(data, sort_keys=True)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_data(job: Job) -> JobData:
    """Read all sources; raises for a held-out prompt that is also trained on."""
    training_sources: dict[Any, SourceRows] = {}
    for stage in job.config.stages:
        for source in stage.sources:
            key = make_source_key(source)
            if key not in training_sources:
                training_sources[key] = read_source(job, source)
    held_out_sources = []
    if job.config.held_out is not None:
        held_out_sources = [read_source(job, source) for source in job.config.held_out.sources]
    # Prompts are compared by their repr, since messages are lists, which cannot be keys.
    path_of_prompt = {}
    for source_rows in training_sources.values():
        for row in source_rows.rows:
            path_of_prompt[repr(row["prompt"])] = source_rows.path
    for held_out_source in held_out_sources:
        for number, row in enumerate(held_out_source.rows, start=1):
            path = path_of_prompt.get(repr(row["prompt"]))
            if path is not None:
                got = f"row {number} of {held_out_source.path}, which is in {path} too"
                remedy = "Remove it from one of them."
                raise job.invalid("held_out", "prompts that are not trained on", got, remedy)
    return JobData(training_sources, held_out_sources)


def make_dataset(rows: Iterable[Mapping[str, Any]], chat: bool) -> Any:
    """Make a table of `datasets`; every row has all columns, and with `chat` all prompts are messages."""
    from datasets import Dataset, Features, Json

    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = {name: [row.get(name) for row in rows] for name in names}
    if chat:
        table["prompt"] = [
            prompt if not isinstance(prompt, str) else [{"role": "user", "content": prompt}]
            for prompt in table["prompt"]
        ]
    return Dataset.from_dict(table, features=Features({name: Json() for name in names}))


# --------------------------------------------------------------------------------------------------------------- order


@dataclass(frozen=True)
class SourcePlan:
    """How many prompts a stage takes from a source."""

    path: str
    rows: int
    """The number of its rows."""
    share: float
    """The intended share of the stage's prompts."""
    prompts: int
    """The actual number, which is `share` rounded to whole prompts."""


@dataclass(frozen=True)
class StagePlan:
    """A stage in the plan of the run: its first and last step, counted from 0, and its sources."""

    name: str
    first: int
    last: int
    sources: tuple[SourcePlan, ...]


@dataclass(frozen=True)
class MixStage:
    """A stage for `lay_out`: its number of batches, the numbers of its sources, and their shares."""

    batches: int
    sources: tuple[int, ...]
    shares: tuple[float, ...]


def lay_out(stages: Sequence[MixStage], sizes: Sequence[int], batch: int, seed: int) -> np.ndarray:
    """Return the numbers of the rows in the order of the run, `batch` of them for each batch.

    sizes: rows of each source. The rows of all sources are numbered one after the other.
    """
    starts = [0, *np.cumsum(sizes).tolist()]
    # One endless walk for each source, so that a source continues in the next stage where it stopped.
    walks = [_walk_source(size, starts[number], seed, number) for number, size in enumerate(sizes)]
    rng = np.random.default_rng([seed, len(sizes)])
    order: list[int] = []
    for stage in stages:
        turns = _take_turns(stage.shares)
        for _ in range(stage.batches):
            rows = []
            for _ in range(batch):
                source = stage.sources[next(turns)]
                rows.append(next(walks[source]))
            rng.shuffle(rows)
            order += rows
    return np.array(order, dtype=np.int64)


def _walk_source(size: int, start: int, seed: int, number: int) -> Iterator[int]:
    """Yield the row numbers of a source in random order; after the last row, all again in another order."""
    draws = np.random.default_rng([seed, number])
    while True:
        for row in draws.permutation(size):
            yield start + int(row)


def _take_turns(shares: Sequence[float]) -> Iterator[int]:
    """Yield the source of each prompt, as its position in `shares`: always the one furthest behind its share."""
    shares_array = np.array(shares)
    prompts_taken = np.zeros(len(shares))
    turn = 0
    while True:
        turn += 1
        prompts_due = shares_array * turn
        position = int(np.argmax(prompts_due - prompts_taken))
        prompts_taken[position] += 1
        yield position


def mix_stage(stage: Stage, updates: int, data: JobData) -> MixStage:
    """Make a stage for `lay_out`; without shares in the config, a source's share is its share of the rows.

    updates: optimizer steps per batch.
    """
    numbers = {key: number for number, key in enumerate(data.training_sources)}
    sources = tuple(numbers[make_source_key(source)] for source in stage.sources)
    row_counts = [data.counts[number] for number in sources]
    shares = []
    for source, row_count in zip(stage.sources, row_counts, strict=True):
        shares.append(row_count / sum(row_counts) if source.share is None else source.share)
    return MixStage(stage.steps // updates, sources, tuple(shares))


def plan_stages(
    job: Job, stages: Sequence[MixStage], counts: Sequence[int]
) -> tuple[StagePlan, ...]:
    """Count how many prompts each stage takes from its sources. counts: the rows of each source."""
    first_step = 0
    plans = []
    for stage, mix in zip(job.config.stages, stages, strict=True):
        prompts = mix.batches * job.config.training.prompts_per_batch
        prompts_at = Counter(islice(_take_turns(mix.shares), prompts))  # position → prompts
        sources = []
        for position, source in enumerate(stage.sources):
            rows = counts[mix.sources[position]]
            share = mix.shares[position]
            sources.append(SourcePlan(source.path, rows, share, prompts_at[position]))
        last_step = first_step + stage.steps - 1
        plans.append(StagePlan(stage.name, first_step, last_step, tuple(sources)))
        first_step += stage.steps
    return tuple(plans)


# ------------------------------------------------------------------------------------------------------------- batches

LOGITS_BYTES = 2e9
"""Memory for the logits of an evaluation batch, which grow with the batch; the weights do not."""


@dataclass(frozen=True)
class BatchSplit:
    """The sizes of a batch, its parts and their portions.

    batch: `rollouts`
    └─ part: what one process computes for one optimizer step ("update")
       └─ `accumulation` portions: what a device computes at a time, `per_device` rollouts
    """

    rollouts: int
    """Rollouts of one batch, on all processes."""
    per_device: int
    """Rollouts of one portion."""
    accumulation: int
    """Portions that a device computes for one optimizer step."""
    steps_per_generation: int
    """Portions that a device computes for one batch: `accumulation` times the updates per batch."""
    evaluated: int
    """Rollouts of one portion in evaluations."""


def count_processes() -> int:
    """Return the number of processes that train together; launchers such as `torchrun` set it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this is the process that prints and writes."""
    return os.environ.get("RANK", "0") == "0"


def split_batch(training: Training, held_out: HeldOut | None, world: int, where: str) -> BatchSplit:
    """Split a batch over `world` processes; raises InvalidInput if the numbers do not divide each other."""
    group = training.num_generations
    updates = training.updates_per_batch
    rollouts = training.prompts_per_batch * group
    parts = world * updates
    product = f"{training.prompts_per_batch} prompts × {group} rollouts = {rollouts}"
    if rollouts % parts:
        got = f"{product} for updates: {updates}, processes: {world}"
        allowed = f"such that a batch is a multiple of {parts} rollouts"
        remedy = "Change it, or updates_per_batch."
        raise InvalidInput(
            where, "training.prompts_per_batch", allowed=allowed, got=got, remedy=remedy
        )
    part_rollouts = rollouts // parts
    per_device = training.per_device_train_batch_size or math.gcd(group, part_rollouts)
    if part_rollouts % per_device:
        raise InvalidInput(
            where,
            "training.per_device_train_batch_size",
            allowed=f"a divisor of {part_rollouts}",
            got=f"{per_device} for {product}, parts: {parts}",
            remedy="Choose one, or leave it out.",
        )
    smallest = _find_smallest_evaluation_batch(group, held_out, world)
    evaluated = smallest * max(1, per_device // smallest)
    if held_out is not None and held_out.batch is not None:
        evaluated = held_out.batch
        if evaluated % smallest:
            raise InvalidInput(
                where,
                "held_out.batch",
                allowed=f"a multiple of {smallest}",
                got=str(evaluated),
                remedy="A batch has whole groups on all processes.",
            )
    return BatchSplit(
        rollouts=rollouts,
        per_device=per_device,
        accumulation=part_rollouts // per_device,
        steps_per_generation=updates * part_rollouts // per_device,
        evaluated=evaluated,
    )


def choose_evaluation_batch_size(
    split: BatchSplit, held_out: HeldOut, group: int, prompts: int, row_bytes: float, world: int
) -> int:
    """Choose how many rollouts a device generates at a time in an evaluation.

    group: rollouts per prompt in training. prompts: number of held-out prompts.
    row_bytes: bytes of the logits of one rollout, tokens × vocabulary × 8.

    Sampling a batch takes little longer than sampling one row, so the batch is as large as in training if its logits
    fit into memory. All batches should have the same size, because TRL logs the mean over batches, which must be the
    mean over prompts. If the largest such size is less than half of `split.evaluated`, the latter is used, although
    the last batch is then smaller.
    """
    if held_out.batch is not None:
        return held_out.batch
    smallest = _find_smallest_evaluation_batch(group, held_out, world)
    largest_that_fits = min(split.rollouts // world, int(LOGITS_BYTES / max(row_bytes, 1.0)))
    per_process, remainder = divmod(prompts * (held_out.rollouts or group), world)
    equal_size = 0
    if not remainder:
        sizes = range(smallest, largest_that_fits + 1, smallest)
        equal_size = max((size for size in sizes if per_process % size == 0), default=0)
    return equal_size if 2 * equal_size >= split.evaluated else split.evaluated


def _find_smallest_evaluation_batch(group: int, held_out: HeldOut | None, world: int) -> int:
    """Return the fewest rollouts per device such that all devices together have whole groups."""
    rollouts_per_prompt = group
    if held_out is not None and held_out.rollouts:
        rollouts_per_prompt = held_out.rollouts
    return rollouts_per_prompt // math.gcd(rollouts_per_prompt, world)
