"""String metrics of HELMET: exact match, contained, token F1, ROUGE-L; and rankings.

>>> string_metrics("The Paris of course!", ["Paris"])["f1"]
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

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_PREFIX = re.compile(r"answer:", re.IGNORECASE)
_DECORATION = "[](){}<>*_`\"'#.,;"
_TOKENS = re.compile(r"[a-z0-9]+")


def normalise(text: str) -> str:
    """Lower case, without punctuation and articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def find_answer(output: str) -> str:
    """The rest of the line after the first "Answer:"; without one, the first line."""
    prefix = _PREFIX.search(output)
    text = output[prefix.end() :] if prefix else output.strip()
    line = text.split("\n", 1)[0].strip()
    while line.lower().startswith("answer:"):
        line = line[len("answer:") :].strip()
    return line


def string_metrics(output: str, golds: Sequence[str]) -> dict[str, float]:
    """Each metric at its best: over the gold answers, and over the whole output and its answer line."""
    candidates = [_compare(text, gold) for text in (output, find_answer(output)) for gold in golds]
    return {name: max(metrics[name] for metrics in candidates) for name in candidates[0]}


def _compare(text: str, gold: str) -> dict[str, float]:
    plain_text = normalise(text)
    plain_gold = normalise(gold)
    precision, recall = rouge_l(text, gold)
    return {
        "exact_match": float(plain_text == plain_gold),
        "substring_exact_match": float(plain_gold in plain_text),
        "f1": _f1(plain_text.split(), plain_gold.split()),
        "rougeL_f1": harmonic_mean(precision, recall),
        "rougeL_recall": recall,
    }


def harmonic_mean(precision: float, recall: float) -> float:
    """F1; 0 if both are 0."""
    if precision + recall == 0.0:
        return 0.0
    return 2 * precision * recall / (precision + recall)


def _f1(got: list[str], gold: list[str]) -> float:
    # The authors give no partial credit if one side is exactly yes, no or noanswer.
    if got != gold and {" ".join(got), " ".join(gold)} & {"yes", "no", "noanswer"}:
        return 0.0
    common = sum((Counter(got) & Counter(gold)).values())
    if not common:
        return 0.0
    return harmonic_mean(common / len(got), common / len(gold))


def rouge_l(text: str, gold: str) -> tuple[float, float]:
    """Precision and recall of the longest common subsequence of words, after light stemming."""
    words = [stem(token) for token in _TOKENS.findall(text.lower())]
    gold_words = [stem(token) for token in _TOKENS.findall(gold.lower())]
    if not words or not gold_words:
        return 0.0, 0.0
    lengths = [0] * (len(gold_words) + 1)  # of the common subsequence with the first j gold words
    for word in words:
        previous = lengths
        lengths = previous[:]
        for j, gold_word in enumerate(gold_words, 1):
            if word == gold_word:
                lengths[j] = previous[j - 1] + 1
            else:
                lengths[j] = max(previous[j], lengths[j - 1])
    return lengths[-1] / len(words), lengths[-1] / len(gold_words)


def stem(word: str) -> str:
    """A word without the endings of plurals and verbs; words of up to three letters stay as they are."""
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


def ruler_recall(output: str, golds: Sequence[str]) -> float:
    """Share of the gold strings that the output contains."""
    text = output.lower()
    return sum(gold.lower() in text for gold in golds) / len(golds) if golds else 0.0


def top_recall(output: str, answers: Sequence[Sequence[str]], top: int = 5) -> float:
    """Share of the answers that are contained in one of their forms; `top` of them are enough."""
    text = normalise(output)
    if not answers:
        return 0.0
    count = sum(any(normalise(form) in text for form in forms) for forms in answers)
    return min(top, count) / min(top, len(answers))


def parse_ranking(output: str) -> dict[str, int]:
    """Ids of the last line with ">", the best id with the highest number; a repeated id counts once.

    An id may be decorated or introduced: "[ID: 12] > **5**", "Ranking: 12 > 5". A single id, a numbered
    list and ids between commas need no ">".
    """
    lines = output.strip().split("\n")
    with_signs = [line for line in lines if ">" in line]
    # Without ">", a numbered list or ids between commas are a ranking too.
    entries = [match[1] for line in lines if (match := re.fullmatch(r"\s*(?:\d{1,3}[.)]|[-*•])\s+(.*\d.*)", line))]
    if with_signs:
        parts = with_signs[-1].split(">")
    elif len(entries) > 1:
        parts = entries
    elif re.fullmatch(r"(?:[^,:]*:)?(?:[^,]{0,12}\d[^,]{0,4},)+[^,]{0,12}\d[^,]{0,4}", lines[-1]):
        parts = lines[-1].split(",")
    else:
        parts = lines[-1:]
    ids = []
    for part in parts:
        part = re.sub(r"^.*(?::|\bID\b)", "", part)  # "Ranking:", "ID:", "doc ID"
        words = [word.strip(_DECORATION) for word in part.split()]
        # "12 (most relevant)": the id is the first word with a digit, if there is one.
        id = next((word for word in words if re.search(r"\d", word)), " ".join(words))
        if id:
            ids.append(id)
    scores: dict[str, int] = {}
    for place, id in enumerate(ids):
        scores.setdefault(id, len(ids) - place)
    return scores


def ndcg(scores: Mapping[str, int], relevance: Mapping[str, int], k: int) -> float:
    """NDCG of the first k, with gains as given."""
    ranked = sorted(scores, key=lambda id: -scores[id])[:k]
    gain = math.fsum(relevance.get(id, 0) / math.log2(at + 2) for at, id in enumerate(ranked))
    best = math.fsum(g / math.log2(at + 2) for at, g in enumerate(sorted(relevance.values(), reverse=True)[:k]))
    return gain / best if best else 0.0
