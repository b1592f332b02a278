"""Learn how sentences end, and write the weights that tell a sentence without a full stop from one that was cut.

    python benchmarks/sentence_ends.py          # writes src/rubrank/verifiers/shared/data/sentence_ends.tsv

Sentences of good answers are taken without their full stops; cut ones are the same sentences up to a random word, or
to a random letter. A logistic regression with an L1 penalty keeps few features (scikit-learn: `rubrank[oracles]`). Only
the development half of ../shared/data is used (see broken_answers.py); a fifth of it sets the threshold: FALSE of the
whole sentences may be called cut. About one good answer in 200 ends with a whole sentence without a full stop, so that
this stops one good answer in 2,500.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
from broken_answers import read_half
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.sentence_ends import THRESHOLD, list_features

TABLE = Path(__file__).parents[1] / "src/rubrank/verifiers/shared/data/sentence_ends.tsv"
SENTENCE = re.compile(r"[^.!?\n:;|`$\\=]{25,}[.!?](?=\s|$)|[^。！？\n：；|`$\\=]{10,}[。！？]")
LANGUAGES = ("en", "fr", "zh")
FALSE = 0.08
MOST_SENTENCES = 60_000


def read_sentences(language: str, rng: random.Random) -> list[str]:
    """Sentences of good answers, without their full stops."""
    sentences: set[str] = set()
    for answer in read_half("development"):
        text = answer.rollout.answer
        if detect_language(text)[0] == language:
            sentences.update(match[:-1].strip() for match in SENTENCE.findall(text.replace("*", "")))
    ordered = sorted(sentence for sentence in sentences if sentence[-1:].isalpha())
    rng.shuffle(ordered)
    return ordered[:MOST_SENTENCES]


def cut_sentence(sentence: str, language: str, rng: random.Random) -> str:
    """The sentence up to a word, or (one time in four) up to a letter."""
    if language == "zh" or rng.random() < 0.25:
        ends = [at for at in range(6, len(sentence)) if sentence[at - 1].isalpha()]
    else:
        ends = [match.end() for match in re.finditer(r"[^\W\d_](?= )", sentence) if match.end() > 10]
    return sentence[: rng.choice(ends)] if ends else sentence[: len(sentence) // 2]


def learn_weights(language: str) -> list[tuple[str, float]]:
    """Features with their weights, and the threshold."""
    rng = random.Random(32)
    sentences = read_sentences(language, rng)
    texts: list[str] = []
    for sentence in sentences:
        texts += [sentence, cut_sentence(sentence, language, rng), cut_sentence(sentence, language, rng)]
    is_cut = np.tile([0, 1, 1], len(sentences))
    vectorizer = CountVectorizer(analyzer=lambda text: list_features(text, language), binary=True, min_df=3)
    counts = vectorizer.fit_transform(texts)
    held = 3 * (len(sentences) // 5)
    model = LogisticRegression(l1_ratio=1, solver="liblinear", C=0.5, class_weight="balanced")
    model.fit(counts[held:], is_cut[held:])
    scores = (counts[:held] @ model.coef_[0]).ravel()
    threshold = float(np.quantile(scores[is_cut[:held] == 0], 1 - FALSE))
    caught = float((scores[is_cut[:held] == 1] > threshold).mean())
    names = vectorizer.get_feature_names_out()
    rows = [(name, round(float(weight), 2)) for name, weight in zip(names, model.coef_[0], strict=True)]
    rows = [row for row in rows if abs(row[1]) >= 0.05]
    print(f"{language}: {len(sentences)} sentences, {len(rows)} weights, {caught:.0%} caught, {FALSE:.0%} false")
    return [(THRESHOLD, round(threshold, 2)), *sorted(rows)]


def main() -> None:
    """Write the table."""
    lines = [
        "# How sentences end: language, feature, weight; a larger sum speaks for a cut. Learned by",
        "# benchmarks/sentence_ends.py. _ is a space, -ing an ending, #words4 a property of the sentence.",
    ]
    for language in LANGUAGES:
        lines += [f"{language}\t{feature}\t{weight:g}" for feature, weight in learn_weights(language)]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
