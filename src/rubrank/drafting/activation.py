"""Choose criteria of the library that fit the type of a task, without a model.

    >>> find_task_type("Write a Python function that reverses a list.")
    'code'
    >>> find_task_type("What is 12 * 7?", reference="84")
    'maths'

The types and their criteria stand in data/tasks.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

_CODE = re.compile(
    r"```|\b(?:python|javascript|typescript|java|c\+\+|c#|rust|golang|sql|bash|html|css|regex|regular expression"
    r"|function|code|script|compile|stack trace|unit tests?|api endpoint|refactor|debug)\b|代码|函数|编程|程序|脚本",
    re.IGNORECASE,
)
_CODE_REQUEST = re.compile(
    r"\b(?:write|implement|fix|debug|refactor|complete|create|build|optimi[sz]e|convert|explain|code)\b|写|实现|修复|编写|调试",
    re.IGNORECASE,
)
_MATHS = re.compile(
    r"\\(?:frac|sqrt|int|sum|boxed)|\$[^$]+\$|\b(?:solve|equation|integral|derivative|probability|how many|how much"
    r"|compute|calculate|prove)\b|\bwhat is \d|求|计算|方程|证明|多少",
    re.IGNORECASE,
)
_MATERIAL = re.compile(
    r"\b(?:following|above|below|given|attached)\s+(?:text|passage|article|paragraph|document|context|excerpt|transcript"
    r"|email|review|table|data)|\baccording to the (?:text|passage|article|document|context)|\bcontext:|\bpassage:"
    r"|根据(?:以下|上述|上文|下文|材料|文章)|背景资料|阅读(?:以下|下面)",
    re.IGNORECASE,
)
_UNSAFE = re.compile(
    r"\b(?:bomb|explosive|weapon|malware|ransomware|phishing|self-harm|suicide|kill (?:myself|someone|him|her)|poison"
    r"|hack into|steal|counterfeit|illegal drugs?|meth\b|child abuse|launder)|炸弹|自杀|毒品|黑客|洗钱",
    re.IGNORECASE,
)
_WRITING = re.compile(
    r"\b(?:write|compose|draft|create|generate|rewrite|continue)\b[^.?!\n]{0,60}\b(?:story|poem|essay|article|letter|e-?mail"
    r"|song|lyrics|blog|post|speech|script|screenplay|novel|haiku|limerick|review|report|resume|advert\w*|tweet|summary)\b"
    r"|(?:写|创作|撰写|续写|改写)[^。？\n]{0,30}(?:文章|故事|诗|作文|信|报告|小说|文案|演讲|歌词|散文|邮件|总结)",
    re.IGNORECASE,
)


def find_task_type(
    prompt: str, *, turns: int = 1, tools: Sequence[Any] = (), reference: str | None = None
) -> str:
    """The type of a task, one of the keys of data/tasks.yaml.

    turns: number of the user's turns. tools: tools that the model may call. reference: a known right answer.
    """
    if tools:
        return "tools"
    if _UNSAFE.search(prompt):
        return "safety"
    if _CODE.search(prompt) and _CODE_REQUEST.search(prompt):
        return "code"
    if reference is not None and _MATHS.search(prompt):
        return "maths"
    if _MATERIAL.search(prompt):
        return "question_with_material"
    if _WRITING.search(prompt):
        return "writing"
    return "multi_turn" if turns > 1 else "chat"


@cache
def _tasks() -> Mapping[str, Mapping[str, list[str]]]:
    text = (files("rubrank") / "drafting" / "data" / "tasks.yaml").read_text(encoding="utf-8")
    tasks: Mapping[str, Mapping[str, list[str]]] = yaml.safe_load(text)
    return tasks


def activate_criteria(task: str, reference: str | None = None) -> list[dict[str, Any]]:
    """The criteria of the library for a type of task, as a rubric has them."""
    entry = _tasks()[task]
    criteria: list[dict[str, Any]] = [{"name": name} for name in entry["rules"]]
    criteria += [{"name": name, "verifier": "judge"} for name in entry["judged"]]
    if task == "maths" and reference is not None:
        criteria.insert(
            0, {"name": "GroundTruthMatch", "params": {"truth": reference, "mode": "math"}}
        )
    return criteria
