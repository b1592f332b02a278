"""Count which letters sentences of good answers end with, and write those that never do.

    python benchmarks/sentence_ends.py          # writes src/rubrank/verifiers/shared/data/open_ends.tsv

A text that was cut somewhere ends with other letters than a sentence: "environm", "of the", 因为. Endings of up to five
letters ("_" is a space; Chinese: two) are listed that are common within sentences and ten times as rare at their ends;
an ending is left out if a shorter one says as much. Only the development half of ../shared/data is counted (see
broken_answers.py), so that the other half can tell how well this works.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

from broken_answers import read_half

from rubrank.verifiers.shared.language import detect_language

TABLE = Path(__file__).parents[1] / "src/rubrank/verifiers/shared/data/open_ends.tsv"
SENTENCE = re.compile(r"[^.!?\n:;|`$\\=]{25,}[.!?](?=\s|$)|[^。！？\n：；|`$\\=]{10,}[。！？]")
SIZES = {"en": (3, 4, 5), "fr": (3, 4), "zh": (1, 2)}  # letters of an ending
COMMON = {
    "en": 60,
    "fr": 25,
    "zh": 25,
}  # occurrences within sentences from which on the absence at ends means something
RARE = 0.1


def read_sentences(language: str) -> list[str]:
    """Sentences without their full stops, in small letters, "_" for spaces."""
    sentences: list[str] = []
    for answer in read_half("development"):
        text = answer.rollout.answer
        if detect_language(text)[0] == language:
            sentences += ("_".join(match[:-1].lower().split()) for match in SENTENCE.findall(text.replace("*", "")))
    return [sentence for sentence in sentences if sentence[-1:].isalpha()]


def count_endings(language: str) -> list[str]:
    """The endings that are common within sentences of a language and rare at their ends."""
    sentences = read_sentences(language)
    endings: set[str] = set()
    for size in SIZES[language]:
        at_end = Counter(sentence[-size:] for sentence in sentences)
        anywhere: Counter[str] = Counter()
        for sentence in sentences:
            for end in range(size, len(sentence) + 1):
                if sentence[end - 1].isalpha():
                    anywhere[sentence[end - size : end]] += 1
        expected = at_end.total() / anywhere.total()
        for ending, count in anywhere.items():
            is_said_shorter = any(ending[start:] in endings for start in range(1, size))
            is_rare = count >= COMMON[language] and at_end[ending] < RARE * expected * count
            if is_rare and not is_said_shorter:
                endings.add(ending)
    return sorted(endings)


def main() -> None:
    """Write the table: a language, the beginning of endings, and the letters that complete them."""
    lines = [
        "# Letters that no sentence ends with, though they are common within sentences: language, first, last letters.",
        "# Counted by benchmarks/sentence_ends.py; _ is a space.",
    ]
    for language in SIZES:
        groups: dict[str, list[str]] = defaultdict(list)
        for ending in count_endings(language):
            groups[ending[:-1] or "-"].append(ending[-1])
        lines += [f"{language}\t{first}\t{''.join(last)}" for first, last in sorted(groups.items())]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
