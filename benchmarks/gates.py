"""What gates and penalties say of good answers: a table of gate × language, and every hit for reading.

    python benchmarks/gates.py                          # the table: fired by language, share, missing
    python benchmarks/gates.py --hits hits.jsonl        # and what fired, with prompt, answer and reason
    python benchmarks/gates.py --sources m_ifeval sysbench  # some of the sources

The answers are those of models that were not broken (../shared/data), so a gate that fires is probably wrong. Not all
are faultless: some were cut by a limit on tokens, some loop. `REVIEWED` holds the hits that were read and found right;
they are counted apart. "Fired" counts verdicts of 0; what is missing stops no rollout.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.verifier import find_verifier

DATA = Path(__file__).parents[2] / "shared" / "data"
REVIEWED = Path(__file__).with_name("gates_reviewed.tsv")
GATES = ("EmptyAnswer", "Truncated", "RepeatSegment", "GarbledText", "ThinkLeak", "WrongLanguage")
PENALTIES = ("Verbosity", "RoboticTemplate", "ImproperWording", "SecurityRisk")
FEWEST = 200  # answers of a language below which it is counted under "others"


class GoodAnswer(NamedTuple):
    """One answer of the corpus."""

    source: str
    model: str
    rollout: Rollout


def read_rows(path: str) -> Iterator[dict[str, Any]]:
    """The rows of a gzipped file of JSON lines."""
    with gzip.open(DATA / path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def read_good_answers() -> Iterator[GoodAnswer]:
    """Strong models on Chinese and English prompts."""
    for row in read_rows("good_answers/answers.jsonl.gz"):
        yield GoodAnswer(
            row["src"], row["model"], Rollout.model_validate({"prompt": row["prompt"], "response": row["response"]})
        )


STRONG = ("gpt-4o-mini-2024-07-18", "claude-3-haiku-20240307", "Qwen__Qwen2.5-32B-Instruct-GPTQ-Int4")


def read_m_ifeval() -> Iterator[GoodAnswer]:
    """English and French prompts with constraints of form. The smaller models loop and switch languages: left out."""
    for language in ("en", "fr"):
        for group in read_rows(f"m_ifeval/{language}_groups.jsonl.gz"):
            for answer in group["responses"]:
                rollout = Rollout.model_validate({"prompt": group["prompt"], "response": answer["response"]})
                if answer["model"] in STRONG:
                    yield GoodAnswer("m_ifeval", answer["model"], rollout)


def read_arena() -> Iterator[GoodAnswer]:
    """Arena-Hard 2: prompts in some twenty languages."""
    for name in ("o3-mini-2025-01-31", "llama3.1-8b-instruct"):
        for row in read_rows(f"eval/arena_hard_v2/answers_{name}.jsonl.gz"):
            question, reply = row["messages"]
            content = reply["content"]
            response = content["answer"] if isinstance(content, dict) else content
            yield GoodAnswer(
                "arena_hard_v2", name, Rollout.model_validate({"prompt": question["content"], "response": response})
            )


def read_sysbench() -> Iterator[GoodAnswer]:
    """Chinese questions under a system prompt with rules."""
    rules: dict[int, str] = {}  # of each conversation; only its first turn repeats them
    for row in read_rows("eval/sysbench/gpt4o.jsonl.gz"):
        if row["system_prompt"]:
            rules[row["system_id"]] = row["system_prompt"]
        messages = [
            {"role": "system", "content": rules[row["system_id"]]},
            {"role": "user", "content": row["prompt"]},
        ]
        yield GoodAnswer("sysbench", "gpt-4o", Rollout.model_validate({"prompt": messages, "response": row["answer"]}))


def read_simpleqa() -> Iterator[GoodAnswer]:
    """Czech questions with short answers."""
    for name in ("claude-3-5-haiku-20241022", "gpt-4o-mini-2024-07-18"):
        for row in read_rows(f"eval/simpleqa/czech_{name}.jsonl.gz"):
            yield GoodAnswer(
                "simpleqa",
                name,
                Rollout.model_validate({"prompt": row["problem"], "response": row["predicted_answer"]}),
            )


def read_mmlu_pro() -> Iterator[GoodAnswer]:
    """Reasoned answers to questions with options."""
    for row in read_rows("eval/mmlu_pro/jamba-1.5-large_1500.jsonl.gz"):
        options = "\n".join(f"{chr(65 + i)}. {option}" for i, option in enumerate(row["options"]))
        prompt = f"{row['question']}\n{options}\nThink step by step, then finish with: the answer is (X)."
        yield GoodAnswer(
            "mmlu_pro", "jamba-1.5-large", Rollout.model_validate({"prompt": prompt, "response": row["model_outputs"]})
        )


READERS: dict[str, Callable[[], Iterator[GoodAnswer]]] = {
    "good_answers": read_good_answers,
    "m_ifeval": read_m_ifeval,
    "arena_hard_v2": read_arena,
    "sysbench": read_sysbench,
    "simpleqa": read_simpleqa,
    "mmlu_pro": read_mmlu_pro,
}


def bind_verifier(name: str) -> Callable[[Rollout], tuple[float | None, str]]:
    """The verifier with its default parameters."""
    gate = find_verifier(name)
    return gate.bind(gate.check_parameters({}))


def hash_answer(rollout: Rollout) -> str:
    """A short name of an answer, for the file of reviewed hits."""
    return hashlib.sha256(rollout.response.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_reviewed() -> set[tuple[str, str]]:
    """The hits (gate, answer) that were read and found right."""
    rows = [line.split("\t") for line in REVIEWED.read_text("utf-8").splitlines() if not line.startswith("#")]
    return {(gate, answer) for gate, answer, *_ in rows}


Counts = Counter[tuple[str, str, str]]


def measure(sources: list[str], names: list[str], hits: Path | None) -> tuple[Counter[str], Counts]:
    """Answers of each language; and how often each gate fired, was right to fire, or was missing there."""
    sizes: Counter[str] = Counter()
    counts: Counts = Counter()
    hit_rows: list[dict[str, Any]] = []
    gates = {name: bind_verifier(name) for name in names}
    reviewed = read_reviewed()
    for source in sources:
        for answer in READERS[source]():
            rollout = answer.rollout
            language = detect_language(rollout.answer)[0] or "none"
            sizes[language] += 1
            for name, gate in gates.items():
                value, reason = gate(rollout)
                if value is None:
                    counts[name, language, "missing"] += 1
                elif value == 0 and (name, hash_answer(rollout)) in reviewed:
                    counts[name, language, "right"] += 1
                elif value == 0:
                    counts[name, language, "fired"] += 1
                    hit = {"gate": name, "source": answer.source, "model": answer.model, "language": language}
                    hit |= {"reason": reason, "id": hash_answer(rollout), "answer": rollout.response}
                    hit_rows.append(hit | {"prompt": [message.content for message in rollout.prompt]})
    if hits:
        hits.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in hit_rows), encoding="utf-8")
    return sizes, counts


def print_table(sizes: Counter[str], counts: Counts, names: list[str]) -> None:
    """One row a gate, one column a language."""
    languages = [language for language, size in sizes.most_common() if size >= FEWEST]
    other_languages = [language for language in sizes if language not in languages]
    columns = [[language] for language in languages] + [other_languages]
    titles = [f"{language} ({sizes[language]:,})" for language in languages]
    titles.append(f"{len(other_languages)} others ({sum(sizes[language] for language in other_languages):,})")
    print("| | " + " | ".join(titles) + " | all | share | right to fire | missing |")
    print("|---|" + "---|" * (len(titles) + 4))
    for name in names:
        fired = [sum(counts[name, language, "fired"] for language in column) for column in columns]
        right = sum(counts[name, language, "right"] for language in sizes)
        missing = sum(counts[name, language, "missing"] for language in sizes)
        total = sizes.total()
        figures = f"{sum(fired)} | {sum(fired) / total:.2%} | {right} | {missing / total:.1%}"
        print(f"| {name} | {' | '.join(map(str, fired))} | {figures} |")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", nargs="*", default=list(READERS), choices=list(READERS))
    parser.add_argument("--gates", nargs="*", default=[*GATES, *PENALTIES], help="names of verifiers")
    parser.add_argument("--hits", type=Path, help="write what fired to this file, as JSON lines")
    options = parser.parse_args()
    sizes, counts = measure(options.sources, options.gates, options.hits)
    print_table(sizes, counts, options.gates)


if __name__ == "__main__":
    main()
