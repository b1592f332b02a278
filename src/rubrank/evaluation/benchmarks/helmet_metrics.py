"""String metrics of HELMET: exact match, contained, token F1, ROUGE-L; and rankings.

>>> string_metrics("The Paris of course!", ["Paris"])["f1"]
0.5
>>> ranking("ID: 12 > ID: 5 > ID: 3 > 12")
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
_TOKENS = re.compile(r"[a-z0-9]+")


def plain(text: str) -> str:
    """Lower case, without punctuation and articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def after_answer(output: str) -> str | None:
    """The rest of the line after the first "Answer:", or the first line; None of nothing."""
    at = _PREFIX.search(output)
    line = output[at.end() :].split("\n", 1)[0] if at else output.strip().split("\n", 1)[0]
    line = line.strip()
    while line.lower().startswith("answer:"):
        line = line[len("answer:") :].strip()
    return line


def string_metrics(output: str, golds: Sequence[str]) -> dict[str, float]:
    """Each metric, the best over the gold answers, of the output or of what it gives as its answer."""
    whole = _best(output, golds)
    parsed = after_answer(output)
    if parsed is None:
        return whole
    part = _best(parsed, golds)
    return {name: max(value, part[name]) for name, value in whole.items()}


def _best(text: str, golds: Sequence[str]) -> dict[str, float]:
    found = [_one(text, gold) for gold in golds]
    return {name: max(values[name] for values in found) for name in found[0]}


def _one(text: str, gold: str) -> dict[str, float]:
    a, b = plain(text), plain(gold)
    precision, recall = rouge_l(text, gold)
    return {
        "exact_match": float(a == b),
        "substring_exact_match": float(b in a),
        "f1": _f1(a.split(), b.split()),
        "rougeL_f1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        "rougeL_recall": recall,
    }


def _f1(got: list[str], gold: list[str]) -> float:
    special = {"yes", "no", "noanswer"}
    if (set(got) & special or set(gold) & special) and got != gold and (len(got) == 1 or len(gold) == 1):
        joined, wanted = " ".join(got), " ".join(gold)
        if joined in special or wanted in special:
            return 0.0
    same = sum((Counter(got) & Counter(gold)).values())
    if not same:
        return 0.0
    precision, recall = same / len(got), same / len(gold)
    return 2 * precision * recall / (precision + recall)


def rouge_l(text: str, gold: str) -> tuple[float, float]:
    """Precision and recall of the longest common subsequence of words, which are stemmed lightly."""
    a, b = [stem(t) for t in _TOKENS.findall(text.lower())], [stem(t) for t in _TOKENS.findall(gold.lower())]
    if not a or not b:
        return 0.0, 0.0
    row = [0] * (len(b) + 1)
    for x in a:
        before, last = row, row[:]
        for j, y in enumerate(b, 1):
            last[j] = before[j - 1] + 1 if x == y else max(before[j], last[j - 1])
        row = last
    return row[-1] / len(a), row[-1] / len(b)


def stem(word: str) -> str:
    """A word without the endings of plurals and verbs; words of up to three letters stay as they are."""
    if len(word) <= 3:
        return word
    for end, by in (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")):
        if word.endswith(end):
            word = word[: -len(end)] + by
            break
    for end in ("ed", "ing"):
        rest = word[: -len(end)]
        if word.endswith(end) and re.search("[aeiouy]", rest):
            return rest[:-1] if len(rest) > 2 and rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
    return word


def ruler_recall(output: str, golds: Sequence[str]) -> float:
    """Share of the gold strings that the output contains."""
    text = output.lower()
    return sum(gold.lower() in text for gold in golds) / len(golds) if golds else 0.0


def top_recall(output: str, answers: Sequence[Sequence[str]], top: int = 5) -> float:
    """Share of the answers that are contained in one of their forms; `top` of them are enough."""
    text = plain(output)
    found = sum(any(plain(form) in text for form in forms) for forms in answers)
    return min(top, found) / min(top, len(answers)) if answers else 0.0


def ranking(output: str) -> dict[str, int]:
    """Ids of the last line that ranks, the best with the highest number; a later mention of an id is passed over."""
    lines = [line for line in output.strip().split("\n") if ">" in line] or output.strip().split("\n")
    parts = [re.sub(r"^.*\bID\s*:?\s*", "", part).strip() for part in lines[-1].split(">")]
    ids = [part for part in parts if part]
    scores: dict[str, int] = {}
    for at, id in enumerate(ids):
        scores.setdefault(id, len(ids) - at)
    return scores


def ndcg(scores: Mapping[str, int], relevance: Mapping[str, int], k: int) -> float:
    """NDCG of the first k, with gains as given."""
    ranked = sorted(scores, key=lambda id: -scores[id])[:k]
    gain = math.fsum(relevance.get(id, 0) / math.log2(at + 2) for at, id in enumerate(ranked))
    best = math.fsum(g / math.log2(at + 2) for at, g in enumerate(sorted(relevance.values(), reverse=True)[:k]))
    return gain / best if best else 0.0
