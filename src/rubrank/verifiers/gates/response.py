"""Catastrophic output: EmptyAnswer, Truncated, RepeatSegment, ThinkLeak (1 = fine, 0 = the reward is stopped).

A gate speaks only of what it is sure of. GarbledText and WrongLanguage are in `gates_text`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Annotated

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN, bare, is_heading, is_item, is_rule, sentences, split_code, without_code
from rubrank.texts.reasoning import TAGS
from rubrank.texts.scanned import ADDRESS, BRACKETS, FENCE, TALK, TICK
from rubrank.verifiers.shared.relation import Share
from rubrank.verifiers.shared.repeats import Repeat, asks_to_repeat, find_repeats
from rubrank.verifiers.verifier import BINARY, Answer, verifier

_INVISIBLE = ("Z", "C", "M", "P")
_MARKUP = r"```\w*|<br\s*/?>|&nbsp;|[#*_~`|>=-]"
_ONLY_MARKUP = re.compile(_MARKUP)
_LEADING_MARKUP = re.compile(rf"(?:{_MARKUP}|[\s!\"%&'(),./:;?@\[\\\]{{}}‘’“”…–—])*+")


@verifier("EmptyAnswer", family="gate", domain=BINARY, version=1, layer="global_quality")
def empty_answer(rollout: Rollout) -> Answer:
    """There is an answer.

    Passes: "4", "👍", "+", a tool call without text. Fails: nothing, spaces, invisible characters, Markdown signs
    without content, only punctuation ("…"), thoughts without an answer. Not covered: an answer that says nothing.
    """
    if rollout.tool_calls:
        return True, "a tool is called"
    if _shows_something(rollout.answer):
        return True, "there is an answer"
    if rollout.answer.strip() in ("-", "*", "#", "_", "~", ">", "|", "=") and "sign" in rollout.question.lower():
        return True, "a sign was asked for"
    return False, "thoughts, but no answer" if rollout.thoughts.strip() else "the answer is empty"


def _shows_something(answer: str) -> bool:
    if answer[:1].isalnum():
        return True
    head = answer[:100_000]
    leading = _LEADING_MARKUP.match(head)
    first = head[leading.end() : leading.end() + 1] if leading else ""
    if first and unicodedata.category(first)[0] not in _INVISIBLE:  # nearly always; it makes no copy of the answer
        return True
    shown = _ONLY_MARKUP.sub("", head) or answer[100_000:]
    return any(unicodedata.category(c)[0] not in _INVISIBLE for c in shown)


_CUT = frozenset(("length", "max_tokens", "max_length", "token_limit", "max_output_tokens"))
_WHOLE = frozenset(("stop", "end_turn", "eos", "stop_sequence", "tool_calls", "tool_use"))
_DANGLING = re.compile(
    r"(?:[,，、(（\[{“「『《—-]|\b(?:and|or|but|the|a|an|of|to|with|for|in|on|at|by|from|because|which|that|is"
    r"|are|was|were"
    r"|such as|et|und|y|de|la|der|die)|(?:因为|所以|但是|以及|并且|而且|例如|比如|和|与|或|的是|包括|如果|由于))$",
    re.IGNORECASE,
)
_FINAL = ".!?。！？…~～”’\"'」』》）)]】}`*_|:：;；>$%°€£¥@^/\\"
_CLOSERS = {"}": "{", "]": "["}


@verifier("Truncated", family="gate", domain=BINARY, version=2, layer="global_quality")
def truncated(rollout: Rollout) -> Answer:
    """The answer is complete.

    Passes: one that ends. Fails: the sampler stopped it ("length"); thoughts, a code fence or JSON that never closes;
    an end in mid-sentence — a comma, an open bracket, "and the", "因为"; and, where it is not known why sampling ended,
    a last line of prose without a full stop after at least two sentences with one. Not covered: an ending that is
    missing but leaves a whole sentence; verse, lists, names and titles may end as they like.
    """
    reason = (rollout.finish_reason or "").lower()
    if reason in _CUT:
        return False, f"sampling ended by {reason!r}"
    if rollout.tool_calls and not rollout.answer.strip():
        return True, "a tool is called"
    if rollout.thoughts and not rollout.answer.strip():
        return False, "it ends within its thoughts"
    defect = _unfinished(rollout.answer, sure=reason not in _WHOLE)
    return defect is None, defect or "it ends"


def _unfinished(answer: str, *, sure: bool) -> str | None:
    _, blocks, unclosed = split_code(answer)
    if unclosed and len(blocks[-1][1]) > 0:
        return "a code fence never closes"
    if _open_json(answer.strip()):
        return "JSON never closes"
    last = next((line for line in reversed(answer[-20_000:].splitlines()) if line.strip()), "")
    end = last.strip().rstrip("*_ ")
    if is_rule(last) or last.lstrip().startswith("|") or last.strip().startswith(("```", "~~~")):
        return None
    if len(end) > 25 and _DANGLING.search(end) and not is_heading(last):
        return f"it ends in mid-sentence: {end[-30:]!r}"
    return f"the last sentence does not end: {end[-30:]!r}" if sure and _stops_short(answer, last) else None


def _stops_short(answer: str, last: str) -> bool:
    """A line of prose without an end, where prose has ended properly before."""
    end = last.strip()
    if is_item(last) or is_heading(last) or not end or end[-1] in _FINAL or not end[-1].isalnum():
        return False
    if "http" in end:
        return False
    said = sentences(answer[-5000:])
    whole = [s for s in said[:-1] if s.rstrip("*_ ”\"')」").endswith((".", "!", "?", "。", "！", "？"))]
    tail = end[max(map(end.rfind, ".!?。！？")) + 1 :]  # of the last line: a signature has lines of its own
    long = len(tail.split()) >= 8 or len(re.findall(f"[{HAN}]", tail)) >= 12
    return long and len(whole) >= 2 and 2 * len(whole) >= len(said) - 1


def _open_json(answer: str) -> bool:
    """It starts as JSON does and ends with brackets open."""
    if not re.match(r'\{\s*"|\[\s*[{"\[]', answer) or len(answer) > 1_000_000:
        return False
    try:
        json.loads(answer)
    except RecursionError:
        return False
    except ValueError:
        return _depth(answer) > 0
    return False


def _depth(answer: str) -> int:
    bones = re.sub(r'"(?:[^"\\]|\\.)*"?', "", answer)
    return bones.count("{") + bones.count("[") - bones.count("}") - bones.count("]")


_TABLE = re.compile(r"[ \t]*\|")
_SHORTEST = 16  # characters of a repeat that can matter, given the least `least_length`
_LINE = re.compile(r"^[\s\d.)(、*_#>•·-]+")


@verifier("RepeatSegment", family="gate", domain=BINARY, version=1, layer="global_quality")
def repeat_segment(
    rollout: Rollout,
    *,
    most_times: Annotated[int, Field(ge=2)] = 4,
    least_length: Annotated[int, Field(ge=20)] = 100,
    most_copied: Share = 0.45,
    refrains: tuple[str, ...] = (),
) -> Answer:
    """The answer does not go round in circles.

    Fails: a segment of any length (also of Chinese) repeated in a row more than `most_times` times over at least
    `least_length` characters (Chinese counts double); more than `most_copied` of the prose being long copies of what
    was said before; most lines of a list being the same. Passes: tables, code, rules, lists of alike entries, a chorus
    between verses, `refrains` given as parameters, and repetition that the prompt asks for ("say it 20 times"). Not
    covered: the same thought in other words; loops inside code or tables, unless they fill most of a long answer.
    """
    prose, whole = _loopable(rollout.answer, refrains), rollout.answer
    asked = asks_to_repeat(rollout.question)
    repeats = find_repeats(prose, least=_SHORTEST)
    for repeat in repeats:
        if _is_loop(prose, repeat, most_times * (25 if asked else 1), least_length):
            return False, _describe(prose, repeat)
    if asked:
        return True, "repetition was asked for"
    copied = _copied(prose, repeats)
    if copied > 150 and copied > most_copied * len(prose):
        return False, f"{copied / len(prose):.0%} of the text was said before"
    if _same_lines(prose):
        return False, "most lines are the same"
    return _code_loop(whole, len(prose))


def _loopable(answer: str, refrains: tuple[str, ...]) -> str:
    """Prose with single spaces; tables, code and refrains left out."""
    lines = [line for line in split_code(answer)[0] if not _TABLE.match(line) and not is_rule(line)]
    text = "\n".join(" ".join(line.split()) for line in lines if line.strip())
    for refrain in refrains:
        text = text.replace(" ".join(refrain.split()), "") if refrain.strip() else text
    return text


def _size(text: str) -> int:
    return len(text) + len(re.findall(f"[{HAN}]", text))


def _is_loop(text: str, repeat: Repeat, most: int, least: int) -> bool:
    span = repeat.length + repeat.distance
    if repeat.times <= most or span * 2 < least:
        return False
    period = text[repeat.start : repeat.start + repeat.distance]
    if not any(c.isalnum() for c in period):  # dots, dashes, blanks to fill in, emoji
        return span > 10 * least
    digits = sum(c.isdigit() for c in period)
    floor = 3 * least if 2 * digits >= sum(c.isalnum() for c in period) else least  # 1/3 = 0.333…
    return _size(text[repeat.start - repeat.distance : repeat.start + repeat.length]) >= floor


def _describe(text: str, repeat: Repeat) -> str:
    segment = text[repeat.start : repeat.start + repeat.distance]
    return f"a segment of {repeat.distance} characters stands {int(repeat.times)} times in a row: {segment[:40]!r}"


def _copied(text: str, repeats: list[Repeat]) -> int:
    """Characters in copies as long as a sentence."""
    return sum(r.length for r in repeats if r.length >= 60 or (r.length >= 30 and _size(text[r.start :][:30]) > 45))


def _same_lines(text: str) -> bool:
    lines = [_LINE.sub("", line) for line in text.splitlines()]
    lines = [line for line in lines if len(line) > 2]
    return len(lines) >= 12 and len(set(lines)) <= 0.3 * len(lines)


def _code_loop(answer: str, prose: int) -> Answer:
    """Code that fills a long answer with one segment over and over."""
    if len(answer) < 2000 or prose > len(answer) // 2:
        return True, "no loop found"
    for repeat in find_repeats(answer, least=_SHORTEST):
        period = answer[repeat.start : repeat.start + repeat.distance]
        wordy = sum(c.isalpha() for c in period) >= 8
        if wordy and repeat.times > 12 and 2 * repeat.length > len(answer):
            return False, _describe(answer, repeat)
    return True, "no loop found"


_TAG_NAMES = "think|thinking|thought|thoughts|reasoning|seed:think|analysis|scratchpad|reflection|inner_monologue|cot"
_TEMPLATE_NAMES = (
    "im_start|im_end|channel|start|end|message|assistant|user|system|eot_id|endoftext|start_header_id"
    "|START_THINKING|END_THINKING"
)
# By the character that they begin with: a search for one that is not there takes next to no time.
_TAGS_FROM = {
    "<": re.compile(rf"<(?:/?(?:{_TAG_NAMES})>|\|(?:{_TEMPLATE_NAMES})\|>)", re.IGNORECASE),
    "◁": re.compile("◁/?think▷", re.IGNORECASE),
    "[": re.compile(r"\[/?THINK\]", re.IGNORECASE),
}
_ABOUT_USER = re.compile(
    r"(?:(?:okay|ok|alright|hmm+|well|so|first)[,.… ]+)*(?:so[, ]+)?(?:the user (?:is|wants|asked|asks|has|said"
    r"|says|just|seems|"
    r"needs)|(?:we|i) (?:need|have|should|must) to (?:respond|answer|produce|write|comply"
    r"|output)\b.{0,80}\b(?:user|prompt|"
    r"instruction|constraint)|let me (?:analy[sz]e|think about|parse|re-?read) (?:the|this) (?:user|request"
    r"|prompt|question))"
    r"|(?:好的|嗯|好|首先|那么|现在)*[，,。 ]*(?:用户(?:让我|要求|想要|想|希望|问|需要|说|给|提)|我(?:需要|得"
    r"|应该)(?:先)?(?:理解|分析|确认)用户)",
    re.IGNORECASE,
)  # fmt: skip
_TO_ITSELF = re.compile(  # nobody opens so when speaking of the users that a prompt is about
    r"(?:okay|ok|alright|hmm+)[,.…，。 ]+(?:so[, ]+|well[, ]+)*the user\b"
    r"|(?:好的|好|嗯)[，,。… ]*(?:(?:现在|首先|那么)[，, ]*)?用户|(?:首先[，,])?用户(?:想让|希望|要求|让|要|问)我"
    r"|(?:so[, ]+)?the user (?:is asking|asks|asked|wants|needs) (?:me|us)\b|(?:so[, ]+)?we (?:need|have|must)\b",
    re.IGNORECASE,
)
_MONOLOGUE = re.compile(  # which letters it begins with is asked first: the rest is slower
    r"(?i)\n[ \t]*(?=(?-i:[WHOANBwhoanb等不嗯]))"
    r"(?:wait|hmm+|okay|alright|hold on|no, wait|but wait|actually, wait|等等|等一下|不对|嗯)[,，.。…!！ —-]"
)


@verifier("ThinkLeak", family="gate", domain=BINARY, version=1, layer="global_quality", scans=1)
def think_leak(rollout: Rollout) -> Answer:
    """No thinking is left in the answer.

    Passes: thoughts in their tags or field, and a clean answer after them. Fails: a thinking tag or a chat-template
    token in the answer (not in code, nor when the prompt speaks of it); an answer that opens by speaking about "the
    user" (用户要求…), where the prompt itself is about users only if it talks to itself ("Okay, the user …"); four or
    more lines that start with "Wait", "Hmm", "等等". Not covered: reasoning steps meant for the reader.
    """
    answer, scan = rollout.answer, rollout.text.scan
    signs = ~0 if scan is None else scan.signs  # anything may be there
    shown = without_code(answer) if signs & (FENCE | TICK | ADDRESS) else answer
    if signs & BRACKETS:
        asked = _asked(rollout)
        for tag in _tags(shown):
            if tag.lower().strip("</>|◁▷[]") not in asked:
                return False, f"{tag!r} in the answer"
        if rollout.reasoning is not None and any(first in shown and first not in asked for first, _ in TAGS):
            return False, "a thinking tag in the answer"
    start = bare(shown[:2000])
    match = _ABOUT_USER.match(start)
    if match and (not _speaks_of_users(_asked(rollout)) or _TO_ITSELF.match(start)):
        return False, f"the answer speaks about the user: {match[0][:60]!r}"
    turns = len(_MONOLOGUE.findall("\n" + shown)) if signs & TALK or shown is not answer else 0
    return turns < 4, f"{turns} lines of talking to itself" if turns else "no thinking left in the answer"


def _asked(rollout: Rollout) -> str:
    return " ".join([message.content for message in rollout.prompt]).lower()


def _speaks_of_users(asked: str) -> bool:
    return "user" in asked or "用户" in asked


def _tags(text: str) -> list[str]:
    """Thinking tags and tokens of chat templates, in order."""
    found = [m for first, tag in _TAGS_FROM.items() if first in text for m in tag.finditer(text)]
    return [m[0] for m in sorted(found, key=re.Match.start)]
