"""Truncated: does the answer end (1 = fine, 0 = the reward is stopped)?

    Rollout(response="… and then the", finish_reason="length")      # 0: the sampler says so
    Rollout(response="… and then the")                              # 0: no sentence ends with "the"
    Rollout(response="… and we went home")                          # missing: perhaps only the full stop is

The trainer knows why sampling ended, and its adapter passes that on as `finish_reason`. Without it, only sure signs of
truncation count.
"""

from __future__ import annotations

import json
import re

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN, is_heading, is_item, is_rule, sentences, split_code
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

_CUT = frozenset(("length", "max_tokens", "max_length", "token_limit", "max_output_tokens", "model_length"))
_WHOLE = frozenset(
    ("stop", "end_turn", "eos", "eos_token", "stop_sequence", "stop_token", "tool_calls", "tool_use", "completed")
)
_FUNCTION_WORDS = (  # no sentence ends with these; "what it is for", "read from" do
    "and|or|but|the|a|an|because|which|whose|between|although|whereas|unless|such as|including|as well as|due to"
    "|their|your"
    "|et|und|oder|y|la|le|les|der|das|el|los|una|que|qui|della|il|dass|weil|и|или|но|что|который"
)
_DANGLING = re.compile(
    rf"(?:[,，、(（\[{{“「『《—]|(?<=\s)-|\b(?:{_FUNCTION_WORDS})|(?:因为|所以|但是|以及|并且|而且|例如|比如|的是|包括|如果|由于|虽然|不仅|对于|关于|从而"
    r"|或者)|(?:という|および|または|しかし|について|[はがを]))$",
    re.IGNORECASE,
)
_MARKER_ONLY = re.compile(
    r"[ \t]*(?:(?:\d{1,3}[.)、]|[一二三四五六七八九十]{1,3}、|[(（]\d{1,3}[)）])[ \t]*(?:\*{1,3}|_{1,2})?"
    r"|[-*+•](?:[ \t]+\*\*)?)[ \t]*$"
)
_FULL_STOPS = (".", "!", "?", "。", "！", "？")
_TERMINAL = ".!?。！？…~～”’\"'」』》）)]】}`*_|:：;；>$%°€£¥@^/\\"
_NO_PROSE = re.compile(
    r"#\S+\s*$|https?://|www\.|@\w|^\s*(?:key ?words?|tags?|关键词|关键字|标签|keywords)\s*[:：]|[=≈≤≥<>^\\]"
    r"|^\s*\S{1,40}\s*[:：]",
    re.IGNORECASE,
)
_WIDE = re.compile(f"[{HAN}\u3040-\u30ff]")


@verifier("Truncated", family="gate", domain=BINARY, version=3, layer="global_quality")
def truncated(rollout: Rollout) -> Answer:
    """The answer is complete.

    Passes: one that ends, in hashtags, keywords, a formula, a name or a verse too. Fails: the sampler stopped it
    ("length"); thoughts, a code fence, JSON or bold that never closes; an end in mid-sentence — a comma, an open
    bracket, "and the", "因为"; half a row of a table; the number of an entry and nothing after it. Missing: it is not
    known why sampling ended, and the last sentence has no full stop where the others have. Not covered: an ending
    that is missing but leaves a whole sentence.
    """
    reason = (rollout.finish_reason or "").lower()
    if reason in _CUT:
        return False, f"sampling ended by {reason!r}"
    if rollout.tool_calls and not rollout.answer.strip():
        return True, "a tool is called"
    if rollout.thoughts and not rollout.answer.strip():
        return False, "it ends within its thoughts"
    defect = _find_defect(rollout.answer)
    if defect:
        return False, defect
    if reason not in _WHOLE and _stops_short(rollout.answer):
        return missing("no full stop at the end, and it is not known why sampling ended: pass finish_reason")
    return True, "it ends"


def _find_defect(answer: str) -> str | None:
    """A sure sign that the end of the answer is missing; None if there is none."""
    outside, blocks, unclosed = split_code(answer)
    if unclosed and blocks[-1][1].strip() and not _is_closed_by_another(blocks):
        return "a code fence never closes"
    if _is_open_json(answer.strip()):
        return "JSON never closes"
    lines = [line for line in outside[-400:] if line.strip()]
    if not lines or unclosed or answer.rstrip().endswith(("```", "~~~")):
        return None
    last = lines[-1]
    if _is_half_row(lines):
        return "the last row of a table is not whole"
    if is_rule(last):
        return None
    if len(lines) > 1 and _MARKER_ONLY.match(last) and (is_item(lines[-2]) or len(answer) > 80):
        return f"an entry without text: {last.strip()!r}"
    if last.lstrip().startswith("|"):
        return None
    return _find_broken_line(last) or _find_half_entry(lines)


def _find_broken_line(last: str) -> str | None:
    """How the last line breaks off; None if it does not."""
    end = last.strip().rstrip("*_ ")
    if is_heading(last) or not end:
        return None
    in_list = is_item(last)
    if last.count("**") % 2 and in_list and not last.rstrip(" \t\"'”’」").endswith("**"):
        return f"bold never closes: {end[-30:]!r}"
    is_long = len(end) > (12 if in_list else 25) or len(_WIDE.findall(end)) >= (4 if in_list else 8)
    if is_long and _DANGLING.search(end) and not _NO_PROSE.search(end[-60:]):
        return f"it ends in mid-sentence: {end[-30:]!r}"
    tail = end[max(end.rfind("("), end.rfind("（")) :]
    is_open = tail[:1] in "(（" and not re.search("[)）]", tail)
    if is_open and len(end) > 25 and len(tail) > 3 and tail[-1:].isalnum():
        return f"a bracket never closes: {tail[-30:]!r}"
    return None


def _find_half_entry(lines: list[str]) -> str | None:
    """The last entry of a list is not a whole sentence, and all the others are."""
    last = lines[-1].rstrip()
    entries = [line.rstrip().rstrip("*_") for line in lines[:-1] if is_item(line)]
    if not is_item(last) or len(entries) < 2 or len(entries) < len(lines) - 2 or not last[-1].isalnum():
        return None
    if not all(entry.endswith(_FULL_STOPS) for entry in entries):
        return None
    shortest = min(map(len, entries))
    return f"the last entry breaks off: {last[-30:]!r}" if len(last) < shortest else None


def _is_closed_by_another(blocks: list[tuple[str, str]]) -> bool:
    """A fence inside a fence: what seems to be the last, open block is really prose after the outer fence."""
    tag, code = blocks[-1]
    return len(blocks) > 1 and not tag and code.rstrip().endswith(_FULL_STOPS)


def _is_half_row(lines: list[str]) -> bool:
    """The last row of a table has fewer cells than the rows above."""
    rows = [line.strip() for line in lines[-3:]]
    if len(rows) < 3 or not all(row.startswith("|") for row in rows):
        return False
    cells = [row.replace("\\|", "").count("|") for row in rows]
    return rows[-2].endswith("|") and cells[-1] < min(cells[:-1])


def _stops_short(answer: str) -> bool:
    """The last line is prose without a full stop, although most sentences before it have one."""
    lines = [line for line in answer[-20_000:].splitlines() if line.strip()]
    if not lines or is_heading(lines[-1]) or is_rule(lines[-1]):
        return False
    end = lines[-1].strip()
    if end[-1] in _TERMINAL or not end[-1].isalnum():
        return False
    tail = end[max(map(end.rfind, ".!?。！？")) + 1 :]  # the last sentence of the last line
    if _NO_PROSE.search(end) or _NO_PROSE.search(tail):
        return False
    is_long = len(tail.split()) >= 6 or len(re.findall(f"[{HAN}]", tail)) >= 10
    before = sentences(answer[-5000:])[:-1]
    whole = [sentence for sentence in before if sentence.rstrip("*_ ”\"')」").endswith(_FULL_STOPS)]
    return is_long and len(whole) >= 2 and 2 * len(whole) >= len(before)


def _is_open_json(answer: str) -> bool:
    """The answer starts like JSON, and some of its brackets are never closed."""
    if not re.match(r'\{\s*"|\[\s*[{"\[]', answer) or len(answer) > 1_000_000:
        return False
    try:
        json.loads(answer)
    except RecursionError:
        return False
    except ValueError:
        brackets = re.sub(r'"(?:[^"\\]|\\.)*"?', "", answer)  # without the strings
        return brackets.count("{") + brackets.count("[") > brackets.count("}") + brackets.count("]")
    return False
