"""How Multi-IF's own checker counts words and sentences, by the language it finds in the answer.

>>> public_count("length_constraints:number_words", "こんにちは、Jason。")
6

In Chinese, Japanese and Korean every character is a word, and so is an emoji and every run of other letters;
punctuation is dropped first. In Chinese and Japanese a sentence is what stands between 。.!?！？． and line breaks, in
Hindi between ।!? marks. Other languages go by IFEval's counters. Not covered: Thai, which Multi-IF cuts with a tool of
its own (undecided here).
"""

from __future__ import annotations

import re

from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.public_tools import has_langdetect, public_language

_EAST_ASIAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]")
_DROPPED = re.compile(r"[\\.!?．/_,{}<>:;$%^&*(+\"'—！，。？、`~@#￥…（）：；《》“”)\[\]»〔〕\-「」]+")
_SENTENCE = re.compile(r"[^!?。.！？．\n]+")
_HINDI_END = re.compile(r"(?<=[।!?])\s*")
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf\u2b50\u2b55]\ufe0f?")
WORDS, SENTENCES = "length_constraints:number_words", "length_constraints:number_sentences"


def language_of(answer: str) -> str:
    """The language that decides how the answer is counted; "en" where none is found."""
    if has_langdetect():
        return public_language(answer) or "en"
    found, _ = detect_language(answer)
    return {"zh": "zh-cn"}.get(found, found) or "en"


def public_count(instruction: str, answer: str) -> int | None:
    """What Multi-IF counts for this instruction in this answer; None where it counts as IFEval does."""
    if instruction not in (WORDS, SENTENCES):
        return None
    language = language_of(answer)
    if instruction == WORDS:
        return count_words(answer) if language in ("zh-cn", "zh-tw", "ja") else None
    if language in ("zh-cn", "zh-tw", "ja"):
        return sum(len(_SENTENCE.findall(line.strip())) for line in answer.splitlines())
    if language == "hi":
        return sum(1 for piece in _HINDI_END.split(answer) if piece.strip())
    return None


def count_words(answer: str) -> int:
    """East Asian characters, emojis, and runs of everything else."""
    text = _DROPPED.sub("", answer)
    emojis = len(_EMOJI.findall(text))
    text = _EMOJI.sub("", text)
    characters = len(_EAST_ASIAN.findall(text))
    return characters + emojis + len(_EAST_ASIAN.sub(" ", text).split())


def is_undecided(instruction: str, answer: str) -> bool:
    """Does Multi-IF count with a tool that is not here?"""
    return instruction in (WORDS, SENTENCES) and bool(answer.strip()) and language_of(answer) == "th"
