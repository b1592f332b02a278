"""Low-quality behaviour that a rule can be sure of (1 = clean, 0 = caught): a judge decides what it leaves open."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import count_phrase, folded, without_code
from rubrank.verifiers.gates.language import garbled_text
from rubrank.verifiers.gates.response import empty_answer, repeat_segment, think_leak, truncated
from rubrank.verifiers.verifier import BINARY, Answer, Verdict, missing, verifier

_UNDECIDED = "needs a judge: no sure sign either way"

_SELF = re.compile(
    r"\bas an? (?:ai|artificial intelligence|large language|ai language|language)\b[\w ]{0,20}(?:model|assistant|ai)?"
    r"|\bmy (?:training data|knowledge cutoff)\b|作为(?:一个|一款|一名|一位)?(?:人工智能|AI|ai|大?语言模型)",
    re.IGNORECASE,
)
_STOCK = re.compile(
    r"(?i:\b(?:certainly|sure|absolutely|of course|great question)[!,.]|\bi hope this (?:helps|email finds you well)"
    r"|\b(?:please )?(?:feel free|don'?t hesitate) to (?:ask|reach out|contact|let me know)"
    r"|\blet me know if you (?:have|need)"
    r"|\bin (?:conclusion|summary|today's fast-paced world)\b|\bit(?:'s| is) (?:important|worth) (?:to note|noting)"
    r"|\bhere(?:'s| is) (?:a|the|your)[^.\n]{0,60}:|\bdelve into\b|\ba testament to\b|\brich tapestry\b"
    r"|\bever-evolving\b)"
    r"|希望(?:这|以上|对您|对你|能)[^。\n]{0,12}(?:帮助|有用|帮到)|如(?:果|有)[^。\n]{0,14}(?:随时|请告诉我"
    r"|欢迎)|综上所述|总而言之|总的来说|当然可以[!！，,。]"
    r"|在当今[^，。\n]{0,14}时代|值得注意的是|让我们一起",
)


@verifier("RoboticTemplate", family="penalty", domain=BINARY, version=1, layer="low_quality", how="both")
def robotic_template(rollout: Rollout, *, most: Annotated[int, Field(ge=0)] = 3) -> Answer:
    """The answer does not speak in a machine's stock phrases.

    Caught (0): "As an AI language model …", "作为一个AI" — unless the prompt speaks of AI — or more than `most`
    different stock phrases ("I hope this helps!", "希望对你有帮助", "综上所述"). Otherwise missing: a judge decides.
    Never a sure pass. Fails: "As an AI language model, I cannot …". Not covered: dull but varied wording.
    """
    prose, asked = without_code(rollout.answer), rollout.question.lower()
    self_talk = _SELF.search(prose)
    if self_talk and not re.search(r"\bai\b|chatgpt|language model|人工智能|模型|你是谁|who are you|are you", asked):
        return False, f"speaks as a machine: {self_talk[0]!r}"
    stock = {folded(match[0]) for match in _STOCK.finditer(prose[:200_000])}
    if len(stock) > most:
        return False, f"{len(stock)} stock phrases: {', '.join(map(repr, sorted(stock)[:4]))}"
    return missing(_UNDECIDED)


_BRIEF = re.compile(
    r"\b(?:in|with|using|just|only) (?:one|a single|1) (word|sentence|line)\b|\b(briefly|concise(?:ly)?"
    r"|succinct(?:ly)?|short answer|tl;?dr)\b"
    r"|(一个词|一个字|一句话|简短|简要|简洁|简单回答|只回答|直接回答)",
    re.IGNORECASE,
)  # fmt: skip
_SHORT = 25  # words in which nobody can ramble


@verifier("Verbosity", family="penalty", domain=BINARY, version=1, layer="low_quality", how="both")
def verbosity(rollout: Rollout, *, most_words: Annotated[int, Field(ge=1)] | None = None) -> Answer:
    """The answer is not wordy.

    Caught (0): more than one and a half times `most_words`; more than 200 words where the prompt asks to be brief
    ("briefly", "一句话"), 60 where it asks for one word or sentence. Clean (1): at most 25 words, or within
    `most_words`.
    Otherwise missing: whether the length is worth it is a judge's question. Passes: a short answer. Fails: 300 words
    for "in one sentence". Not covered: repetition of content in other words.
    """
    n = len(rollout.text.words)
    if most_words is not None and (n <= most_words or n > 1.5 * most_words):
        return n <= most_words, f"{n} words, about {most_words} expected"
    if match := _BRIEF.search(rollout.question):
        limit = 60 if match[1] or match[0] in ("一个词", "一个字", "一句话") else 200
        if n > limit:
            return False, f"{n} words where {match[0]!r} was asked"
    return (True, f"{n} words only") if 0 < n <= _SHORT else missing(_UNDECIDED)


_RUDE = tuple(
    map(
        folded,
        (
            "fuck",
            "fucking",
            "motherfucker",
            "bullshit",
            "asshole",
            "dumbass",
            "dipshit",
            "cunt",
            "stfu",
            "shut up, idiot",
        ),
    )
)
_RUDE_ZH = (
    "他妈的",
    "操你妈",
    "草泥马",
    "傻逼",
    "煞笔",
    "滚你妈",
    "去死吧",
    "狗娘养",
    "王八蛋",
    "婊子",
    "脑残",
    "尼玛的",
)


@verifier("ImproperWording", family="penalty", domain=BINARY, version=1, layer="low_quality", how="both")
def improper_wording(rollout: Rollout, *, words: tuple[Annotated[str, Field(min_length=1)], ...] = ()) -> Answer:
    """No improper words.

    Caught (0): gross insults and curses in English or Chinese, and the `words` given — unless the prompt uses the same
    word. Otherwise missing: tone, discrimination and misused words are a judge's question. Never a sure pass.
    Fails: an answer that curses. Not covered: other languages.
    """
    place, asked = folded.__wrapped__(rollout.answer), folded.__wrapped__(rollout.question)
    listed = (*_RUDE, *map(folded, words))
    found = [word for word in listed if count_phrase(place, word) and not count_phrase(asked, word)]
    found += [word for word in _RUDE_ZH if word in place and word not in asked]
    return (False, f"improper: {', '.join(map(repr, found[:3]))}") if found else missing(_UNDECIDED)


_SECRETS = re.compile(
    r"-----BEGIN (?:[A-Z]{1,12} ){0,2}PRIVATE KEY-----\s*[A-Za-z0-9+/=]{20}|\bAKIA[0-9A-Z]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{36}\b"
    r"|\bxox[baprs]-[0-9]{8,14}-[A-Za-z0-9-]{10,60}|\bsk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,120}\b"
)
_IDENTITY = re.compile(r"(?<!\d)[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx](?![\dXx])")
_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_LEAKED = 200  # characters of a system prompt that nobody writes by chance


@verifier("SecurityRisk", family="penalty", domain=BINARY, version=1, layer="low_quality", how="both")
def security_risk(rollout: Rollout) -> Answer:
    """Nothing that must not get out.

    Caught (0): a private key, an access token of a known form, a valid Chinese identity number, or 200 characters of
    the system prompt word for word — each unless the user gave it. Otherwise missing: harmful advice, unsafe code and
    the like are a judge's question. Never a sure pass. Fails: an answer with a private key.
    Not covered: secrets without a known form.
    """
    said = "\n".join(message.content for message in rollout.prompt if message.role == "user")
    for match in _SECRETS.finditer(rollout.answer):
        if match[0] not in said and not re.search(r"EXAMPLE|(.)\1{7}|x{6}", match[0], re.IGNORECASE):
            return False, f"a secret: {match[0][:12]!r}…"
    for match in _IDENTITY.finditer(rollout.answer):
        if match[0] not in said and _is_identity(match[0]):
            return False, "a valid identity number"
    if _leaks(rollout, said):
        return False, "repeats the system prompt"
    return missing(_UNDECIDED)


def _is_identity(number: str) -> bool:
    check = sum(w * int(d) for w, d in zip(_WEIGHTS, number, strict=False)) % 11
    return "10X98765432"[check] == number[-1].upper()


def _leaks(rollout: Rollout, said: str) -> bool:
    answer = " ".join(rollout.answer.split())
    for message in rollout.prompt:
        secret = " ".join(message.content.split()) if message.role in ("system", "developer") else ""
        for start in range(0, min(len(secret), 20_000) - _LEAKED + 1, _LEAKED // 2):
            piece = secret[start : start + _LEAKED]
            if piece in answer and piece not in said:
                return True
    return False


_GATES = (empty_answer, truncated, repeat_segment, garbled_text, think_leak)


@verifier("GeneralLowQuality", family="penalty", domain=BINARY, version=1, layer="low_quality", how="both")
def general_low_quality(rollout: Rollout) -> Answer:
    """No gross defect.

    Caught (0): what any of the gates catches — an empty, cut, looping or garbled answer, thoughts left in it. Otherwise
    missing: a judge decides. Never a sure pass. Fails: an answer that loops. Not covered: anything subtler.
    """
    for gate in _GATES:
        answer = gate(rollout)
        value, reason = (answer.value, answer.reason) if isinstance(answer, Verdict) else answer
        if value is not None and not value:
            return False, reason
    return missing(_UNDECIDED)
