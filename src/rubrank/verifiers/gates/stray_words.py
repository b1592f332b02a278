"""Finds words of another script inside a sentence: "The 模型 learns fast.", "这个 результат 很好".

Policies trained by reinforcement learning tend to switch language like this. A foreign word is fine if it is quoted, in
brackets, after a colon or dash, in italics, in a table, a list entry of its own, or of a script that the prompt uses or
names.
"""

from __future__ import annotations

import re

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.language import count_scripts, script_of
from rubrank.verifiers.shared.language_names import QUOTED
from rubrank.verifiers.shared.language_shares import Accepted

_LETTERS = {
    "Han": "\u3400-\u9fff\uf900-\ufaff\u3041-\u3096\u30a1-\u30fa",
    "Hangul": "\uac00-\ud7af",
    "Cyrillic": "\u0400-\u052f",
    "Arabic": "\u0620-\u06ff",
    "Hebrew": "\u05d0-\u05ea",
    "Thai": "\u0e01-\u0e7f",
    "Devanagari": "\u0900-\u097f",
}
# A stray word: the sentence goes on after it, or ends. Words before it that introduce a foreign word are no sign.
_INTRODUCING = (
    "called named word words term terms character characters phrase as means meaning written reads say says spelled "
    "kanji symbol letter letters like is are or into from by of"
)
_NOT_INTRODUCED = "".join(rf"(?<!\b{word} )" for word in _INTRODUCING.split())
# Words after a foreign word that begins a sentence and is its subject: "東京 means eastern capital."
_EXPLAINED = (
    r"(?![ ](?:is|are|was|were|means?|meant|stands?|refers?|translates?|comes?|can|could|may|has|had|and|or|literally"
    r"|consists?|denotes?|describes?|would|will|sounds?|reads?)\b)"
)


def _compile_patterns(small: str, capital: str, own_script: str) -> dict[str, re.Pattern[str]]:
    """Patterns for stray words among words of these small and capital letters, by the script of the stray word."""
    patterns = {}
    for script, letters in _LETTERS.items():
        if script == own_script:
            continue
        word = f"[{letters}]{{2,}}"
        patterns[script] = re.compile(
            rf"(?<=[{small}][ ,]){word}(?=[ ,]?[{small}](?:[{small}]|[ ]))"
            rf"|(?<=[{small}]){word}(?=[{small}])"
            rf"|(?<=[{small}],[ ]){word}(?=[ ][{small}]{{2}})"
            rf"|(?<=[{small}][.!?][ ]){word}{_EXPLAINED}(?=[ ][{small}]{{2}})"
            rf"|(?<=[{small}][ ]){_NOT_INTRODUCED}{word}(?=[ ][{capital}][{small}]|[,.;!?](?:\s|$))"
        )
    return patterns


_IN_LATIN = _compile_patterns("a-zà-ÿ", "A-ZÀ-Þ", "Latin")
_IN_CYRILLIC = _compile_patterns("а-яёіїєґ", "А-ЯЁІЇЄҐ", "Cyrillic")
_WIDE = "\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff"
_IN_CHINESE_OR_JAPANESE = {
    script: re.compile(
        rf"(?<=[{_WIDE}])[ ，、]?([{letters}]{{2,}})(?=[ ，、,。；]?[{_WIDE}]|[。；]|,)"
    )
    for script, letters in _LETTERS.items()
    if script != "Han"
}
_SET_APART = re.compile(
    r"\([^()\n]{1,300}\)|（[^（）\n]{1,300}）|\[[^\[\]\n]{1,300}\]|\*[^*\n]{1,300}\*|_[^_\n]{1,300}_|【[^】\n]{1,100}】"
)


def find_stray_word(rollout: Rollout, prose: str, accepted: Accepted) -> str | None:
    """The first word of another script that nothing in the prompt explains; None if there is none."""
    if prose.isascii():
        return None
    counts = count_scripts(prose)
    total = sum(count * (3 if script in ("Han", "Kana") else 1) for script, count in counts.items())
    prompt = "\n".join(message.content for message in rollout.prompt)[:100_000]
    explained = {script_of(code) for code in accepted.languages} | set(count_scripts(prompt))
    if explained & {"Han", "Kana"}:
        explained |= {"Han", "Kana"}
    if counts.get("Latin", 0) > total / 2:
        patterns = _IN_LATIN
    elif counts.get("Cyrillic", 0) > total / 2:
        patterns = _IN_CYRILLIC
    else:
        patterns = _IN_CHINESE_OR_JAPANESE
    for script, count in counts.items():
        if script not in patterns or script in explained:
            continue
        word = patterns[script].search(_select_sentences(prose))
        # A text with much of the other script is in two languages. One word is stray in a short text, too.
        is_one_word = word is not None and count == len(word[word.lastindex or 0])
        if word and (is_one_word or 10 * count <= total):
            return word[word.lastindex or 0]
    return None


def _select_sentences(prose: str) -> str:
    """The sentences, with quotations, brackets and emphasis replaced by "~"; short lines and tables are left out."""
    lines = [line for line in prose.splitlines() if "|" not in line and len(line) > 30]
    return "\n".join(_SET_APART.sub("~", QUOTED.sub("~", line)) for line in lines)
