"""HELMET: long-context tasks in seven categories; the score is the mean of the category means.

    recall     json_kv: gold string contained;  RULER: share of the gold strings contained
    rag        one of the gold answers contained        icl    exact match
    cite       gold contained, or recall of the top five    rerank   NDCG@10 of "3 > 1 > 2"
    longqa     a judge's fluency × correctness × 100/3, ROUGE-L F1, or the choice
    summ       a judge's fluency × F1 of key points and supported sentences, × 100

Every string metric is the larger of that of the whole output and that of the text after "Answer:".

    >>> compute_string_metrics("The Paris of course!", ["Paris"])["f1"]
    0.5
    >>> parse_ranking("ID: 12 > ID: 5 > ID: 3 > 12")
    {'12': 4, '5': 3, '3': 2}
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rubrank.errors import UnknownName
from rubrank.evaluation.benchmark import (
    Benchmark,
    DataFile,
    ItemScore,
    Messages,
    Metrics,
    MissingScore,
    Row,
    Setting,
    first_value,
    harmonic_mean,
    mean,
)
from rubrank.evaluation.judge import fill_prompt, parse_json_object
from rubrank.verifiers.similarity import longest_common

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
# Data sets whose outputs a judge grades.
JUDGED = ("narrativeqa", "infbench_sum", "multi_lexsum")
# Category → the string metric that is its score, where a program scores an item by its gold answers.
_METRIC_OF_CATEGORY = {
    "rag": "substring_exact_match",
    "icl": "exact_match",
    "cite": "substring_exact_match",
    "recall": "substring_exact_match",
    "longqa": "rougeL_f1",
    "summ": "rougeL_f1",
}

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_PREFIX = re.compile(r"answer:", re.IGNORECASE)
# Around an id in a ranking: "[12]", "**5**"
_DECORATION = "[](){}<>*_`\"'#.,;"
_TOKENS = re.compile(r"[a-z0-9]+")
# "Ranking:", "ID:", "doc ID"
_BEFORE_ID = re.compile(r"^.*(?::|\bID\b)")


class Helmet(Benchmark):
    """Seven categories of long-context tasks."""

    name = "helmet"
    title = "HELMET"
    capability = "long context"
    headline = "score"
    points_factor = 1.0
    judge = "GPT-4o for LongQA and summaries"
    licence = "MIT"
    data = DataFile(
        "helmet.jsonl",
        "git clone princeton-nlp/HELMET, scripts/download_data.sh, export as JSON lines",
    )
    settings: ClassVar = {
        "longqa": Setting(
            "judge",
            ("judge", "rouge"),
            "narrative questions by a judge, or by ROUGE-L F1",
        )
    }

    def item_id(self, row: Row) -> str:
        """Return the row's own id, or its data set and question."""
        if not any(row.get(key) is not None for key in ("id", "item_id", "question_id")):
            return f"{row.get('dataset', '')}/{row.get('question', row.get('output'))}"
        return super().item_id(row)

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Return one question about a narrative answer or a summary; none about other items."""
        dataset = find_dataset(item)
        is_rouge = dataset == "narrativeqa" and self.options["longqa"] == "rouge"
        if dataset not in JUDGED or is_rouge:
            return []
        if CATEGORY_OF[dataset] == "longqa":
            target = " / ".join(_read_answers(item))
            return [
                fill_prompt("helmet_qa", question=item["question"], target=target, response=output)
            ]
        points = "\n".join(f"{k}. {point}" for k, point in enumerate(item["keypoints"], 1))
        return [
            fill_prompt("helmet_summary", points=points, reference=item["summary"], response=output)
        ]

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Return the score by the metric of the item's category."""
        dataset = find_dataset(item)
        category = CATEGORY_OF[dataset] if dataset in CATEGORY_OF else str(item["category"])
        if replies:
            values = {"score": _score_reply(item, category, parse_json_object(replies[0]))}
        elif category == "rerank":
            answer = find_answer(output)
            # There may be an introduction before the ranking: "Here is my ranking:\n\n12 > 5 > 3".
            ranked = answer if ">" in answer or ">" not in output else output
            values = {"score": compute_ndcg(parse_ranking(ranked), item["qrel"], 10)}
        elif dataset == "ruler":
            values = {"score": compute_ruler_recall(output, _read_answers(item))}
        elif category == "cite" and item.get("qa_pairs_top"):
            values = {"score": compute_top_recall(output, item["qa_pairs_top"])}
        else:
            golds = _read_answers(item)
            metrics = compute_string_metrics(output, golds)
            values = {
                "score": metrics[_METRIC_OF_CATEGORY[category]],
                **metrics,
                "ruler_recall": compute_ruler_recall(output, golds),
            }
        labels = {"category": category, "dataset": dataset}
        return ItemScore(self.item_id(item), values, labels=labels)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return the mean of the categories' means, each a mean of its data sets, in percent."""
        by_category: dict[str, dict[str, list[float]]] = {}
        for score in scores:
            by_dataset = by_category.setdefault(score.labels["category"], {})
            by_dataset.setdefault(score.labels["dataset"], []).append(score.values["score"])
        categories = {}
        for category, by_dataset in sorted(by_category.items()):
            categories[category] = 100.0 * mean(mean(values) for values in by_dataset.values())
        return {"score": mean(categories.values()), **categories}


def _score_reply(item: Row, category: str, reply: Mapping[str, Any]) -> float:
    """Score an item by the grades in the judge's reply; missing if it has none."""
    try:
        fluency = _read_grade(reply["fluency"], 1)
        if category == "longqa":
            return fluency * _read_grade(reply["correctness"], 3) / 3.0
        key_points = len(item["keypoints"])
        sentences = int(reply["sentence_count"])
        found_points = _read_grade(reply["supported_key_points"], key_points)
        supported_sentences = _read_grade(reply["supported_sentences"], sentences)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise MissingScore("the judge's reply contains no grades") from None
    # An empty summary has no sentences; as upstream, its precision is 0.
    recall = found_points / max(key_points, 1)
    precision = supported_sentences / max(sentences, 1)
    return fluency * harmonic_mean(precision, recall)


def find_dataset(item: Row) -> str:
    """Return the short name of an item's data set: "nq" for the authors' kilt_nq, and for an item that names none."""
    dataset = str(item.get("dataset") or "nq")
    if dataset in CATEGORY_OF:
        return dataset
    for name in sorted(CATEGORY_OF, key=len, reverse=True):
        if re.search(rf"(?<![a-z]){name}(?![a-z])", dataset.lower()):
            return name
    if str(item.get("category")) in set(CATEGORY_OF.values()):
        return dataset
    raise UnknownName.of("benchmark helmet", "dataset", dataset, CATEGORY_OF)


def _read_answers(item: Row) -> list[str]:
    """Return the gold answers; an entry of the list may itself be a list of forms of one answer."""
    value: Any = first_value(item, ("answer", "answers", "outputs"))
    answers: list[str] = []
    for entry in value if isinstance(value, list) else [value]:
        forms = entry if isinstance(entry, list) else [entry]
        answers += map(str, forms)
    return answers


def _read_grade(value: Any, most: int) -> float:
    """Return a whole number from 0 to `most`. Raises ValueError for anything else."""
    number = float(value)
    if not 0.0 <= number <= most or number != int(number):
        raise ValueError(f"{value} is not a grade from 0 to {most}")
    return number


# ---------------------------------------------------------------------------------------- metrics of strings and ranks


def normalise(text: str) -> str:
    """Return the text in lower case, without punctuation and articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def find_answer(output: str) -> str:
    """Return the rest of the line after the first "Answer:"; without one, the first line."""
    prefix = _PREFIX.search(output)
    text = output[prefix.end() :] if prefix else output.strip()
    line = text.split("\n", 1)[0].strip()
    while line.lower().startswith("answer:"):
        line = line[len("answer:") :].strip()
    return line


def compute_string_metrics(output: str, golds: Sequence[str]) -> dict[str, float]:
    """Return each metric at its best: over the gold answers, and over the whole output and its answer line."""
    candidates = [_compare(text, gold) for text in (output, find_answer(output)) for gold in golds]
    return {name: max(metrics[name] for metrics in candidates) for name in candidates[0]}


def _compare(text: str, gold: str) -> dict[str, float]:
    """Return all string metrics of a text against one gold answer."""
    plain_text = normalise(text)
    plain_gold = normalise(gold)
    precision, recall = compute_rouge_l(text, gold)
    return {
        "exact_match": float(plain_text == plain_gold),
        "substring_exact_match": float(plain_gold in plain_text),
        "f1": _compute_f1(plain_text.split(), plain_gold.split()),
        "rougeL_f1": harmonic_mean(precision, recall),
        "rougeL_recall": recall,
    }


def _compute_f1(got: list[str], gold: list[str]) -> float:
    """Return the F1 of the words that both lists have."""
    # The authors give no partial credit if one side is exactly yes, no or noanswer.
    if got != gold and {" ".join(got), " ".join(gold)} & {"yes", "no", "noanswer"}:
        return 0.0
    common = sum((Counter(got) & Counter(gold)).values())
    if not common:
        return 0.0
    return harmonic_mean(common / len(got), common / len(gold))


def compute_rouge_l(text: str, gold: str) -> tuple[float, float]:
    """Return precision and recall of the longest common subsequence of words, after light stemming."""
    words = [find_stem(token) for token in _TOKENS.findall(text.lower())]
    gold_words = [find_stem(token) for token in _TOKENS.findall(gold.lower())]
    if not words or not gold_words:
        return 0.0, 0.0
    common = longest_common(words, gold_words)
    return common / len(words), common / len(gold_words)


def find_stem(word: str) -> str:
    """Remove the endings of plurals and verbs; words of up to three letters stay as they are."""
    if len(word) <= 3:
        return word
    for ending, replacement in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(ending):
            word = word[: -len(ending)] + replacement
            break
    for ending in ("ed", "ing"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and re.search("[aeiouy]", rest):
            is_doubled = len(rest) > 2 and rest[-1] == rest[-2] and rest[-1] not in "lsz"
            return rest[:-1] if is_doubled else rest  # "stopped" → "stop"
    return word


def compute_ruler_recall(output: str, golds: Sequence[str]) -> float:
    """Return the share of the gold strings that the output contains."""
    text = output.lower()
    return sum(gold.lower() in text for gold in golds) / len(golds) if golds else 0.0


def compute_top_recall(output: str, answers: Sequence[Sequence[str]], top: int = 5) -> float:
    """Return the share of the answers of which the output contains a form; `top` of them are enough."""
    text = normalise(output)
    if not answers:
        return 0.0
    count = sum(any(normalise(form) in text for form in forms) for forms in answers)
    return min(top, count) / min(top, len(answers))


def parse_ranking(output: str) -> dict[str, int]:
    """Return the ids of the last line with ">" with a number each, highest for the best; a repeated id counts once.

    An id may be decorated or introduced: "[ID: 12] > **5**", "Ranking: 12 > 5". A single id needs no ">".
    """
    lines = output.strip().split("\n")
    lines_with_signs = [line for line in lines if ">" in line]
    parts = (lines_with_signs or lines)[-1].split(">")
    ids = []
    for part in parts:
        words = [word.strip(_DECORATION) for word in _BEFORE_ID.sub("", part).split()]
        # "12 (most relevant)": the id is the first word with a digit, if there is one.
        id = next((word for word in words if re.search(r"\d", word)), " ".join(words))
        if id:
            ids.append(id)
    scores: dict[str, int] = {}
    for place, id in enumerate(ids):
        scores.setdefault(id, len(ids) - place)
    return scores


def compute_ndcg(scores: Mapping[str, int], relevance: Mapping[str, int], k: int) -> float:
    """Return the NDCG of the first k ids, with relevance as the gain."""
    ranked = sorted(scores, key=lambda id: -scores[id])[:k]
    total = math.fsum(
        relevance.get(id, 0) / math.log2(place + 2) for place, id in enumerate(ranked)
    )
    best_gains = sorted(relevance.values(), reverse=True)[:k]
    best = math.fsum(gain / math.log2(place + 2) for place, gain in enumerate(best_gains))
    return total / best if best else 0.0
