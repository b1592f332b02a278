"""Reading the result out of an answer: the boxed or stated part, the chosen letter, numbers with their units.

>>> final_answer("So 6 · 7.\\n\\n**Answer: 42**"), chosen_letters("所以答案是B。")
('42', ('B', 'stated'))
"""

from __future__ import annotations

import re

from rubrank.texts.prose import bare

_TAIL = 20_000
_STATED = re.compile(
    r"(?:final answer|correct answer|answer|result|solution)[*_]*(?:\s+(?:is|are|would be|should be|to this"
    r"|equals))*\s*[:：=]?[*_]*\s*"
    r"|(?:最终答案|正确答案|答案|结果|答)[*_]*\s*(?:应该|应|就)?(?:是|为|選|选|：|:|=)+[*_]*\s*",
    re.IGNORECASE,
)  # fmt: skip
_SPACED = re.compile(r"\\(?:text|mathrm|mathbf|textbf|rm)\s*\{([^{}]*)\}")


def boxed(text: str) -> str | None:
    """What is in the last \\boxed{…}, its braces balanced."""
    at = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if at < 0:
        return None
    start = text.index("{", at) + 1
    depth = 1
    for i in range(start, min(len(text), start + 5000)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return _SPACED.sub(r"\1", text[start:i]).strip()
    return None


def final_answer(text: str) -> str:
    """The boxed part; else what follows the last "answer is"; else a single line, or the last one."""
    tail = text[-_TAIL:]
    if (inside := boxed(tail)) is not None:
        return inside
    stated = [
        m.end()
        for m in _STATED.finditer(tail)
        if tail[m.start() : m.end()].rstrip("*_ ")[-1:] in ":：=是为选選" or _says(m[0])
    ]
    for end in reversed(stated):
        line = next(iter(tail[end:].split("\n")), "")
        if any(c.isalnum() for c in line):
            return bare(line).rstrip(".。 ")
    lines = [line for line in tail.splitlines() if line.strip()]
    return bare(lines[-1]).rstrip(".。 ") if lines else ""


def _says(statement: str) -> bool:
    return statement.lower().rstrip("*_ ").endswith((" is", " are", " be", " equals"))


_LETTER = r"[(（\[【*_\"“'`$ ]*(?:option |choice |选项)?[(（\[【*_\"“'`$]*"
_ONE = "[A-Z](?![a-zA-Z])"
_LETTERS = rf"({_ONE}(?:(?:[ ,，、/&()（）*]|and|or|和|或|与){{1,7}}{_ONE}){{0,9}}|[A-Z]{{2,6}}(?![a-zA-Z]))"
_CHOICE = re.compile(
    r"(?:(?i:answers?|choice|option|correct one|i(?:'d| would)? (?:choose|pick|select"
    r"|go with))[*_]*(?i:\s+(?:is|are|would be|should be|must be))*"
    r"|(?:答案|正确选项|正确的选项|选项|应该选|应选|故选|所以选|我选|选择|選擇|选|選|答)(?:应该|应|就)?(?:是|为"
    r"|選|选)*)[*_]*\s*[:：=]?\s*"
    rf"{_LETTER}{_LETTERS}"
)  # fmt: skip
_ALONE = re.compile(r"[\s*_(（\[【\"'`$]*([A-Z](?:\s*[,，、]?\s*[A-Z]){0,5})[\s*_)）\]】\"'`$]*(?:[.。:：、)）].*)?$")
_BRACKETED = re.compile(r"[(（]([A-Z])[)）]")
_ARTICLE = re.compile(r"\s+(?!because|since|as |for |and |or |is |due|given|which|with|by )[a-z]")


def chosen_letters(text: str, options: str = "ABCDEFGHIJ") -> tuple[str, str]:
    """The letters chosen, sorted ("" if none), and where they were found; several mean several were named."""
    tail = text[-_TAIL:]
    if (inside := boxed(tail)) is not None:
        return _pick(inside, options), "boxed"
    for match in reversed(list(_CHOICE.finditer(tail))):
        article = match[1] in ("A", "I") and _ARTICLE.match(tail, match.end())
        denied = re.search(r"(?:not|n't|wrong|不|非)\s*\W{0,3}$", tail[max(0, match.start(1) - 12) : match.start(1)])
        if not article and not denied and (found := _pick(match[1], options)):
            return found, "stated"
    lines = [line for line in tail.splitlines() if line.strip()]
    if lines and (alone := _ALONE.match(lines[-1])) and (found := _pick(alone[1], options)):
        return found, "last line"
    if len(lines) > 1 and (alone := _ALONE.match(lines[0])) and not _ALONE.match(lines[1]):
        return _pick(alone[1], options), "first line"
    return _pick("".join(_BRACKETED.findall(tail)), options), "brackets"


def _pick(found: str, options: str) -> str:
    return "".join(sorted({c for c in re.sub(r"and|or", " ", found) if c in options}))
