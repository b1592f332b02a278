"""Detectors of languages on short texts: how often each is right, and how often it is sure and wrong.

    python benchmarks/languages.py

The texts are those of short_texts.yaml (35 languages, as people write prompts), English prompts of IFEval and of
AlpacaEval, and French ones of M-IFEval. A detector that is not installed is left out: whatlang-pyo3, langdetect.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from rubrank.verifiers.shared.language import detect_language

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "shared" / "data"
Detector = Callable[[str], tuple[str, float]]
_SAME = {"nb": "no", "nn": "no", "ms": "id", "bs": "hr", "sr": "hr", "zh-cn": "zh", "zh-tw": "zh", "cmn": "zh"}


def texts() -> dict[str, list[tuple[str, str]]]:
    """Sets of (language, text)."""
    short = yaml.safe_load((HERE / "short_texts.yaml").read_text("utf-8"))
    sets = {"35 languages": [(code, text) for code, some in short.items() for text in some]}
    if DATA.exists():
        good = {row["prompt"] for row in _rows("good_answers/answers") if row["src"] == "alpaca"}
        sets["AlpacaEval"] = [("en", prompt) for prompt in sorted(good)]
        sets["IFEval"] = [("en", row["prompt"]) for row in _rows("ifeval/prompts")]
        sets["M-IFEval, French"] = [("fr", row["prompt"]) for row in _rows("m_ifeval/fr_groups")]
    return sets


def _rows(name: str) -> list[dict[str, str]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def detectors() -> dict[str, Detector]:
    """Those that are installed."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    installed: dict[str, Detector] = {"rubrank": detect_language, "py3langid": identifier.classify}
    try:
        import whatlang  # type: ignore[import-not-found, unused-ignore]

        def by_whatlang(text: str) -> tuple[str, float]:
            try:
                guess: Any = whatlang.detect(text)
            except ValueError:
                return "", 0.0
            sure = float(guess.confidence)
            guess.to_iso()
            return str(guess.lang), sure

        installed["whatlang"] = by_whatlang
    except ImportError:
        pass
    try:
        from langdetect import DetectorFactory, detect_langs
        from langdetect.lang_detect_exception import LangDetectException

        DetectorFactory.seed = 0

        def by_langdetect(text: str) -> tuple[str, float]:
            try:
                best = detect_langs(text)[0]
            except LangDetectException:
                return "", 0.0
            return best.lang, best.prob

        installed["langdetect"] = by_langdetect
    except ImportError:
        pass
    return installed


def main() -> None:
    """Print a table."""
    print("| texts | detector | right | sure (≥ 0.7) | sure and wrong |\n|---|---|---|---|---|")
    every = detectors()
    for name, labelled_texts in texts().items():
        for detector, detect in every.items():
            guesses = [(code, *detect(text[:1000])) for code, text in labelled_texts]
            are_right = [_SAME.get(language, language) == code for code, language, _ in guesses]
            sure = [
                is_right for is_right, (_, _, certainty) in zip(are_right, guesses, strict=True) if certainty >= 0.7
            ]
            share = sum(are_right) / len(guesses)
            print(f"| {name} ({len(guesses)}) | {detector} | {share:.1%} | {len(sure)} | {sure.count(False)} |")


if __name__ == "__main__":
    main()
