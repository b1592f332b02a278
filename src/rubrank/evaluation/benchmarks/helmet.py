"""HELMET: long-context tasks in seven categories; the score is the mean of the category means.

    recall     json_kv: gold string contained;  RULER: share of the gold strings contained
    rag        one of the gold answers contained        icl    exact match
    cite       gold contained, or recall of the top five    rerank   NDCG@10 of "3 > 1 > 2"
    longqa     a judge's fluency × correctness × 100/3, ROUGE-L F1, or the choice
    summ       a judge's fluency × F1 of key points and supported sentences, × 100

Every string metric is the larger of that of the whole output and that of the text after "Answer:".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from rubrank.errors import UnknownName
from rubrank.evaluation.benchmark import (
    Answer,
    Benchmark,
    DataFile,
    ItemScore,
    Messages,
    Metrics,
    Row,
    Setting,
    as_text,
    first_of,
    mean,
)
from rubrank.evaluation.benchmarks.helmet_metrics import (
    after_answer,
    ndcg,
    ranking,
    ruler_recall,
    string_metrics,
    top_recall,
)
from rubrank.evaluation.replies import json_object, prompt_of

CATEGORY_OF = {
    "json_kv": "recall",
    "ruler": "recall",
    "nq": "rag",
    "triviaqa": "rag",
    "hotpotqa": "rag",
    "popqa": "rag",
    "icl": "icl",
    "alce": "cite",
    "rerank": "rerank",
    "narrativeqa": "longqa",
    "infbench_qa": "longqa",
    "infbench_choice": "longqa",
    "infbench_sum": "summ",
    "multi_lexsum": "summ",
}
JUDGED = ("narrativeqa", "infbench_sum", "multi_lexsum")
_METRIC = {
    "rag": "substring_exact_match",
    "icl": "exact_match",
    "cite": "substring_exact_match",
    "recall": "substring_exact_match",
}


class Helmet(Benchmark):
    """Seven categories of long-context tasks."""

    name = "helmet"
    title = "HELMET"
    capability = "long context"
    headline = "score"
    per_cent = 1.0
    judge = "GPT-4o for LongQA and summaries"
    licence = "MIT"
    data = DataFile("helmet.jsonl", "git clone princeton-nlp/HELMET, scripts/download_data.sh, export as JSON lines")
    settings: ClassVar = {
        "longqa": Setting("judge", ("judge", "rouge"), "narrative questions by a judge, or by ROUGE-L F1")
    }

    def output(self, row: Row) -> str:
        """The output, which may be empty."""
        return as_text(row["output"]) if row.get("output") is not None else super().output(row)

    def item_id(self, row: Row) -> str:
        """Given, or data set and question."""
        if not any(row.get(key) is not None for key in ("id", "item_id", "question_id")):
            return f"{row.get('dataset', '')}/{row.get('question', row.get('output'))}"
        return super().item_id(row)

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Of narrative questions and summaries."""
        dataset = dataset_of(item)
        if dataset not in JUDGED or (self.options["longqa"] == "rouge" and dataset == "narrativeqa"):
            return []
        if CATEGORY_OF[dataset] == "longqa":
            target = " / ".join(_answers(item))
            return [prompt_of("helmet_qa", question=item["question"], target=target, response=output)]
        points = "\n".join(f"{k}. {point}" for k, point in enumerate(item["keypoints"], 1))
        return [prompt_of("helmet_summary", points=points, reference=item["summary"], response=output)]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """By the metric of its category."""
        dataset = dataset_of(item)
        category = CATEGORY_OF[dataset] if dataset in CATEGORY_OF else str(item["category"])
        labels = {"category": category, "dataset": dataset}
        if answers:
            return self._judged(item, category, answers[0], labels)
        values = self._values(item, output, category, dataset)
        return ItemScore(self.item_id(item), values, labels=labels)

    def _values(self, item: Row, output: str, category: str, dataset: str) -> dict[str, float]:
        if category == "rerank":
            return {"score": ndcg(ranking(after_answer(output) or output), item["qrel"], 10)}
        golds = _answers(item)
        if dataset == "ruler":
            return {"score": ruler_recall(output, golds)}
        if category == "cite" and item.get("qa_pairs_top"):
            return {"score": top_recall(output, item["qa_pairs_top"])}
        metrics = string_metrics(output, golds)
        name = "rougeL_f1" if category in ("longqa", "summ") else _METRIC[category]
        return {"score": metrics[name], **metrics, "ruler_recall": ruler_recall(output, golds)}

    def _judged(self, item: Row, category: str, answer: Answer, labels: dict[str, str]) -> ItemScore:
        found = json_object(answer.text)
        try:
            value = _qa(found or {}) if category == "longqa" else _summary(found or {}, len(item["keypoints"]))
        except (KeyError, TypeError, ValueError):
            missing = answer.reason or "the judge's reply holds no grades"
            return self.missing(item, missing, labels=labels)
        return ItemScore(self.item_id(item), {"score": value}, labels=labels)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """The mean of the categories' means, each a mean of its data sets, in percent."""
        seen: dict[str, dict[str, list[float]]] = {}
        for score in scores:
            sets = seen.setdefault(score.labels["category"], {})
            sets.setdefault(score.labels["dataset"], []).append(score.values["score"])
        categories = {name: 100.0 * mean(mean(v) for v in sets.values()) for name, sets in sorted(seen.items())}
        return {"score": mean(categories.values()), **categories}


def dataset_of(item: Row) -> str:
    """Its short name; the authors' files say kilt_nq or msmarco_rerank_psg_k1000. Without any: open questions."""
    given = str(item.get("dataset") or "nq")
    if given in CATEGORY_OF:
        return given
    for name in sorted(CATEGORY_OF, key=len, reverse=True):
        if re.search(rf"(?<![a-z]){name}(?![a-z])", given.lower()):
            return name
    if str(item.get("category")) in set(CATEGORY_OF.values()):
        return given
    raise UnknownName.of("benchmark helmet", "dataset", given, CATEGORY_OF)


def _answers(item: Row) -> list[str]:
    value: Any = first_of(item, ("answer", "answers", "outputs"))
    listed = value if isinstance(value, list) else [value]
    return [str(x) for one in listed for x in (one if isinstance(one, list) else [one])]


def _grade(value: Any, most: int) -> float:
    number = float(value)
    if not 0.0 <= number <= most or number != int(number):
        raise ValueError(f"{value} is not a grade from 0 to {most}")
    return number


def _qa(found: dict[str, Any]) -> float:
    return _grade(found["fluency"], 1) * _grade(found["correctness"], 3) / 3.0


def _summary(found: dict[str, Any], points: int) -> float:
    recall = _grade(found["supported_key_points"], points) / points
    sentences = int(found["sentence_count"])
    precision = _grade(found["supported_sentences"], sentences) / sentences
    f1 = 2.0 * recall * precision / (recall + precision) if recall + precision else 0.0
    return _grade(found["fluency"], 1) * f1
