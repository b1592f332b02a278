"""How fast is grading by rules? Everything side by side, in one run.

    python benchmarks/grading.py                     a minute or two
    python benchmarks/grading.py --quick             fewer rounds, fewer rollouts
    python benchmarks/grading.py --json result.json  the same figures for machines

1. The IFEval checks on 541 × 8 real responses (../shared/data), against lm-eval's IFEval code on the same responses;
   without lm-eval only our own time is shown. Both get strings and give verdicts; neither uses more than one process.
   `pip install lm-eval==0.4.13 langdetect immutabledict nltk` brings the rival (no torch is needed), and
   `python -m nltk.downloader punkt_tab` its model of sentences. Where that model cannot be loaded, the same tokenizer
   runs untrained: the same algorithm without its learned tables; the table then says so.
2. A step of 1,024 responses of 4 kB with 10 rule criteria and the 11 Markdown attributes, against one pass of
   `pyromark.html` over the same texts: the least that any look at their structure costs. What each part takes follows.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyromark
from rich.console import Console
from side_by_side import Contender, Row, as_json, at_most, call, faster, in_parts, machine, show, side_by_side

from rubrank.fusion.control.attributes import measure
from rubrank.grading.grade import grade
from rubrank.rollouts.groups import read_groups
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.public import convert_ifeval
from rubrank.rubrics.rubric import Rubric, parse_rubric
from rubrank.verifiers.shared.language import detect_language

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "m_ifeval" / "en_groups.jsonl.gz"
PACKAGES = ("pyromark", "lm-eval", "nltk", "langdetect", "pydantic", "numpy")
LENGTH = 4096

CRITERIA: tuple[dict[str, Any], ...] = (
    {"name": "WordCount", "params": {"low": 100, "high": 800}},
    {"name": "SentenceCount", "params": {"relation": "at least", "count": 5}},
    {"name": "ParagraphCount", "params": {"relation": "at least", "count": 3}},
    {"name": "BulletCount", "params": {"relation": "at least", "count": 3}},
    {"name": "Keyword", "params": {"keywords": ["because", "example"]}},
    {"name": "ForbiddenContent", "params": {"words": ["obviously", "utilize"]}},
    {"name": "LetterFrequency", "params": {"letter": "q", "relation": "less than", "count": 20}},
    {"name": "punctuation:no_comma"},
    {"name": "EmptyAnswer"},
    {"name": "ThinkLeak"},
)


# ------------------------------------------------------------------------------------------------------------- IFEval


def ifeval(rows: list[dict[str, Any]], rounds: int) -> Iterator[Row]:
    """All instructions of all responses; reading the file is not timed for either."""
    section = f"IFEval, {len(rows)} prompts × {len(rows[0]['responses'])} responses, strict"
    contenders = {"ours": call(lambda: _grade_fresh(rows), calls=1)}
    if find_spec("lm_eval") is None:
        seconds = side_by_side(contenders, rounds)
        yield Row(section, "ours (lm-eval is not installed)", seconds["ours"], "", None, seconds["ours"], False)
        return
    rival = "lm-eval" if _sentence_model() else "lm-eval, its sentence model untrained"
    contenders[rival] = _lm_eval(rows)
    gc.freeze()  # the collector would go through all that lm-eval imports, and be timed with it
    seconds = side_by_side(contenders, rounds)
    yield faster(section, "all checks", seconds["ours"], rival, seconds[rival], 5.0)


def _grade_fresh(rows: list[dict[str, Any]]) -> None:
    # Fresh each time: neither rollouts whose text is cut already nor languages that are known.
    detect_language.cache_clear()
    grade(read_groups(rows), workers=0, compat="upstream")


def _sentence_model() -> bool:
    """Is nltk's model of sentences there? If not, an untrained one takes its place."""
    import nltk
    from lm_eval.tasks.ifeval import instructions_util

    try:
        instructions_util.count_sentences("One. Two.")
    except LookupError:
        untrained = nltk.tokenize.punkt.PunktSentenceTokenizer()
        instructions_util._get_sentence_tokenizer = lambda: untrained
        nltk.tokenize._get_punkt_tokenizer = lambda language="english": untrained  # `word_tokenize` asks for it too
        return False
    return True


def _lm_eval(rows: list[dict[str, Any]]) -> Contender:
    """lm-eval's own strict check of every response."""
    from lm_eval.tasks.ifeval import utils

    def check(example: Any, text: str) -> Callable[[], object]:
        return lambda: utils.test_instruction_following_strict(example, text)

    jobs = []
    for row in rows:
        ids = [name.removeprefix("en:") for name in row["instruction_id_list"]]
        example = utils.InputExample(
            key=row["key"], instruction_id_list=ids, prompt=row["prompt"], kwargs=row["kwargs"]
        )
        jobs += [check(example, answer["response"]) for answer in row["responses"]]
    return in_parts(jobs, 1)


# --------------------------------------------------------------------------------------------------------------- a step


def step(texts: Sequence[str], rounds: int) -> Iterator[Row]:
    """Grading and measuring, from strings to a score table and attributes; then each part alone."""
    section = f"a step: {len(texts):,} responses of 4 kB"
    gc.freeze()  # the collector would go through the responses that were read, and be timed with it
    contenders = {
        "pyromark.html": call(lambda: [pyromark.html(text) for text in texts], 5),
        "10 rule criteria and 11 Markdown attributes": call(lambda: _step(texts, _rubric(CRITERIA), True), 1),
        "the attributes alone": call(lambda: measure(texts, ["markdown"]), 1),
        "the criteria alone": call(lambda: _step(texts, _rubric(CRITERIA), False), 1),
    }
    for criterion in CRITERIA:
        rubric = _rubric([criterion])
        contenders[f"{criterion['name']} alone"] = call(lambda rubric=rubric: _step(texts, rubric, False), 1)  # type: ignore[misc]
    seconds = side_by_side(contenders, rounds)
    pass_ = seconds.pop("pyromark.html")
    for case, times in seconds.items():
        yield at_most(section, case, times, "pyromark.html", pass_, 8.0 if case.startswith("10") else None)


def _rubric(criteria: Sequence[dict[str, Any]]) -> Rubric:
    return parse_rubric(list(criteria), "benchmark")


def _step(texts: Sequence[str], rubric: Rubric, attributes: bool) -> None:
    groups = [
        Group(
            id=str(i),
            rollouts=tuple(Rollout.model_validate({"prompt": "p", "response": text}) for text in texts[i : i + 8]),
        )
        for i in range(0, len(texts), 8)
    ]
    grade(groups, rubric, workers=0)
    if attributes:
        measure(texts, ["markdown"])


def _texts(rows: list[dict[str, Any]], number: int) -> list[str]:
    """Real responses, strung together and cut to 4 kB each."""
    everything = "\n\n".join(answer["response"] for row in rows for answer in row["responses"])
    return [everything[i * LENGTH : (i + 1) * LENGTH] for i in range(number)]


# --------------------------------------------------------------------------------------------------------------- main


def load(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer rollouts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    parser.add_argument("--data", type=Path, default=DATA, help="groups with responses (default: ../shared/data)")
    arguments = parser.parse_args(argv)
    if not arguments.data.exists():
        parser.error(f"{arguments.data} is not there: give the file with --data")
    rows = load(arguments.data)[: 20 if arguments.quick else None]
    convert_ifeval(rows[0]["instruction_id_list"], rows[0]["kwargs"])  # imports the verifiers
    texts = _texts(rows, 64 if arguments.quick else 1024)
    results = [*ifeval(rows, 1 if arguments.quick else 3), *step(texts, 2 if arguments.quick else 7)]
    show("grading", results, Console())
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(PACKAGES), "rows": as_json(results)}, indent=2) + "\n")


if __name__ == "__main__":
    main()
