"""Answers that a program checks: instructions (IFEval, IFBench) and choices (GPQA diamond, MMLU-Pro, LongBench v2).

    IFEval, IFBench     by the verifiers of `rubrank.verifiers`; prompt-level strict: every instruction of the prompt
                        followed; loose: in any of eight variants of the answer
    choices             by the letter that an output states

If an instruction cannot be decided here, the score of its prompt is missing. It does not count as a failure.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import ClassVar

from rubrank.errors import InvalidInput, RubrankError
from rubrank.evaluation.benchmark import (
    Benchmark,
    DataFile,
    ItemScore,
    Messages,
    Metrics,
    MissingScore,
    Row,
    Setting,
    divide_sums,
    mean,
    mean_by_label,
    mean_value,
)
from rubrank.rollouts.rollout import make_rollout
from rubrank.verifiers.instruction_items import public_params
from rubrank.verifiers.verifier import Mode

# ------------------------------------------------------------------------------------------------- IFEval and IFBench

_MODES: tuple[Mode, Mode] = ("strict", "loose")
_OTHER = {"ifeval": "ifbench", "ifbench": "ifeval"}


class IFEval(Benchmark):
    """541 prompts with 25 kinds of instructions."""

    name = "ifeval"
    title = "IFEval"
    capability = "instruction following"
    headline = "prompt strict"
    licence = "Apache-2.0"
    data = DataFile.on_hub("ifeval.jsonl", "google/IFEval")
    settings: ClassVar = {
        "compat": Setting(
            "upstream",
            ("upstream", "fixed"),
            "verdicts as the public checkers give them, or as the words of an instruction say",
        )
    }

    # Public output files have nothing but the prompt.
    ids = ("key", "prompt", *Benchmark.ids)

    def other_ids(self, row: Row) -> Sequence[str]:
        """Return the prompt."""
        return (str(row["prompt"]),) if row.get("prompt") is not None else ()

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Score which instructions were followed, strictly and loosely."""
        rollout = make_rollout(
            {"prompt": str(item.get("prompt", "")), "response": output, "reasoning": ""}, self.name
        )
        followed: dict[str, list[float]] = {mode: [] for mode in _MODES}
        kwargs = item.get("kwargs") or [{}] * len(item["instruction_id_list"])
        for name, arguments in zip(item["instruction_id_list"], kwargs, strict=True):
            present_arguments = {
                key: value for key, value in (arguments or {}).items() if value is not None
            }
            try:
                verifier, params = public_params(name, present_arguments)
            except RubrankError as error:
                raise MissingScore(f"{name}: {error}") from None
            # The files of both benchmarks have the same form, so a user may confuse them.
            if verifier.family == _OTHER[self.name]:
                allowed = f"instructions of {self.title}"
                remedy = f"Is the benchmark {_OTHER[self.name]} meant?"
                raise InvalidInput("row", "instruction_id_list", allowed, repr(name), remedy)
            try:
                checked = verifier.check_parameters(params)
            except RubrankError as error:
                raise MissingScore(f"{name}: {error}") from None
            for mode in _MODES:
                verdict = verifier.verify(
                    rollout, checked, compat=self.options["compat"], mode=mode
                )
                if verdict.value is None:
                    raise MissingScore(f"{name}: {verdict.reason}")
                followed[mode].append(float(verdict.value == verifier.domain.high))
        values: dict[str, float] = {"instructions": float(len(followed["strict"]))}
        for mode in _MODES:
            values[f"prompt {mode}"] = float(all(followed[mode]))
            values[f"followed {mode}"] = sum(followed[mode])
        return self.make_score(item, values)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return prompt-level and instruction-level accuracy, strict and loose; the headline first."""
        metrics: Metrics = {}
        for mode in _MODES:
            metrics[f"prompt {mode}"] = mean_value(scores, f"prompt {mode}")
            metrics[f"instruction {mode}"] = divide_sums(scores, f"followed {mode}", "instructions")
        return {self.headline: metrics[self.headline], **metrics}


class IFBench(IFEval):
    """300 prompts with 58 new kinds of instructions; the headline is the loose prompt-level accuracy."""

    name = "ifbench"
    title = "IFBench"
    headline = "prompt loose"
    licence = "ODC-BY 1.0"
    data = DataFile.on_hub("ifbench.jsonl", "allenai/IFBench_test")


# -------------------------------------------------------------------------------------------------------------- choices


def _describe_choice(choice: str | None) -> str:
    return "no answer" if choice is None else f"answered {choice}"


# --------------------------------------------------------------------------------------------------------------- GPQA

_PUBLISHED_SCORES = {
    **dict.fromkeys(("1", "1.0", "TRUE", "C"), 1.0),
    **dict.fromkeys(("0", "0.0", "FALSE", "I"), 0.0),
}
"""Scores in published files, also those of Inspect: C is correct, I is incorrect."""
_GPQA_ANSWER = re.compile(r"Answer\s*[:：]\s*[\"'*`$\s(]*([A-D])\b", re.IGNORECASE)


class GPQA(Benchmark):
    """198 questions that search engines do not answer, with four choices.

    Each question is asked `repeats` times, and each time the choices are in another order, drawn with the seed.

    The official columns are kept (Question, Correct Answer, Incorrect Answer 1–3). The data contains a canary: it is
    read from a file of yours, never copied.
    """

    name = "gpqa"
    title = "GPQA diamond"
    capability = "reasoning"
    headline = "accuracy"
    licence = "CC BY 4.0"
    data = DataFile.on_hub("gpqa_diamond.csv", "Idavidrein/gpqa", "gpqa_diamond.csv")
    settings: ClassVar = {
        "repeats": Setting(4, help="answers to a question, each with another order of the choices"),
        "seed": Setting(0, help="seed of the orders"),
    }
    ids = ("item_id", "Record ID", "id", "question_id")
    columns: ClassVar = {"domain": "High-level domain"}

    def order_choices(self, item: Row) -> tuple[list[str], str]:
        """Return the choices in the order of this repeat, and the letter of the right one."""
        choices = [str(item["Correct Answer"])]
        choices += [str(item[f"Incorrect Answer {k}"]) for k in (1, 2, 3)]
        repeat = int(item.get("repeat") or 0)
        order = list(range(4))
        random.Random(f"{self.options['seed']} {self.item_id(item)} {repeat}").shuffle(order)
        return [choices[k] for k in order], "ABCD"[order.index(0)]

    def prompt(self, item: Row) -> Messages:
        """Return the question with the choices of this repeat."""
        choices, _ = self.order_choices(item)
        listed = "\n".join(
            f"{letter}) {text}" for letter, text in zip("ABCD", choices, strict=True)
        )
        ask = 'Think step by step. The last line of your reply must be "Answer: X", with the letter of one choice.'
        return [{"role": "user", "content": f"{ask}\n\n{item['Question']}\n\n{listed}"}]

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """Return the score that is in the row, as in tables of item, model and epoch; None if there is none."""
        if row.get("score") is None:
            return None
        value = _PUBLISHED_SCORES.get(str(row["score"]).strip().upper())
        if value is None:
            raise MissingScore(f"the score is {str(row['score'])[:80]!r}, not 0 or 1")
        return ItemScore(self.item_id(row), {"correct": value})

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Return the score for the letter of the first "Answer: X", as OpenAI's simple-evals does.

        The prompt asks for it in the last line, after the reasoning; an output that states two answers keeps its first.
        """
        match = _GPQA_ANSWER.search(output)
        choice = match[1].upper() if match else None
        right_choice = str(item["target"]) if item.get("target") else self.order_choices(item)[1]
        return self.make_score(
            item, {"correct": float(choice == right_choice)}, _describe_choice(choice)
        )

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return the mean over questions of the mean over repeats, and by domain."""
        values_of_item: dict[str, list[float]] = {}
        for score in scores:
            values_of_item.setdefault(score.id, []).append(score.values["correct"])
        return {
            "accuracy": mean(mean(values) for values in values_of_item.values()),
            **mean_by_label(scores, "domain", "correct", "accuracy/"),
        }


# ----------------------------------------------------------------------------------------------------------- MMLU-Pro

_LETTERS = "ABCDEFGHIJ"
_ANSWER_IS = re.compile(r"answer is \(?([A-J])\)?")
# `match` instead of a search: a search for ".*" would begin anew at every character.
_LAST_ANSWER = re.compile(r".*[aA]nswer:\s*([A-J])", re.DOTALL)


def extract_mmlu_choice(output: str) -> str | None:
    """Return the letter of "answer is (X)", else of the last "answer: X", else the last single letter; None if none."""
    match = _ANSWER_IS.search(output) or _LAST_ANSWER.match(output)
    if match is not None:
        return match[1]
    letters = re.findall(r"\b([A-J])\b", output)
    return letters[-1] if letters else None


class MMLUPro(Benchmark):
    """12,032 questions in fourteen categories, with ten choices and five worked examples.

    If an output states no choice, the authors' script guesses at random (seed 12345); `fixed`, the default, counts it
    as wrong.
    """

    name = "mmlu-pro"
    title = "MMLU-Pro"
    capability = "knowledge"
    headline = "accuracy"
    licence = "Apache-2.0"
    data = DataFile.on_hub("mmlu_pro.jsonl", "TIGER-Lab/MMLU-Pro")
    settings: ClassVar = {
        "shots": Setting(5, help="worked examples of the category before the question"),
        "compat": Setting("fixed", ("fixed", "upstream"), "upstream guesses if no answer is found"),
    }
    outputs = ("model_outputs", "output", "response", "completion")
    columns: ClassVar = {"category": "category"}
    breakdowns = ("category",)

    def prompt(self, item: Row) -> Messages:
        """Return worked examples if the file has some, then the question."""
        examples = (item.get("shots") or ())[: self.options["shots"]]
        shots = [_format_mmlu_question(shot) + f"\n{shot['cot_content']}" for shot in examples]
        topic = item.get("category", "many things")
        ask = f'Questions about {topic}. Think step by step and end with "The answer is (X)".'
        return [
            {"role": "user", "content": "\n\n".join([ask, *shots, _format_mmlu_question(item)])}
        ]

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Return the score for the letter that `extract_mmlu_choice` finds."""
        answer = str(item["answer"])
        place = _LETTERS.find(answer) if len(answer) == 1 else -1
        index = item.get("answer_index")
        if place < 0 or (index is not None and str(index) != str(place)):
            raise InvalidInput(
                owner=f"row {self.item_id(item)}",
                parameter="answer",
                allowed="a letter from A to J, whose place counted from 0 is `answer_index`",
                got=f"{answer[:80]!r} with {index!r}",
            )
        choice = extract_mmlu_choice(output)
        if choice is None and self.options["compat"] == "upstream":
            # A seed for each item, unlike the authors' one for all: the guess does not depend on the order of items.
            rng = random.Random(f"12345 {self.item_id(item)}")
            choice = _LETTERS[rng.randrange(len(item["options"]))]
        return self.make_score(item, {"correct": float(choice == answer)}, _describe_choice(choice))


def _format_mmlu_question(item: Row) -> str:
    """Write a question with its options, as in the authors' prompts."""
    options = "\n".join(
        f"{letter}. {text}" for letter, text in zip(_LETTERS, item["options"], strict=False)
    )
    return f"Question: {item['question']}\nOptions:\n{options}\nAnswer: Let's think step by step."


# ---------------------------------------------------------------------------------------------------------- LongBench

_IN_BRACKETS = re.compile(r"The correct answer is \(([A-D])\)")
_BARE = re.compile(r"The correct answer is ([A-D])")


class LongBench(Benchmark):
    """503 questions over texts of 8k to 2M words, with four choices.

    A text of more than `words` words loses its middle; both ends stay. `compensated` counts no answer as a quarter. The
    authors leave empty replies out of the total; here they count as no answer, unless `compat` is "upstream".
    """

    name = "longbench-v2"
    title = "LongBench v2"
    capability = "long context"
    headline = "accuracy"
    licence = "MIT"
    data = DataFile.on_hub("longbench_v2.jsonl", "zai-org/LongBench-v2")
    settings: ClassVar = {
        "compensated": Setting(
            "no", ("no", "yes"), "an item without an answer counts as a quarter"
        ),
        "words": Setting(90_000, help="words of the text that are shown; the middle is cut"),
        "compat": Setting(
            "fixed", ("fixed", "upstream"), "upstream leaves empty replies out of the total"
        ),
    }
    columns: ClassVar = {name: name for name in ("difficulty", "length", "domain")}
    breakdowns = ("difficulty", "length")

    def prompt(self, item: Row) -> Messages:
        """Return the text, the question, the choices, and how to answer."""
        words = str(item["context"]).split(" ")
        most_words = self.options["words"]
        if len(words) > most_words:
            half = most_words // 2
            words = [*words[:half], *words[len(words) - (most_words - half) :]]
        choices = "\n".join(f"({letter}) {item[f'choice_{letter}']}" for letter in "ABCD")
        ask = 'Choose one. Answer in this form: "The correct answer is (your letter)".'
        content = f"{' '.join(words)}\n\nQuestion: {item['question']}\n{choices}\n\n{ask}"
        return [{"role": "user", "content": content}]

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Score whether the choice is right, and whether there is one."""
        if self.options["compat"] == "upstream" and not output.strip():
            raise MissingScore("an empty reply, left out upstream")
        if str(item["answer"]) not in tuple("ABCD"):
            raise InvalidInput("row", "answer", "A, B, C or D", repr(item["answer"])[:80])
        text = output.replace("*", "")
        match = _IN_BRACKETS.search(text) or _BARE.search(text)
        if match is not None:
            value = float(match[1] == str(item["answer"]))
        else:
            value = 0.25 if self.options["compensated"] == "yes" else 0.0
        values = {"correct": value, "answered": float(match is not None)}
        return self.make_score(item, values, _describe_choice(match[1] if match else None))

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return accuracy, by difficulty and by length, and how many were answered."""
        return {**super().metrics(scores), "answered": mean_value(scores, "answered")}
