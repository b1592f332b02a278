"""EmptyAnswer: is there an answer at all (1 = fine, 0 = the reward is stopped)?"""

from __future__ import annotations

import re
import unicodedata

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import is_heading
from rubrank.texts.visible import visible
from rubrank.verifiers.verifier import BINARY, Answer, verifier

_INVISIBLE = ("Z", "C", "M", "P")
_MARKUP = r"```\w*|[#*_~`|>=-]"
_ONLY_MARKUP = re.compile(_MARKUP)
_LEADING_MARKUP = re.compile(rf"(?:{_MARKUP}|[\s!\"%'(),./:;?@\[\\\]{{}}‘’“”…–—])*+")
_NO_CONTENT = re.compile(  # frames around nothing: \boxed{}, <answer></answer>, $ $
    r"\\(?:boxed|fbox|text|mathrm)\s*\{\s*\}|</?(?:answer|solution|final|response|output|result)\s*/?>|\$+"
)
_LABEL = re.compile(
    r"(?:the |my |final |your )*(?:answer|solution|response|result|output|conclusion)(?:(?: is| below)\s*[:：=]?"
    r"|\s*[:：=])"
    r"|(?:最终)?(?:答案|回答|答|解|结果|结论|解答|答复)(?:(?:是|为|如下)\s*[:：]?|\s*[:：])",
    re.IGNORECASE,
)
_NOTHING_FOUND = re.compile(r"\[\s*\]|\{\s*\}|\(\s*\)|set\(\)|''|\"\"|“”|‘’|[?？!！]{1,3}|∅|n/a|null", re.IGNORECASE)
_ABOUT_SIGNS = re.compile(
    r"\b(?:signs?|symbols?|punctuation|marks?|characters?|operators?|delimiters?|separators?)\b|标点|符号|字符|记号",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"[\[<{(（【「]{1,2}\s*(.{1,80}?)\s*[\]>})）】」]{1,2}[.。]?", re.DOTALL)
_THING = (
    r"(?:answers?|responses?|text|content|solutions?|reply|replies|explanations?|essay|code|output|result|story|poem"
    r"|summary|message|name|description|information|details)"
)
_PLACEHOLDER = re.compile(
    rf"(?:please )?(?:insert|enter|type|write|add|put|fill in|place"
    rf"|provide)\s(?:\w+\s){{0,3}}(?:{_THING}(?:\s(?:goes\s)?"
    rf"(?:here|below))?|here)|(?:your|the|final|model|an?)\s(?:\w+\s){{0,2}}"
    rf"{_THING}(?:\s+(?:goes\s+)?here|\s+below)?|{_THING}(?:\s+(?:goes\s+)?here)?|todo|tbd|placeholder"
    rf"|lorem ipsum.{{0,60}}"
    r"|(?:请)?(?:在|于)?(?:此处?|这里|这儿|下方|以下)(?:填写|输入|插入|写|作答).{0,20}|(?:请)?(?:填写|输入|插入)(?:你|您)?的?.{0,20}"
    r"|(?:你|您)的?(?:答案|回答|回复|内容|解答)(?:在此|写在这里)?|答案|回答内容|内容|待补充|待填写",
    re.IGNORECASE | re.DOTALL,
)
_UNBRACKETED = re.compile(
    rf"(?:insert|enter|type|write|put) (?:your|the) (?:\w+ )?{_THING} here\.?|your (?:\w+ )?{_THING} (?:goes )?here\.?"
    r"|todo:?|tbd|(?:请)?在(?:此处?|这里)(?:填写|输入|作答|写)(?:你|您)?的?(?:答案|回答|内容)?[。.]?",
    re.IGNORECASE,
)
_TEMPLATES = re.compile(r"template|placeholder|fill[- ]in|form\b|format|boilerplate|模板|占位|格式|填空", re.IGNORECASE)
_PREAMBLE = re.compile(
    r"(?:(?:sure|certainly|of course|ok(?:ay)?|absolutely|alright|great question|no problem|gladly|yes"
    r"|(?:i(?:'d| would|’d) be )?happy to help)\b[^\n:]{0,60}?[!,.:—-]\s*){0,2}"
    r"(?:here(?:'s|’s| is| are| you go)|below(?: is| are)?|the following|let me|let(?:'s|’s)|i(?:'ll|’ll| will"
    r"| can| have)"
    r"|this is|see below)\b[^\n:]{0,150}[:：]"
    r"|(?:好的?|当然(?:可以)?|没问题|可以|行|是的)?[，,！!。\s]*(?:以下|下面|如下|这是|这里|接下来|让我)[^\n：:。]{0,60}[：:]"
    r"|(?:sure|certainly|of course|absolutely)[!,.]? here(?:'s|’s| is| are) [^\n:.]{1,100}[.!]",
    re.IGNORECASE,
)
_TITLE_ASKED = re.compile(
    r"titles?\b|headings?\b|headlines?\b|header|name\b|slogan|outline|subject line|标题|题目|大纲|目录|名字|口号"
    r"|markdown",
    re.IGNORECASE,
)
_TEXT_ASKED = re.compile(
    r"\b(?:explain|describe|write|how|why|steps|list|compare|discuss|summari[sz]e|essay|story|poem|letter|article|guide|plan"
    r"|code|implement|translate|give|tell|create)\b|解释|说明|描述|写|介绍|步骤|列出|为什么|怎么|如何|翻译|总结|分析|讲",
    re.IGNORECASE,
)
_GENERIC = re.compile(
    r"\b(?:answer|solution|introduction|explanation|overview|summary|response|conclusion|analysis|background|part|section"
    r"|chapter|step|guide|about|the|and|for|with|of|to|in|on|an?|\d+)\b|答案|解答|回答|引言|介绍|概述|总结|简介|前言|结论|分析|正文|解析|[的与和一二三四五、.:：]",
    re.IGNORECASE,
)


_LONG = 1_000  # characters: a longer answer is no frame, placeholder or announcement


@verifier("EmptyAnswer", family="gate", domain=BINARY, version=2, layer="global_quality")
def empty_answer(rollout: Rollout) -> Answer:
    """There is an answer.

    Passes: "4", "👍", "+", `[]`, `{}`, `?`, a tool call without text. Fails: nothing, spaces, invisible characters,
    HTML comments and empty elements, Markdown signs without content, only punctuation ("…"), thoughts without an
    answer, an empty frame (`\\boxed{}`, "Answer:"), a placeholder ("[Your answer here]"), an announcement and nothing
    after it ("Sure! Here is an explanation:"), a heading alone that only names the subject. Not covered: an answer
    that says nothing in other ways.
    """
    if rollout.tool_calls:
        return True, "a tool is called"
    answer = rollout.answer
    if len(answer) > _LONG and _shows_something(answer):
        return True, "there is an answer"
    shown = visible(answer)
    if not _shows_something(shown):
        return _judge_signs(rollout, answer, shown)
    shown = shown.strip()
    question = rollout.question
    reason = (
        _find_empty_frame(shown)
        or _find_placeholder(shown, question)
        or _find_announcement(shown)
        or _find_bare_heading(shown, question)
    )
    return reason is None, reason or "there is an answer"


def _judge_signs(rollout: Rollout, answer: str, shown: str) -> Answer:
    """The verdict on an answer without letters or digits: fine if it is empty data, a requested sign or a picture."""
    signs = shown.strip("`*_ \t\r\n").removeprefix("json").strip()
    if _NOTHING_FOUND.fullmatch(signs):
        return True, f"{signs} says that there is nothing"
    if signs and _ABOUT_SIGNS.search(rollout.question):
        return True, "a sign was asked for"
    if re.search(r"!\[[^\]\n]*\]\(https?://[^)\s]+\)", answer):
        return True, "a picture"
    return False, "thoughts, but no answer" if rollout.thoughts.strip() else "the answer is empty"


def _shows_something(answer: str) -> bool:
    """Whether there is a letter, a digit or a symbol that is not Markdown."""
    head = answer[:100_000]
    leading = _LEADING_MARKUP.match(head)
    first = head[leading.end() : leading.end() + 1] if leading else ""
    if first and unicodedata.category(first)[0] not in _INVISIBLE:  # true for nearly all answers, and fast
        return True
    shown = _ONLY_MARKUP.sub("", head) or answer[100_000:]
    return any(unicodedata.category(char)[0] not in _INVISIBLE for char in shown)


def _find_empty_frame(shown: str) -> str | None:
    inside = _NO_CONTENT.sub(" ", shown)
    if len(inside) < 60:
        inside = _LABEL.sub("", inside.strip(" \t\r\n*_#`.>-"), count=1)
    has_content = any(unicodedata.category(char)[0] in "LNS" for char in inside)
    if has_content or _NOTHING_FOUND.fullmatch(inside.strip()):
        return None
    return "a frame with nothing in it"


def _find_placeholder(shown: str, question: str) -> str | None:
    text = shown.strip("*_`# \n")
    if len(text) > 100 or _TEMPLATES.search(question):
        return None
    bracketed = _BRACKETED.fullmatch(text)
    if (bracketed and _PLACEHOLDER.fullmatch(bracketed[1])) or _UNBRACKETED.fullmatch(text):
        return f"a placeholder: {text!r}"
    return None


def _find_announcement(shown: str) -> str | None:
    text = shown.strip("*_` \n")
    if len(text) < 300 and _PREAMBLE.fullmatch(text):
        return f"announced and not given: {text[-60:]!r}"
    return None


def _find_bare_heading(shown: str, question: str) -> str | None:
    """The answer consists of headings only. A heading that answers the question ("# Paris") is fine."""
    lines = [line for line in shown.splitlines() if line.strip()]
    if not all(map(is_heading, lines)) or _TITLE_ASKED.search(question):
        return None
    headings = " ".join(lines)
    words = set(re.findall(r"[^\W\d_]{3,}|[\u4e00-\u9fff]", _GENERIC.sub(" ", headings).lower()))
    adds_words = any(word[:5] not in question.lower() for word in words)
    is_answer = adds_words and not _TEXT_ASKED.search(question)
    is_number = not words and re.search(r"\d", headings)
    if question and (is_answer or is_number):
        return None
    return "a heading alone"
