"""Learn how sentences and lines end, and write the weights that tell a whole one without a full stop from a cut one.

    python benchmarks/sentence_ends.py          # writes sentence_ends.tsv and known_words.tsv to verifiers/shared/data

Passages of good answers are taken without their full stops; cut ones are the same passages up to a random word or
letter. A logistic regression with an L1 penalty keeps few features (scikit-learn: `rubrank[oracles]`). Only the
development half of ../shared/data is used (see broken_answers.py), with its prompts and the Chinese answers and
prompts of SysBench; a fifth of it sets the thresholds. `FALSE` is the share of whole passages that may be called cut.
One good answer in 300 ends with a whole sentence without a full stop, and one in 25 with a line that has none, so that
these shares stop about one good answer in 1,000 at most.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from broken_answers import find_half, read_half
from gates import read_rows
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from rubrank.texts.prose import is_heading, is_item, is_rule, remove_code, split_code
from rubrank.verifiers.gates import truncation
from rubrank.verifiers.gates.truncation import ENTRY_MARK, Kind, list_features
from rubrank.verifiers.shared import word_tables
from rubrank.verifiers.shared.language import detect_language

DATA = Path(__file__).parents[1] / "src/rubrank/verifiers/shared/data"
SENTENCE = re.compile(r"[^.!?\n]{12,}?[.!?](?=\s|$)|[^。！？\n]{4,}[。！？]")
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
LANGUAGES = ("en", "fr", "zh")
SPACED = ("en", "fr")  # languages with a vocabulary
FALSE: dict[Kind, float] = {"sentence": 0.12, "line": 0.04}
FEWEST_ANSWERS = 2  # answers in which a known word occurs; short ones are easily abbreviations or typing errors
FEWEST_OF_SHORT = 12
MOST_PASSAGES = 60_000
SMALLEST_WEIGHT = 0.1


def read_texts(language: str) -> Iterator[tuple[str, str]]:
    """Prompts of the development half, each with a text to learn from."""
    for answer in read_half("development"):
        yield answer.rollout.question, answer.rollout.answer
        if language == "zh":
            yield answer.rollout.question, answer.rollout.question
    if language in SPACED:
        for group in read_rows(f"m_ifeval/{language}_groups.jsonl.gz"):
            if find_half(group["prompt"]) == "development":
                for response in group["responses"]:
                    yield group["prompt"], response["response"]
    else:
        for model in ("gpt4o", "qwen2_7b"):
            for row in read_rows(f"eval/sysbench/{model}.jsonl.gz"):
                yield row["prompt"], row["answer"]
                yield row["prompt"], row["system_prompt"] or ""


def write_vocabulary() -> None:
    """Write the words in small letters that occur in several answers."""
    answers_with: dict[str, Counter[str]] = {language: Counter() for language in SPACED}
    for answer in read_half("development"):
        language = detect_language(answer.rollout.answer)[0]
        if language in SPACED:
            words = set(WORD.findall(remove_code(answer.rollout.answer)))
            answers_with[language].update(word for word in words if word[0].islower())
    lines = ["# Words that occur in good answers: language, words. Written by benchmarks/sentence_ends.py."]
    for language, counts in answers_with.items():
        known = []
        for word, count in counts.items():
            if count >= (FEWEST_ANSWERS if len(word) > 3 else FEWEST_OF_SHORT):
                known.append(word)
        lines.append(f"{language}\t{' '.join(sorted(known))}")
    (DATA / "known_words.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def split_passages(text: str) -> Iterator[tuple[str, Kind]]:
    """Sentences without their full stops, and lines that have none."""
    for raw_line in split_code(text)[0]:
        line = raw_line.replace("*", "").strip()
        if not line or is_heading(line) or is_rule(line) or line.startswith("|"):
            continue
        body = ENTRY_MARK.sub("", line)
        has_stop = body.endswith((".", "!", "?", "。", "！", "？", "…", ";", "；"))
        if not has_stop:
            if body[-1:].isalpha() and len(body) >= 4:
                yield body, "line"
            continue
        if is_item(line) and not re.search(r"[.!?]\s|[。！？].", body):
            sentences = [body.rstrip(".!?。！？;；…")]
        else:
            sentences = [sentence[:-1].strip() for sentence in SENTENCE.findall(body)]
        for sentence in sentences:
            if sentence[-1:].isalpha() and not re.search(r"[|`$\\=]", sentence):
                yield sentence, "sentence"


def cut_passage(passage: str, language: str, rng: random.Random) -> str | None:
    """The passage up to a word, or (one time in two, and always in Chinese) up to a letter."""
    if language == "zh":
        ends = [at for at in range(2, len(passage)) if passage[at - 1].isalpha()]
    elif rng.random() < 0.5:
        ends = [at for at in range(6, len(passage)) if passage[at - 1].isalpha()]
    else:
        ends = [match.end() for match in re.finditer(r"[^\W\d_](?= )", passage) if match.end() >= 6]
    return passage[: rng.choice(ends)] if ends else None


def learn_weights(language: str) -> list[tuple[str, float]]:
    """Features with their weights, and the thresholds."""
    rng = random.Random(32)
    fold_of: dict[tuple[str, Kind], int] = {}  # one of five, by the prompt
    for prompt, text in read_texts(language):
        if detect_language(text)[0] == language:
            fold = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).digest()[1] % 5
            for passage in split_passages(text):
                fold_of.setdefault(passage, fold)
    passages = sorted(fold_of)
    rng.shuffle(passages)
    examples: list[tuple[str, Kind]] = []
    cut: list[bool] = []
    folds: list[int] = []
    for text, kind in passages[:MOST_PASSAGES]:
        shortened = [cut_passage(text, language, rng) for _ in range(4 if language == "zh" else 2)]
        texts = [text, *filter(None, shortened)]
        examples += [(example, kind) for example in texts]
        cut += [example != text for example in texts]
        folds += [fold_of[text, kind]] * len(texts)
    is_cut = np.array(cut)
    is_held = np.array(folds) == 0
    kinds = np.array([kind for _, kind in examples])
    vectorizer = CountVectorizer(analyzer=lambda example: list_features(example[0], language, example[1]), binary=True)
    vectorizer.set_params(min_df=3)
    counts = vectorizer.fit_transform(examples)
    model = LogisticRegression(l1_ratio=1, solver="liblinear", C=0.4, class_weight="balanced")
    model.fit(counts[~is_held], is_cut[~is_held])
    weights = np.where(np.abs(model.coef_[0]) >= SMALLEST_WEIGHT, model.coef_[0].round(2), 0.0)
    scores = counts @ weights
    rows: list[tuple[str, float]] = []
    for kind, share in FALSE.items():
        of_kind = is_held & (kinds == kind)
        threshold = float(np.quantile(scores[of_kind & ~is_cut], 1 - share))
        caught = float((scores[of_kind & is_cut] > threshold).mean())
        print(f"{language}, {kind}: {caught:.0%} caught, {share:.0%} false")
        rows.append((f"threshold_{kind}", round(threshold, 2)))
    names = vectorizer.get_feature_names_out()
    rows += sorted((name, float(weight)) for name, weight in zip(names, weights, strict=True) if weight)
    print(f"{language}: {len(passages)} passages, {len(rows)} weights")
    return rows


def main() -> None:
    """Write the tables."""
    write_vocabulary()
    word_tables.read_words.cache_clear()
    word_tables.read_table.cache_clear()
    truncation.read_vocabulary.cache_clear()
    lines = [
        "# How sentences and lines end: language, feature, weight; a larger sum speaks for a cut. Learned by",
        "# benchmarks/sentence_ends.py. _ is a space, -ing an ending, #words4 a property of the passage.",
    ]
    for language in LANGUAGES:
        lines += [f"{language}\t{feature}\t{weight:g}" for feature, weight in learn_weights(language)]
    (DATA / "sentence_ends.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
