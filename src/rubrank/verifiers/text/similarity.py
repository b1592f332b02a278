"""How close an answer is to a reference: tokens in common, ROUGE, chrF, embeddings.

    >>> tokenize("The Cat's tail, 西湖")
    ['the', 'cat', 's', 'tail', '西', '湖']

Tokens are words without case and punctuation; Chinese, Japanese and Thai characters count one by one, so that identical
texts score 1 in every script. Long texts are cut at `LONGEST` tokens: the cost of ROUGE-L is their product.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.answers import read_answer
from rubrank.verifiers.truth.truths import find_truths
from rubrank.verifiers.verifier import BINARY, UNIT, Answer, missing, verifier

LONGEST = 2_000
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u0e00-\u0e7f\U00020000-\U0003134f"
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
References = str | tuple[str, ...]


def tokenize(text: str) -> list[str]:
    """Words and single characters of unspaced scripts."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


def _references(given: References | None, rollout: Rollout) -> tuple[str, ...]:
    if given is not None:
        return (given,) if isinstance(given, str) else given
    found = rollout.metadata.get("reference", rollout.metadata.get("references"))
    if isinstance(found, str):
        return (found,)
    if isinstance(found, (list, tuple)):
        return tuple(map(str, found))
    return tuple(find_truths(None, rollout.metadata).values)


def f_score(overlap: int, got: int, wanted: int) -> float:
    """The harmonic mean of precision and recall."""
    return 2.0 * overlap / (got + wanted) if got + wanted else 1.0


def overlap_of(a: Sequence[Any], b: Sequence[Any]) -> int:
    """How much two bags have in common."""
    return sum((Counter(a) & Counter(b)).values())


@verifier("TokenF1", family="similarity", domain=UNIT, version=1)
def token_f1(rollout: Rollout, *, references: References | None = None, whole: bool = False) -> Answer:
    """F1 of the tokens that the answer shares with a reference; the best of several references.

    The answer's result is read first ("The answer is …", \\boxed …); `whole` takes the entire answer. Passes (1):
    "Paris" for "paris."; 西湖 for 西湖. Part: "in Paris, France" for "Paris". Fails (0): no token in common.
    Missing: no reference in `references` or the data. Not covered: synonyms.
    """
    known = _references(references, rollout)
    if not known:
        return missing("no reference: give `references`, or one in the data")
    given = rollout.answer if whole else (read_answer(rollout.answer).text or rollout.answer)
    mine = tokenize(given)
    scores = [f_score(overlap_of(mine, tokenize(one)), len(mine), len(tokenize(one))) if mine else 0.0 for one in known]
    return max(scores), f"F1 {max(scores):.2f} with the nearest of {len(known)} reference(s)"


@verifier("ContainsAny", family="similarity", domain=BINARY, version=1)
def contains_any(
    rollout: Rollout, *, references: References | None = None, need: Literal["any", "all"] = "any"
) -> Answer:
    """The answer contains one of the references (or all of them), as whole tokens and in order.

    Passes: "I think it was Paris." for ["Paris", "Lutetia"]; 西湖 in 杭州西湖. Fails: "Parisian" for "Paris"; one of
    two with `need="all"`. Missing: no reference. Not covered: a reference that is denied ("not Paris") passes: use
    GroundTruthMatch where that matters.
    """
    known = [one for one in _references(references, rollout) if tokenize(one)]
    if not known:
        return missing("no reference: give `references`, or one in the data")
    text = "\x00".join(["", *tokenize(rollout.answer), ""])
    found = [one for one in known if "\x00".join(["", *tokenize(one), ""]) in text]
    passed = len(found) == len(known) if need == "all" else bool(found)
    return passed, f"{len(found)} of {len(known)} found" + (f": {found[0][:60]!r}" if found else "")


def longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence, by bits: one row at a time whatever the alphabet."""
    places: dict[str, int] = {}
    for i, x in enumerate(a):
        places[x] = places.get(x, 0) | (1 << i)
    row, full = (1 << len(a)) - 1, (1 << len(a)) - 1
    for y in b:
        hit = row & places.get(y, 0)
        row = ((row + hit) | (row - hit)) & full
    return len(a) - row.bit_count()


def _grams(items: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(items[i : i + n]) for i in range(len(items) - n + 1)]


@verifier("Rouge", family="similarity", domain=UNIT, version=1)
def rouge(
    rollout: Rollout,
    *,
    references: References | None = None,
    kind: Literal["1", "2", "L"] = "L",
    measure: Literal["f1", "recall", "precision"] = "f1",
) -> Answer:
    """ROUGE-1, -2 or -L against a reference, the best of several; no stemming, characters in unspaced scripts.

    Passes (1): the reference itself, in any script. Part: half of its words in order. Fails (0): nothing in common.
    Missing: no reference. Not covered: texts beyond 2,000 tokens are cut there.
    """
    known = _references(references, rollout)
    if not known:
        return missing("no reference: give `references`, or one in the data")
    mine = tokenize(rollout.answer)[:LONGEST]
    best = max(_rouge(mine, tokenize(one)[:LONGEST], kind, measure) for one in known)
    return best, f"ROUGE-{kind} {measure} {best:.2f}"


def _rouge(mine: list[str], other: list[str], kind: str, measure: str) -> float:
    if kind == "L":
        common, got, wanted = longest_common(mine, other), len(mine), len(other)
    else:
        a, b = _grams(mine, int(kind)), _grams(other, int(kind))
        common, got, wanted = overlap_of(a, b), len(a), len(b)
    if measure == "f1":
        return f_score(common, got, wanted) if mine else 0.0
    whole = wanted if measure == "recall" else got
    return common / whole if whole else 0.0


@verifier("ChrF", family="similarity", domain=UNIT, version=1)
def chrf(
    rollout: Rollout, *, references: References | None = None, beta: Annotated[float, Field(gt=0, le=10)] = 2.0
) -> Answer:
    """chrF: F-score of character n-grams (1 to 6, without spaces) against a reference, the best of several.

    Passes (1): the reference itself, spaces and line breaks aside. Part: another ending of the same words. Fails (0):
    nothing in common. `beta` weighs recall. Missing: no reference. Not covered: word order beyond six characters.
    """
    known = _references(references, rollout)
    if not known:
        return missing("no reference: give `references`, or one in the data")
    mine = _characters(rollout.answer)
    best = max(_chrf(mine, _characters(one), beta) for one in known)
    return best, f"chrF {best:.2f}"


def _characters(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split())[: 5 * LONGEST]


def _chrf(mine: str, other: str, beta: float) -> float:
    precisions, recalls = [], []
    for n in range(1, 7):
        a, b = (
            Counter(mine[i : i + n] for i in range(len(mine) - n + 1)),
            Counter(other[i : i + n] for i in range(len(other) - n + 1)),
        )
        if not a.total() or not b.total():
            continue
        common = (a & b).total()
        precisions.append(common / a.total())
        recalls.append(common / b.total())
    if not precisions:
        return float(mine == other)
    p, r = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return (1 + beta**2) * p * r / (beta**2 * p + r) if p + r else 0.0


@lru_cache(maxsize=2)
def _model(path: str) -> Any:
    from model2vec import StaticModel

    return StaticModel.from_pretrained(path)


@verifier(
    "EmbeddingSimilarity", family="similarity", domain=UNIT, version=1, needs=lambda _: ("model2vec", "embeddings")
)
def embedding_similarity(rollout: Rollout, *, model: str, references: References | None = None) -> Answer:
    """Cosine of static embeddings (model2vec; `model` is a folder or a name on the hub) with the nearest reference.

    Passes (1): the reference itself. Part: a text on the same subject. Fails (0): an empty answer, or unlike anything.
    Negative cosines count as 0. Missing: no reference; model2vec not installed; a model that cannot be loaded.
    Not covered: a denial is close to what it denies.
    """
    known = _references(references, rollout)
    if not known:
        return missing("no reference: give `references`, or one in the data")
    if not rollout.answer.strip():
        return 0.0, "an empty answer"
    if rollout.answer in known:
        return 1.0, "the reference itself"
    try:
        found = _model(model).encode([rollout.answer, *known])
    except ImportError:
        return missing("model2vec is not installed: pip install 'rubrank[embeddings]'")
    except Exception as error:  # whatever a model file that is not there, or is none, raises
        return missing(f"the model {model!r} cannot be loaded: {type(error).__name__}")
    norms = (found**2).sum(1) ** 0.5
    cosines = found[1:] @ found[0] / (norms[1:] * norms[0] + 1e-12)
    best = float(min(1.0, max(0.0, cosines.max())))
    return best, f"cosine {best:.2f}"
