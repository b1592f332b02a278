"""What does the step of a long-context run cost? 1,024 queries × 16 rollouts of 36 kB, 20 rules, 3 attributes, records.

    python benchmarks/step.py --rollouts 1024                         a sixteenth of it, half a minute
    python benchmarks/step.py                                         all of it: some minutes, 6 GB
    python benchmarks/step.py --workers 2                             one process and two workers, in turns
    python benchmarks/step.py --old ../old/src                        an older tree beside it, in turns

By part: `split` finds what was thought and what was said, `rules` grades 20 criteria, `attributes` measures three,
`fuse` is everything else that makes rewards and metrics of the scores, `records` are made, compressed and written.
Processor seconds are those of all threads and workers, the clock is that on the wall; a part's figure is the median of
the rounds. Each tree has a process of its own, and they are asked in turns. Answers are real ones (../shared/data,
1.4 kB on average), what was thought before is strung together from others, so that a rollout is between half and one
and a half of `--kilobytes` long. Rewards of both trees are compared bit by bit; older methods may give others.

With workers, the first three parts are done together, in their processes: they are `grade` there. What the trainer's
process does and what workers do is told apart. Rewards must be the same bits.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import hashlib
import importlib
import inspect
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from side_by_side import load, machine

NEW = Path(__file__).parents[1] / "src"
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "m_ifeval" / "en_groups.jsonl.gz"
GROUP = 16
BAR = 0.5
"""What a step may take, as a share of what it took."""
PROCESSOR_BAR = 1.25
"""What it may take with workers, as a share of what one process takes."""
ATTRIBUTES = ("markdown", "reasoning_length", "answer_length")
CRITERIA: tuple[dict[str, Any], ...] = (
    {"name": "WordCount", "params": {"low": 100, "high": 800}},
    {"name": "SentenceCount", "params": {"relation": "at least", "count": 5}},
    {"name": "ParagraphCount", "params": {"relation": "at least", "count": 3}},
    {"name": "BulletCount", "params": {"relation": "at least", "count": 3}},
    {"name": "Keyword", "params": {"keywords": ["because", "example"]}},
    {"name": "ForbiddenContent", "params": {"words": ["obviously", "utilize"]}},
    {"name": "LetterFrequency", "params": {"letter": "q", "relation": "less than", "count": 20}},
    {"name": "punctuation:no_comma"},
    {"name": "keywords:frequency", "params": {"keyword": "time", "frequency": 2, "relation": "at least"}},
    {"name": "detectable_format:title"},
    {"name": "detectable_format:number_highlighted_sections", "params": {"num_highlights": 2}},
    {"name": "detectable_content:postscript", "params": {"postscript_marker": "P.S."}},
    {"name": "startend:quotation"},
    {"name": "startend:end_checker", "params": {"end_phrase": "That is all."}},
    {"name": "change_case:english_lowercase"},
    {"name": "length_constraints:number_words", "params": {"num_words": 900, "relation": "less than"}},
    {"name": "EmptyAnswer"},
    {"name": "ThinkLeak"},
    {"name": "GarbledText"},
    {"name": "RepeatSegment"},
)
PARTS = ("split", "rules", "attributes", "fuse", "records")
GRADING = PARTS[:3]
Seconds = tuple[float, float, float]
"""Of this process, of those that it started, and on the clock."""


# --------------------------------------------------------------------------------------------------------------- data


def responses(number: int, size: int, data: Path) -> Iterator[str]:
    """Thoughts and answers of about `size` characters, no two alike."""
    with gzip.open(data, "rt", encoding="utf-8") as lines:
        texts = [answer["response"] for line in lines for answer in json.loads(line)["responses"]]
    everything = "\n\n".join(texts)
    state = 1
    last = len(everything) - 2 * size
    for i in range(number):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        answer = texts[i % len(texts)]
        start = (state >> 20) % last
        length = max(0, size // 2 + (state >> 40) % size - len(answer))
        yield f"<think>{everything[start : start + length]}</think>\n{answer}"


def make_groups(texts: list[str], rollout: Any, group: Any) -> list[Any]:
    """Rollouts that have not been looked at yet, in groups."""
    prompt = ({"role": "user", "content": "Tell me about tides, in at least 100 words, because I asked."},)
    all_rollouts = [rollout.model_validate({"prompt": prompt, "response": text}) for text in texts]
    return [group(id=f"0/{i}", rollouts=tuple(all_rollouts[i : i + GROUP])) for i in range(0, len(all_rollouts), GROUP)]


# ------------------------------------------------------------------------------------------------------------- worker


def first_of(*names: str) -> Any:
    """The first module that this tree has."""
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(names[-1])


class Spent:
    """Seconds by part."""

    def __init__(self) -> None:
        self.parts: dict[str, Seconds] = dict.fromkeys(PARTS, (0.0, 0.0, 0.0))

    @contextmanager
    def on(self, part: str, within: str | None = None) -> Iterator[None]:
        """Count what is done meanwhile; it is not counted to `within`, whose time it is part of."""
        begun = seconds_now()
        try:
            yield
        finally:
            elapsed = tuple(now - before for now, before in zip(seconds_now(), begun, strict=True))
            self._add(part, elapsed, 1.0)
            if within is not None:
                self._add(within, elapsed, -1.0)

    def _add(self, part: str, taken: tuple[float, ...], times: float) -> None:
        own_seconds, theirs, clock = (x + times * y for x, y in zip(self.parts[part], taken, strict=True))
        self.parts[part] = own_seconds, theirs, clock

    def timed(self, call: Callable[..., Any], part: str, within: str | None) -> Callable[..., Any]:
        """The same function, counted."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            with self.on(part, within):
                return call(*args, **kwargs)

        return counted


def seconds_now() -> Seconds:
    """Of processors, here and in the processes that this one has started, and on the clock."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    theirs = ended.ru_utime + ended.ru_stime + sum(map(_seconds_of, _children()))
    return time.process_time(), theirs, time.perf_counter()


def _children() -> Iterator[str]:
    for task in Path("/proc/self/task").glob("*/children"):
        yield from task.read_text().split()


def _seconds_of(process: str) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has ended
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def work() -> None:
    """Answer every line, a number of workers, with the figures of one step."""
    settings = json.loads(sys.stdin.readline())
    trainer = first_of("rubrank.training.engine", "rubrank.trainer")
    rollouts = first_of("rubrank.rollouts.rollout", "rubrank.rollout")
    texts = [*responses(settings["rollouts"], settings["characters"], Path(settings["data"]))]
    gc.freeze()
    for line in sys.stdin:
        groups = make_groups(texts, rollouts.Rollout, rollouts.Group)
        how = settings | {"workers": json.loads(line)}
        with TemporaryDirectory() as folder:
            spent, rewards, size = one_step(trainer, groups, how, Path(folder))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        digest = hashlib.sha256(repr(rewards).encode()).hexdigest()
        print(json.dumps({"parts": spent.parts, "rewards": digest, "records": size, "peak": peak}), flush=True)


def one_step(trainer: Any, groups: list[Any], given: dict[str, Any], folder: Path) -> tuple[Spent, Any, int]:
    """Score the groups; figures, rewards, and bytes of records."""
    spent = Spent()
    path = folder / f"records.jsonl{given['packed']}"
    records: Any = path
    if hasattr(trainer, "Recording"):
        records = trainer.Recording(path, background=given["packed"] == ".zst")
    rubric = list(CRITERIA)
    more = {"workers": given["workers"], "records": records}
    engine = trainer.RewardEngine(rubric, "rlvr2+", attributes=ATTRIBUTES, **more)
    with spent.on("split"):
        for group in groups if not given["workers"] else ():  # workers find it themselves
            for rollout in group.rollouts:
                rollout.answer  # noqa: B018 - kept by the rollout
    # Older trees have other names, and some measure texts while grading, not in `fuse`.
    name = next(name for name in ("measure_texts", "figures_of", "measured") if hasattr(trainer, name))
    while_grading = "step" in inspect.signature(engine.grade).parameters
    measured = getattr(trainer, name)
    setattr(trainer, name, spent.timed(measured, "attributes", "rules" if while_grading else "fuse"))
    if hasattr(engine, "_make_records"):
        record_methods = [(engine, "_make_records"), (engine.recording, "write")]
    else:
        older = next(name for name in ("_write_records", "_write") if hasattr(engine, name))
        record_methods = [(engine, older)]
    for owner, method in record_methods:
        setattr(owner, method, spent.timed(getattr(owner, method), "records", "fuse"))
    try:
        with spent.on("rules"):
            graded = engine.grade(groups, **({"step": 0} if while_grading else {}))
        with spent.on("fuse"):
            result = engine.fuse(groups, graded, 0)
    finally:
        setattr(trainer, name, measured)
    with spent.on("records"):
        getattr(engine, "finish_records", int)()
    return spent, result.rewards, path.stat().st_size


# --------------------------------------------------------------------------------------------------------------- table


class Tree:
    """One source tree and its process."""

    def __init__(self, source: Path, given: dict[str, Any]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source)}
        command = [sys.executable, __file__, "--worker"]
        self.source = source
        self.answers = dict[int, list[dict[str, Any]]]()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._say(given)

    def step(self, workers: int = 0, kept: bool = True) -> None:
        """Have it make one step."""
        self._say(workers)
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.source}: the step failed; its error is above")
        if kept:
            self.answers.setdefault(workers, []).append(json.loads(answer))

    def _say(self, what: Any) -> None:
        assert self.process.stdin is not None
        print(json.dumps(what), file=self.process.stdin, flush=True)

    def last(self, workers: int = 0) -> dict[str, Any]:
        """What it answered to the last step."""
        return self.answers[workers][-1]

    def figures(self, which: Callable[[Seconds], float], workers: int = 0) -> dict[str, float]:
        """Medians by part, of the parts that grading has together, and of the whole."""
        steps = [
            {name: which(seconds) for name, seconds in answer["parts"].items()} for answer in self.answers[workers]
        ]
        medians = {part: median(step[part] for step in steps) for part in PARTS}
        grading = median(sum(step[part] for part in GRADING) for step in steps)
        return {**medians, "grade": grading, "step": median(sum(step.values()) for step in steps)}

    def close(self) -> None:
        """Let the process end."""
        self.process.communicate()


def own(seconds: Seconds) -> float:
    """Of the trainer's process."""
    return seconds[0]


def of_workers(seconds: Seconds) -> float:
    """Of the processes that it started."""
    return seconds[1]


def processor(seconds: Seconds) -> float:
    """Of both."""
    return seconds[0] + seconds[1]


def clock(seconds: Seconds) -> float:
    """On the wall."""
    return seconds[2]


def show(new: Tree, old: Tree | None) -> None:
    """One row a part."""
    print(
        "\n| part | old, processor | new, processor | new ÷ old | old, clock | new, clock |\n|---|--:|--:|--:|--:|--:|"
    )
    after = new.figures(processor), new.figures(clock)
    before = ({}, {}) if old is None else (old.figures(processor), old.figures(clock))
    for part in (*PARTS, "step"):
        ratio = "" if old is None or before[0][part] < 0.005 else f"{after[0][part] / before[0][part]:.2f}"
        cells = [_seconds(before[0].get(part)), _seconds(after[0][part]), ratio]
        print(f"| {' | '.join([part, *cells, _seconds(before[1].get(part)), _seconds(after[1][part])])} |")
    for name, tree in (("old", old), ("new", new)):
        if tree is not None:
            last = tree.last()
            size = f"records {last['records'] / 1e6:,.1f} MB, peak memory {last['peak']:,} MB"
            print(f"{name}: {size}, rewards {last['rewards'][:12]}")
    if old is not None:
        _judge("new ÷ old", after[0]["step"] / before[0]["step"], BAR)
        same = new.last()["rewards"] == old.last()["rewards"]
        print(f"rewards: {'the same, bit by bit' if same else 'others'}")


def show_workers(tree: Tree, workers: int) -> None:
    """One row a part: one process, and the same with workers."""
    parts = ("grade", "fuse", "records", "step")
    head = ["part", "one process", "clock", f"{workers} workers: trainer", "workers", "clock", "processor ÷", "clock ÷"]
    print(f"\n| {' | '.join(head)} |\n|---|{'--:|' * (len(head) - 1)}")
    alone = {which: tree.figures(which) for which in (processor, clock)}
    figures_of = {which: tree.figures(which, workers) for which in (own, of_workers, processor, clock)}
    for part in parts:
        cells = [alone[processor], alone[clock], figures_of[own], figures_of[of_workers], figures_of[clock]]
        ratios = [f"{figures_of[which][part] / alone[which][part]:.2f}" for which in (processor, clock)]
        print(f"| {' | '.join([part, *(_seconds(cell[part]) for cell in cells), *ratios])} |")
    rest = figures_of[own]["step"] + figures_of[of_workers]["grade"] / workers
    print(f"without waiting for anything, the trainer's seconds and a worker's share: {rest:.2f} s")
    _judge("processor", figures_of[processor]["step"] / alone[processor]["step"], PROCESSOR_BAR)
    print(f"clock {figures_of[clock]['step'] / alone[clock]['step']:.2f}")
    assert tree.last()["rewards"] == tree.last(workers)["rewards"], "rewards differ"
    print("rewards: the same, bit by bit")


def _judge(what: str, ratio: float, bar: float) -> None:
    print(f"{what} {ratio:.2f}, bar ≤ {bar}: {'reached' if ratio <= bar else 'not reached'}")


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=1024 * GROUP, help=f"a multiple of {GROUP} (default 16384)")
    parser.add_argument("--kilobytes", type=float, default=36.0, help="of a rollout, on average (default 36)")
    parser.add_argument("--workers", type=int, default=0, help="also with so many, in turns (default 0)")
    parser.add_argument("--rounds", type=int, default=3, help="steps that are measured, after one that is not")
    parser.add_argument("--packed", default=".zst", choices=["", ".gz", ".zst"], help="records (default .zst)")
    parser.add_argument("--old-packed", default="", choices=["", ".gz", ".zst"], help="the older tree's (default none)")
    parser.add_argument("--old", type=Path, metavar="SRC", help="the src folder of an older tree")
    parser.add_argument("--data", type=Path, default=DATA, help="groups with responses (default: ../shared/data)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work()
        return
    if arguments.rollouts < GROUP or arguments.rollouts % GROUP:
        parser.error(f"--rollouts must be a multiple of {GROUP}")
    if not arguments.data.exists():
        parser.error(f"{arguments.data} is not there: give the file with --data")
    if arguments.old is not None and not (arguments.old / "rubrank").is_dir():
        parser.error("--old must name a src folder, which holds rubrank/")
    compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    """Steps in turns, then the table."""
    settings = {
        "rollouts": arguments.rollouts,
        "characters": int(arguments.kilobytes * 1000),
        "data": str(arguments.data),
    }
    print(", ".join(f"{name} {value}" for name, value in machine(("numpy", "numba")).items()), f"load {load()}")
    print(
        f"{arguments.rollouts // GROUP:,} × {GROUP} rollouts of {arguments.kilobytes:g} kB, workers {arguments.workers}"
    )
    new = Tree(NEW, settings | {"packed": arguments.packed})
    old = None
    if arguments.old is not None:
        old = Tree(arguments.old.resolve(), settings | {"packed": arguments.old_packed})
    turns = [(tree, 0) for tree in (old, new) if tree is not None]
    if arguments.workers:
        turns.append((new, arguments.workers))
    for turn in range(arguments.rounds + 1):
        for tree, workers in turns if turn % 2 else turns[::-1]:
            tree.step(workers, kept=turn > 0)  # the first compiles, starts workers and fills caches
    show(new, old)
    if arguments.workers:
        show_workers(new, arguments.workers)
    for tree in {id(tree): tree for tree, _ in turns}.values():
        tree.close()
    print(f"load {load()}")


if __name__ == "__main__":
    main()
