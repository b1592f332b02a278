"""What does training do when its judge goes away in the middle, and is it the same run afterwards?

    python benchmarks/outages.py                                   60 s: down, hanging and 503; wait, stop and continue
    python benchmarks/outages.py --seconds 600 --policies wait,stop --kinds down
    python benchmarks/outages.py --trainer verl --python .venv-verl/bin/python      verl's reward loop instead of TRL
    python benchmarks/outages.py --seconds 3 --kinds 503 --policies wait --pause 1  to see that it works

`rubrank train` trains the tiny policy of recipes/tiny_policy with TRL's GRPOTrainer; one criterion is asked of a judge
on this machine, in a process of its own, whose verdict depends on the text alone. After so many answers the judge
goes away: `down` kills its process (connections are refused), `hang` takes requests and never answers, `503` says so.
A run that stopped is resumed when the judge is back. Every run is compared with one that nothing disturbed: rewards
are the same if those of all records are. Runs wait most of the time, so several go on at once (`--together`).
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tests" / "judges"), str(ROOT / "tests" / "training")]

from server import MODEL, Answer, Asked, Server  # type: ignore[import-not-found]  # noqa: E402

STEPS = 4
PROMPTS = 4
ROLLOUTS = 4
CALLS = PROMPTS * ROLLOUTS  # of a step
AFTER = {"trl": CALLS + CALLS // 2, "verl": CALLS + CALLS // 4}
"""Answers until the judge goes away: in the middle of TRL's second step, or of verl's third (half as large)."""
TIMEOUT = 30.0  # seconds for one call
DOWN = 86  # exit code of a judge that goes away


# ----------------------------------------------------------------------------------------------------------- the judge


def verdict(text: str) -> str:
    """Of a text, and always the same."""
    holds = hashlib.sha256(text.encode()).digest()[0] % 2
    return json.dumps({"reasoning": "r", "finding": "holds" if holds else "does not hold", "verdict": holds})


def serve_judge(port: int, kind: str, seconds: float, after: int) -> None:
    """Until its input closes; goes away once, after so many answers."""
    requests = 0
    away_until = 0.0

    def answer(request: Asked) -> Answer:
        nonlocal requests, away_until
        requests += 1
        if requests == after and kind != "none":
            away_until = time.monotonic() + seconds
            print(json.dumps({"away": time.time()}), flush=True)
            if kind == "down":
                os._exit(DOWN)
        if time.monotonic() < away_until:
            return Answer(drop="never") if kind == "hang" else Answer(status=503, body='{"error": "overloaded"}')
        return Answer(verdict(request.prompt), delay=0.05)

    server = Server(answer)
    loop = asyncio.new_event_loop()
    threading.Thread(target=lambda: loop.run_until_complete(server.serve(port)), daemon=True).start()
    while not server.url:
        time.sleep(0.01)
    print(json.dumps({"url": server.url}), flush=True)
    sys.stdin.read()
    print(json.dumps({"asked": requests}), flush=True)
    os._exit(0)


class Judge:
    """The judge's process; it comes back after an outage, by itself or by being started again."""

    def __init__(self, kind: str, seconds: float, after: int) -> None:
        self._seconds = seconds
        self._after = after
        self.asked = 0
        self.back = threading.Event()
        self._over = False
        self._process = self._start(0, kind)
        self.url = str(self._read_message()["url"])
        self._watch = threading.Thread(target=self._look_after, args=(kind,), daemon=True)
        self._watch.start()

    def _start(self, port: int, kind: str) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, "--judge", f"{port},{kind},{self._seconds},{self._after}"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _read_message(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line else {}

    def _look_after(self, kind: str) -> None:
        message = self._read_message()
        if "away" not in message:
            self.asked += int(message.get("asked", 0))
            return
        if kind == "down":
            self._process.wait()
            self.asked += self._after
        time.sleep(self._seconds)
        if kind == "down" and not self._over:
            self._process = self._start(int(self.url.split(":")[2].split("/")[0]), "none")
            self._read_message()
        self.back.set()
        self.asked += int(self._read_message().get("asked", 0))

    def close(self) -> int:
        """How often it was asked."""
        self._over = True
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.close()
        self._watch.join(self._seconds + 10)
        self._process.wait()
        return self.asked


def judges_of(url: str, policy: str, wait: float, pause: float, cache: Path) -> dict[str, Any]:
    endpoint = {"base_url": url, "model": MODEL, "concurrency": 4}
    judge = {"kind": "absolute", "endpoints": [endpoint], "timeout": TIMEOUT, "retry": {"breaker_pause": pause}}
    return {"judges": [judge], "on_outage": policy, "outage_wait": wait, "cache": str(cache)}


# ------------------------------------------------------------------------------------------------------------ the runs


@dataclass(frozen=True)
class Case:
    """One run."""

    kind: str
    policy: str
    seconds: float
    wait: float
    """`outage_wait`."""


@dataclass(frozen=True)
class RunResult:
    """What became of it."""

    kind: str
    policy: str
    seconds: float
    wait: float
    exit_code: int
    took: float
    waited: float
    """Of the step in which the judge went away."""
    missing: float
    """Share of the judged answers of the run that are missing in its records."""
    checkpoint: str
    said: str
    resumed: int | None
    """The exit code of the run that went on, where it had stopped."""
    asked: int
    same: bool
    """Are all rewards those of the run that nothing disturbed?"""


def job_of(folder: Path, judges: dict[str, Any]) -> Path:
    """The tiny policy with a judged criterion beside its rules."""
    rubric = yaml.safe_load((folder / "rubric.yaml").read_text())
    rubric["criteria"] = [c for c in rubric["criteria"] if c["name"] != "Letters"]  # a gate would leave little to ask
    rubric["criteria"].append({"name": "Likes", "question": "Would a reader like it?", "domain": "binary"})
    (folder / "rubric.yaml").write_text(yaml.safe_dump(rubric))
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config |= {"held_out": None, "judges": judges, "output": "run"}
    config["stages"][0]["steps"] = STEPS
    config["training"] |= {"prompts_per_batch": PROMPTS, "per_device_train_batch_size": CALLS}
    config["training"] |= {"num_generations": ROLLOUTS, "save_steps": 100}
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({name: value for name, value in config.items() if value is not None}))
    return path


def train(job: Path, *more: str) -> tuple[int, str]:
    """`rubrank train` as a process: exit code and the last line of what it said."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "rubrank", "train", str(job), *more]
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=job.parent)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    warned = [line for line in lines if "on_outage" in line or line.startswith("rubrank:")]
    return done.returncode, (warned or lines or [""])[-1]


def rewards_of(folder: Path) -> dict[str, Any]:
    path = folder / "run" / "records.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {row["group"]: row for row in rows if "group" in row}


def longest_wait(folder: Path) -> float:
    """The longest that a step waited for its judges."""
    states = [*(folder / "run").glob("checkpoint-*/trainer_state.json"), folder / "run" / "trainer_state.json"]
    seconds = [
        float(line["rubrank/judge/waited"])
        for state in states
        if state.exists()
        for line in json.loads(state.read_text())["log_history"]
        if "rubrank/judge/waited" in line
    ]
    return max(seconds, default=0.0)


def count_missing(records: dict[str, Any]) -> float:
    """Share of the judged scores that is missing."""
    scores = [row["scores"] for row in records.values()]
    judged = [value for some in scores for value in list_judged_scores(some)]
    return sum(value is None for value in judged) / max(len(judged), 1)


def list_judged_scores(scores: Any) -> list[Any]:
    return list(scores["Likes"]) if isinstance(scores, dict) else [row[-1] for row in scores]


def run(
    case: Case, made: Path, folder: Path, pause: float, alone: dict[str, Any] | None
) -> tuple[RunResult, dict[str, Any]]:
    """One run from beginning to end, resumed where it stopped."""
    subprocess.run(["cp", "-r", str(made), str(folder)], check=True)
    judge = Judge(case.kind, case.seconds, AFTER["trl"])
    job = job_of(folder, judges_of(judge.url, case.policy, case.wait, pause, folder / "replies.sqlite"))
    begun = time.monotonic()
    code, last_message = train(job)
    took = time.monotonic() - begun
    checkpoints = sorted(path.name for path in (folder / "run").glob("checkpoint-*"))
    resumed = None
    if code and alone is not None:
        judge.back.wait(case.seconds + TIMEOUT)  # a run that failed for another reason left it where it was
        resumed, _ = train(job, "--resume")
    requests = judge.close()
    records = rewards_of(folder)
    same = alone is None or {g: r["reward"] for g, r in records.items()} == {g: r["reward"] for g, r in alone.items()}
    last_line = re.sub(r"\s+", " ", last_message)[:200]
    result = RunResult(
        **asdict(case),
        exit_code=code,
        took=round(took, 1),
        waited=round(longest_wait(folder), 1),
        missing=round(count_missing(records), 3),
        checkpoint=checkpoints[-1] if checkpoints else "none",
        said=last_line,
        resumed=resumed,
        asked=requests,
        same=same,
    )
    print(json.dumps(asdict(result)), flush=True)
    return result, records


# ----------------------------------------------------------------------------------------------------------------- verl


def verl_child(spec: str) -> None:
    """verl's agent loop, reward loop and replay buffer, in verl's environment: some steps, and what they gave."""
    import tiny_verl  # type: ignore[import-not-found]

    options = json.loads(spec)
    folder = Path(options["folder"])
    policy = tiny_verl.policy_folder(folder / "policy")
    rubric = [*tiny_verl.RUBRIC[1:], {"name": "Likes", "question": "Would a reader like it?", "domain": "binary"}]
    steps = []
    with tiny_verl.cluster_with(policy):
        config = tiny_verl.config_of(
            policy, *tiny_verl.with_manager("RubricBarrier"), rubric=rubric, judges=options["judges"], timeout=900
        )
        with tiny_verl.run_of(config, policy) as trainer:
            for step in range(1, 2 * STEPS + 1):
                begun = time.monotonic()
                batch = tiny_verl.sampled(trainer, tiny_verl.prompts([0, 1], step), step)
                rows = tiny_verl.read(trainer, batch, "rm_scores").values()
                rewards = sorted((row["text"], round(float(row["rm_scores"].sum()), 6)) for row in rows)
                steps.append({"seconds": round(time.monotonic() - begun, 1), "rewards": rewards})
                print(json.dumps(steps[-1]), flush=True)


def run_verl(case: Case, python: str, folder: Path, pause: float) -> dict[str, Any]:
    """The reward loop beside an outage: seconds and rewards of every step."""
    folder.mkdir(parents=True)
    judge = Judge(case.kind, case.seconds, AFTER["verl"])
    judges = judges_of(judge.url, case.policy, case.wait, pause, folder / "replies.sqlite")
    del judges["cache"]  # the script of the policy says the same at every step
    spec = json.dumps({"folder": str(folder), "judges": judges})
    begun = time.monotonic()
    done = subprocess.run([python, __file__, "--verl-child", spec], capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"seconds"')]
    errors = [line for line in done.stderr.splitlines() if "Outage" in line or "Failed" in line]
    result = {
        **asdict(case),
        "exit_code": done.returncode,
        "took": round(time.monotonic() - begun, 1),
        "steps": len(lines),
        "seconds_of_steps": [line["seconds"] for line in lines],
        "other_rewards": _others([line["rewards"] for line in lines]),
        "asked": judge.close(),
        "said": (errors or done.stderr.splitlines() or [""])[-1][:300],
    }
    print(json.dumps(result), flush=True)
    return result


def _others(steps: list[Any]) -> dict[int, Any]:
    """Steps, counted from 1, whose rewards are not those of most steps; with them, where there are such."""
    if not steps:
        return {}
    texts = [json.dumps(rewards) for rewards in steps]
    usual = max(texts, key=texts.count)
    unusual = {i: json.loads(text) for i, text in enumerate(texts, start=1) if text != usual}
    return {0: json.loads(usual), **unusual} if unusual else {}


# ----------------------------------------------------------------------------------------------------------------- main


def table(results: list[RunResult]) -> str:
    """The findings in Markdown."""
    lines = [
        "| judge | seconds | on_outage | what the run did | a step waited, at most | missing | rewards |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        policy = f"{result.policy}, {result.wait:g} s" if result.policy == "wait" else result.policy
        did = f"stopped, exit code {result.exit_code}, {result.checkpoint}" if result.exit_code else "went on"
        if result.resumed is not None:
            did += "; resumed and finished" if not result.resumed else f"; resumed with exit code {result.resumed}"
        same = "the same" if result.same else "others"
        cells = [result.kind, f"{result.seconds:g}", policy, did, f"{result.waited:g} s", f"{result.missing:.0%}", same]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kinds", default="down,hang,503")
    parser.add_argument("--policies", default="wait,stop,continue")
    parser.add_argument("--wait", type=float, default=300.0, help="outage_wait")
    parser.add_argument("--pause", type=float, default=20.0, help="of the breaker, in seconds")
    parser.add_argument("--together", type=int, default=3, help="runs at the same time")
    parser.add_argument("--trainer", choices=["trl", "verl"], default="trl")
    parser.add_argument("--python", default=sys.executable, help="of the environment that has verl")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--judge", help=argparse.SUPPRESS)
    parser.add_argument("--verl-child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge:
        port, kind, seconds, after = options.judge.split(",")
        serve_judge(int(port), kind, float(seconds), int(after))
    elif options.verl_child:
        verl_child(options.verl_child)
    else:
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """All cases, and the table."""
    cases = [
        Case(kind, policy, options.seconds, options.wait)
        for kind in options.kinds.split(",")
        for policy in options.policies.split(",")
    ]
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(options.together) as pool:
        folder = Path(temporary)
        if options.trainer == "verl":
            verl = [run_verl(case, options.python, folder / f"{i}", options.pause) for i, case in enumerate(cases)]
            results: list[Any] = verl
        else:
            template = folder / "made"
            subprocess.run([sys.executable, str(ROOT / "recipes/tiny_policy/make.py"), str(template)], check=True)
            first, alone = run(Case("none", "wait", 0.0, options.wait), template, folder / "alone", options.pause, None)
            if first.exit_code:
                raise SystemExit(first.said)
            runs = [
                pool.submit(run, case, template, folder / f"{i}", options.pause, alone) for i, case in enumerate(cases)
            ]
            measured = [entry.result()[0] for entry in runs]
            print(table(measured))
            results = [asdict(entry) for entry in measured]
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
