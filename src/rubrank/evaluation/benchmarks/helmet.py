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
    first_value,
    mean,
    to_text,
)
from rubrank.evaluation.benchmarks.helmet_metrics import (
    find_answer,
    harmonic_mean,
    ndcg,
    parse_ranking,
    ruler_recall,
    string_metrics,
    top_recall,
)
from rubrank.evaluation.judge import fill_prompt, parse_json_object

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
        return to_text(row["output"]) if row.get("output") is not None else super().output(row)

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
            return [fill_prompt("helmet_qa", question=item["question"], target=target, response=output)]
        points = "\n".join(f"{k}. {point}" for k, point in enumerate(item["keypoints"], 1))
        return [fill_prompt("helmet_summary", points=points, reference=item["summary"], response=output)]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """By the metric of its category."""
        dataset = dataset_of(item)
        category = CATEGORY_OF[dataset] if dataset in CATEGORY_OF else str(item["category"])
        labels = {"category": category, "dataset": dataset}
        if answers:
            return self._score_reply(item, category, answers[0], labels)
        values = self._values(item, output, category, dataset)
        return ItemScore(self.item_id(item), values, labels=labels)

    def _values(self, item: Row, output: str, category: str, dataset: str) -> dict[str, float]:
        if category == "rerank":
            answer = find_answer(output)
            # An introduction may stand before the ranking: "Here is my ranking:\n\n12 > 5 > 3".
            ranked = answer if ">" in answer or ">" not in output else output
            return {"score": ndcg(parse_ranking(ranked), item["qrel"], 10)}
        golds = _answers(item)
        if dataset == "ruler":
            return {"score": ruler_recall(output, golds)}
        if category == "cite" and item.get("qa_pairs_top"):
            return {"score": top_recall(output, item["qa_pairs_top"])}
        metrics = string_metrics(output, golds)
        name = "rougeL_f1" if category in ("longqa", "summ") else _METRIC[category]
        return {"score": metrics[name], **metrics, "ruler_recall": ruler_recall(output, golds)}

    def _score_reply(self, item: Row, category: str, answer: Answer, labels: dict[str, str]) -> ItemScore:
        reply = parse_json_object(answer.text) or {}
        try:
            if category == "longqa":
                value = _qa_score(reply)
            else:
                value = _summary_score(reply, len(item["keypoints"]))
        except (KeyError, TypeError, ValueError):
            reason = answer.reason or "the judge's reply holds no grades"
            return self.missing_score(item, reason, labels=labels)
        return ItemScore(self.item_id(item), {"score": value}, labels=labels)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """The mean of the categories' means, each a mean of its data sets, in percent."""
        by_category: dict[str, dict[str, list[float]]] = {}
        for score in scores:
            by_dataset = by_category.setdefault(score.labels["category"], {})
            by_dataset.setdefault(score.labels["dataset"], []).append(score.values["score"])
        categories = {}
        for category, by_dataset in sorted(by_category.items()):
            categories[category] = 100.0 * mean(mean(values) for values in by_dataset.values())
        return {"score": mean(categories.values()), **categories}


def dataset_of(item: Row) -> str:
    """Its short name; the authors' files say kilt_nq or msmarco_rerank_psg_k1000. Without any: open questions."""
    dataset = str(item.get("dataset") or "nq")
    if dataset in CATEGORY_OF:
        return dataset
    for name in sorted(CATEGORY_OF, key=len, reverse=True):
        if re.search(rf"(?<![a-z]){name}(?![a-z])", dataset.lower()):
            return name
    if str(item.get("category")) in set(CATEGORY_OF.values()):
        return dataset
    raise UnknownName.of("benchmark helmet", "dataset", dataset, CATEGORY_OF)


def _answers(item: Row) -> list[str]:
    value: Any = first_value(item, ("answer", "answers", "outputs"))
    answers: list[str] = []
    for entry in value if isinstance(value, list) else [value]:
        answers += map(str, entry if isinstance(entry, list) else [entry])
    return answers


def _grade(value: Any, most: int) -> float:
    number = float(value)
    if not 0.0 <= number <= most or number != int(number):
        raise ValueError(f"{value} is not a grade from 0 to {most}")
    return number


def _qa_score(reply: dict[str, Any]) -> float:
    return _grade(reply["fluency"], 1) * _grade(reply["correctness"], 3) / 3.0


def _summary_score(reply: dict[str, Any], points: int) -> float:
    recall = _grade(reply["supported_key_points"], points) / points
    sentences = int(reply["sentence_count"])
    precision = _grade(reply["supported_sentences"], sentences) / sentences
    return _grade(reply["fluency"], 1) * harmonic_mean(precision, recall)
