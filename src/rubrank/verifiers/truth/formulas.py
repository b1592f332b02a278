"""Mathematical results: find them in a text, bring them into a canonical form, and compare them as far as possible.

>>> read_formula(r"\\$18.90"), read_formula(r"\\dfrac12\\text{ cm}")
(Formula(core='18.90', unit='$'), Formula(core='\\\\frac{1}{2}', unit='cm'))
>>> find_formula("We get x + 7y", whole=False)
'x + 7y'

A comparison takes up to four steps, one for each section of this file:
1. `find_formula` or `find_last_formula` takes the result out of a text, as a whole: the 7 in "x + 7y" is not a result.
2. `read_formula` brings it into a canonical form: "\\frac12" and "$\\dfrac{1}{2}$" become "\\frac{1}{2}".
3. `compare_formulas` compares two canonical forms.
4. Only pairs such as (x + 1)^2 and x^2 + 2x + 1 need computer algebra. `compare_formulas` returns None for them, and
   `equal` decides with math-verify, in a worker process, which takes much longer.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from rubrank._plain import word_set
from rubrank.texts.text import split_sentences
from rubrank.verifiers.shared.arithmetic import evaluate, spell_powers
from rubrank.verifiers.shared.numbers import Number, is_close, measure_unit, read_units

# ---- where a formula stands ----------------------------------------------------------------------------------------

# $$…$$, $…$, \[…\] or \(…\). Not "\$5 and \$6", whose dollars are escaped.
_DELIMITED = re.compile(
    r"""\$\$ (?P<display> [^$]{1,2000} ) \$\$
    | (?<!\\)\$ (?P<inline> (?:[^$\n\\]|\\[^\n]){1,2000} ) \$
    | \\\[ (?P<square> (?:[^\\]|\\(?!\])){1,2000}+ ) \\\]
    | \\\( (?P<round> (?:[^\\]|\\(?!\))){1,2000}+ ) \\\)""",
    re.VERBOSE,
)
# What may stand between two formulas that are one result: "$1$ and $2$".
_CONJUNCTION = re.compile(
    r"[\s*_]*(?:,|;|、|，|或|和|(?:,\s*)?(?:and|or|und|oder|et|ou|y|o|e)(?=\s))?[\s*_]*",
    re.IGNORECASE,
)
_FUNCTION_NAMES = word_set("""
    sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp sqrt pi theta alpha beta gcd lcm max min
    mod inf infty frac dfrac tfrac cdot times choose
""")
_FUNCTIONS = "|".join(sorted(_FUNCTION_NAMES, key=len, reverse=True))
# One part of a formula without delimiters. Words of two or more letters end it, unless they name a function.
_PART = rf"""(?:
      \\[a-zA-Z]+ | \\[{{}},;:!%$|]                           # \alpha, \{{
    | \d+(?:[.,]\d+)*+                                        # 12, 1,000.5
    | (?<![^\W\d_])(?:{_FUNCTIONS})(?![^\W\d_])               # sin
    | (?<![^\W\d_])[A-Za-z](?![^\W\d_])                       # a variable: x
    | (?<=\d)[a-z]{{1,3}}(?![^\W\d_])                         # factors or a unit behind a number: the xy of 7xy
    | [-+−–*/^_=<>≤≥≠≈×·⋅÷±√π∞∪∩∈θ!|%$°²³(){{}}\[\]&']
)"""
# A formula without delimiters: the "x + 7y" of "We get x + 7y here".
_UNDELIMITED = re.compile(rf"{_PART}(?:[ \t]*+(?:,[ \t]?)?{_PART})*+", re.VERBOSE)
_SENTENCE_MARKS = " \t,;*_=&"  # may stand around such a formula
# An article at the edge of such a formula, which looks like a variable: the "a" of "a 3".
_ARTICLE = re.compile(r"\A(?:a|A|I|an)\s+(?=[\w\\])|\s+(?:a|I)\Z")
# Shows that a text is a formula: a number, a variable beside an operator, a command. "x" alone does not.
_OPERAND = re.compile(r"\d|[A-Za-z]\s*[-+*/^=<>_(]|[-+*/^=(]\s*[A-Za-z]|\\[a-zA-Z]|[π√∞]")
# A word of three letters or more that is neither a command nor a function.
_PROSE = re.compile(r"(?<![\\a-zA-Z{])(?!(?:" + _FUNCTIONS + r")(?![a-zA-Z]))[a-zA-Z]{3,}")
# Commands of LaTeX, with the words in their braces: \begin{align}, \text{ cm}, \alpha.
_WORDS_OF_LATEX = re.compile(
    r"\\(?:begin|end)\s*\{[a-z*]*\}|\\(?:text|mathrm|mbox|textbf|operatorname)\s*\{[^{}]*\}|\\[a-zA-Z]+"
)
# The start of a remark behind a result: the ", which" of "8, which occurs when x = 4". A result ends before it.
_REMARK_START = re.compile(
    r",?\s*(?:\b(?:because|since|which|not|rather|where|when|for|if|as)\b|因为|而不是|其中|\.\s+[A-Z])"
)
# "not 7 but 8", 不是7，而是8: the second one is the result.
_CORRECTION = re.compile(
    r"\A(?:not|不是)\s?[^,，;；]{1,60}?[,，]?\s?(?:but(?: rather)?|rather|而是)\s?", re.IGNORECASE
)
# \begin{align*}
_ENVIRONMENT = re.compile(
    r"\\(?:begin|end)\s*\{(?:align(?:ed|at)?|equation|gather(?:ed)?|split|multline|eqnarray)\*?\}"
)
# What may stand around a formula and is no part of it: the "&= " and " \\" of "&= 5 \\", a full stop.
_EDGES = re.compile(r"\A[\s&=]+|(?:\\\\|[\s&.,;。])+\Z")
# The marker of a list before a formula: the "2) " of "2) x + 1".
_NUMBERING = re.compile(r"\A\s*(?:\d{1,2}[.)]|[-•*])\s+")
# "there are exactly 36"; not "there are 36 + 2", "there are 3.5".
_COUNT = re.compile(
    r"""\bthere[ ](?:are|is|were|will[ ]be|must[ ]be|can[ ]be)\s
    (?:(?:exactly|only|therefore|thus|precisely|a[ ]total[ ]of)\s)?
    [$*\\( ]*(\d[\d,]*)(?![\w.^/])(?!\s*[-+*/^])""",
    re.IGNORECASE | re.VERBOSE,
)
_MOST_LINES = 30  # lines at the end of an answer that are searched for a formula
_MOST_SENTENCES = 30  # sentences at the end of such a line


def find_formula(text: str, *, whole: bool) -> str:
    """Return the formula that a text gives as its result; "" if it gives none.

    `whole` says where the text comes from, which decides three things:

                                        True: a marked result        False: the end of an answer
                                        (a box, a tag …)
        a text that is only a formula   counts: "x"                  counts if it has an operand: "x + 1"
        the name of a unit ("meters")   is no prose                  is prose
        of several formulas             the first counts             the last counts
    """
    text = " ".join(text.split())  # long runs of spaces cost time in every pattern
    text = _CORRECTION.sub("", text)
    result = _REMARK_START.split(text, maxsplit=1)[0]

    # A text that consists of a formula is returned whole. A dollar inside means that formulas and words alternate:
    # "$x$ is $5$". The escaped dollar of "\$5" is a unit.
    without_unit = read_formula(result).core if whole else result
    has_inner_dollar = "$" in result.replace("\\$", "").strip("$ .,")
    is_formula = not has_prose(without_unit) and not has_inner_dollar
    if is_formula and (whole or _OPERAND.search(result)):
        undelimited = result.replace("\\(", "").replace("\\)", "")
        return _EDGES.sub("", _NUMBERING.sub("", undelimited))

    # Otherwise the formulas among the words; those of the remark only if there are none before it.
    for part in (result, text):
        formulas = _list_formulas(part)
        with_operands = [formula for formula in formulas if _OPERAND.search(formula)]
        if with_operands:
            return with_operands[0] if whole else with_operands[-1]
        if formulas:
            return formulas[0]
    return ""


def find_last_formula(answer: str) -> str:
    """Return the last formula of an answer that marks no result; "" if its last lines have none."""
    all_lines = _ENVIRONMENT.sub("\n", answer).splitlines()
    lines = [line for line in all_lines if any(map(str.isalnum, line))]
    for line in reversed(lines[-_MOST_LINES:]):
        for sentence in reversed(split_sentences(line)[-_MOST_SENTENCES:]):
            formula = find_count(sentence) or find_formula(sentence, whole=False)
            if formula:
                return formula
    return ""


def find_count(sentence: str) -> str:
    """Return the number behind the last "there are" of a sentence; "" if there is none.

    It is 36 in "Thus there are 36 ways to put 4 balls into 3 boxes.", whose last number is not the result.
    """
    counts: list[str] = _COUNT.findall(sentence)
    return counts[-1].rstrip(",") if counts else ""


def _list_formulas(text: str) -> list[str]:
    """Return the formulas of a text in order, with or without delimiters; "$1$ and $2$" is one, "1, 2"."""
    formulas: list[str] = []
    end = 0  # of the last delimited formula
    for match in _DELIMITED.finditer(text):
        formula = _EDGES.sub("", next(part for part in match.groups() if part))
        between = text[end : match.start()]
        follows_formula = end > 0 and bool(between.strip()) and len(between) < 40
        if follows_formula and _CONJUNCTION.fullmatch(between):
            formulas[-1] += f", {formula}"
        else:
            formulas += _list_undelimited(between)
            formulas.append(formula)
        end = match.end()
    formulas += _list_undelimited(text[end:])
    return [formula for formula in formulas if formula]


def _list_undelimited(text: str) -> list[str]:
    """Return the formulas of a text without delimiters: "x + 7y" and "3" for "We get x + 7y and 3".

    Articles, punctuation and unmatched brackets of the sentence around a formula are removed.
    """
    formulas: list[str] = []
    for match in _UNDELIMITED.finditer(text):
        formula = _ARTICLE.sub("", match[0].strip(_SENTENCE_MARKS)).strip(_SENTENCE_MARKS)
        # If the bracket of a sentence was taken along ("(x = 5"), only the last side is sure to be whole.
        if "=" in formula and "," not in formula and formula.count("(") != formula.count(")"):
            formula = formula.rpartition("=")[2]
        for opening, closing in ("()", "[]", "{}"):
            if formula.count(opening) > formula.count(closing):
                formula = formula.removeprefix(opening)
            elif formula.count(closing) > formula.count(opening):
                formula = formula.removesuffix(closing)
        formula = re.sub(r"\A[-–]\s+|[\s–-]+\Z", "", formula.strip())
        if _OPERAND.search(formula):
            formulas.append(formula)
    return formulas


def has_prose(text: str) -> bool:
    """Does the text have words other than LaTeX commands and their arguments?"""
    return _PROSE.search(_WORDS_OF_LATEX.sub(" ", text)) is not None


# ---- the canonical form --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Formula:
    """A result without spaces, delimiters and sizes of brackets; its unit, percent sign or base is kept separately."""

    core: str
    unit: str = ""


# Spaces and sizes of LaTeX: "\,", "~", "\left", "\displaystyle". Group 1 is a line break, which stays.
_SPACING = re.compile(
    r"""(\\\\)
    | \\(?:left|right|[bB]igg?[lr]?|displaystyle|limits|q?quad|rm|bf)(?![a-zA-Z])
    | \\[,;:!] | \\(?=\s) | ~""",
    re.VERBOSE,
)
# \text{cm}; group 1 is the text.
_TEXT_COMMAND = re.compile(
    r"\\(?:text|mathrm|mathbf|mathbb|mathcal|textbf|textit|textrm|mbox|hbox|operatorname)\s*\{([^{}]*)\}"
)
_DEGREE = re.compile(r"\^\s*\{?\s*\\circ\s*\}?|\\degree(?![a-zA-Z])|°")
# Notations that LaTeX allows beside each other: \frac12 and \frac{1}{2}, \sqrt3 and \sqrt{3}, x^{2} and x^2.
_FRACTION = re.compile(r"\\frac\s*(?:(\d)|\{([^{}]*)\})\s*(?:([\da-zA-Z])|\{([^{}]*)\})")
_SHORT_ROOT = re.compile(r"\\sqrt\s*(\d|[a-zA-Z])")
_BRACED_INDEX = re.compile(r"([\^_])\{(\w)\}")
# Numbers in these two patterns have at most 1000 digits, because `int` raises ValueError from 4301 digits on.
# 2\frac{1}{3}
_MIXED_NUMBER = re.compile(r"(?<![\w.}\\^_])(\d{1,1000})\s*\\frac\{(\d{1,1000})\}\{(\d{1,1000})\}")
# 0.1\overline{6}
_REPEATING_DECIMAL = re.compile(
    r"(?<![\d.])(\d{0,1000})\.(\d{0,1000})\\(?:overline|bar)\s*\{?(\d{1,1000})(?!\d)\}?"
)
_GROUPED_DIGITS = re.compile(r"(?<![\d,.(\[{])(\d{1,3}(?:,\d{3})+)(?![\d,])")  # 1,000
# The base of a number at its end: 101_2, 1F_{16}
_BASE = re.compile(r"(?<=[\dA-F])_\{?\s*(\w+)\s*\}?\Z")
# The unit of a number at its end: "5 cm", "5 m/s", "5 square meters", "5 cm^2". Not the x of "5x".
_UNIT = re.compile(
    r"""(?<=[\d})])\s*
    (
        (?: [^\W\d_]{2,} | [a-zA-Z](?=\s*[/^.]) | (?<=\s)[a-zA-Z] ) [^\W\d_]*  # the first word
        (?: [\s./·]+[^\W\d_]+ )*                                               # further words
        \.? (?: \s?\^?\{?[23]\}? )?                                            # a power
    )\Z""",
    re.VERBOSE,
)
# The name of what is computed, and "=": "x =", "f(x) =", "AB =", "\angle ABC =", "Area =", "x_1 \in".
_NAME = re.compile(
    r"""\A(?: \\?[a-zA-Z] | [A-Z]{2,4} | \\(?:angle|triangle|overline)\s*\{?[A-Z]{1,3}\}? | [A-Za-z][a-z]{2,15} )
    (?:_\{?\w{1,3}\}?)? '? (?:\([a-zA-Z](?:,[a-zA-Z])*\))?
    (?: = | \\in(?![a-z]) )""",
    re.VERBOSE,
)


def read_formula(text: str) -> Formula:
    """Return the canonical form of a result in LaTeX or plain text.

    The order of these steps matters; that of the others does not:
    - ² and ³ before NFKC, which would turn "5²" into "52"; the money sign is looked for before dollars are removed;
    - {,} becomes a comma, then 1,000 loses its comma, and only then "and" becomes one: "3 and 400" is a list;
    - \\text{…} is opened before the unit is split off, which may stand in it; spaces are removed after that, as they
      separate a unit from variables;
    - \\frac gets its braces before mixed numbers are read; braces of an index are removed after the spaces in them.
    """
    # Characters, delimiters and commands for spaces and texts.
    text = text.replace("²", "^2").replace("³", "^3")
    text = spell_powers(unicodedata.normalize("NFKC", text)).replace("−", "-")
    text = text.strip().rstrip(".。,;").strip()
    has_money = re.search(r"\\\$|\A\$(?!.*\$)|\A\\text\{\$\}", text) is not None
    text = re.sub(r"\\\(|\\\)|\\\[|\\\]|\\?\$", "", text)
    text = _SPACING.sub(lambda match: match[1] or " ", text)
    text = _TEXT_COMMAND.sub(r" \1 ", text)
    text = re.sub(r"\\[dtc]frac(?![a-z])", r"\\frac", text)
    text = re.sub(r"\{,\}", ",", text)
    # "1,000" is one number; "1, 000" stays a list.
    text = _GROUPED_DIGITS.sub(lambda match: match[1].replace(",", ""), text)
    text = re.sub(r"\s(?:and|or)\s|[或和]", ",", text).strip()
    text, unit = _split_unit(text)
    if has_money and not unit:
        unit = "$"
    # Fractions, roots and indices.
    core = _FRACTION.sub(r"\\frac{\1\2}{\3\4}", text)
    core = _SHORT_ROOT.sub(r"\\sqrt{\1}", core)
    core = _MIXED_NUMBER.sub(_write_mixed, core)
    core = _REPEATING_DECIMAL.sub(_write_repeating, core)
    core = re.sub(r"\s+", " " if has_prose(core) else "", core).strip()
    core = _BRACED_INDEX.sub(r"\1\2", core)
    core = re.sub(r"(?<![\d.])\.(?=\d)", "0.", core)
    if re.fullmatch(r"[({\[]*[A-Za-z][)}\]]*", core):  # (C)
        core = core.strip("(){}[]")
    return Formula(core.strip(), unit)


def _split_unit(text: str) -> tuple[str, str]:
    """Return the text without the unit at its end, and that unit: "°", "%", "cm^2" or "" for none."""
    if _DEGREE.search(text):
        return _DEGREE.sub("", text).strip(), "°"
    percent = re.search(r"\\?%\Z|\s(?:percent|per cent)\Z", text)
    if percent:
        return text[: percent.start()].strip(), "%"
    base = _BASE.search(text)
    if base:
        return text[: base.start()], f"base {base[1]}"
    unit = _UNIT.search(text)
    if unit is None or not text[: unit.start()].strip() or unit[1].split()[0] in _FUNCTION_NAMES:
        return text, ""
    name = unit[1].strip().rstrip(".")
    is_variable = len(name) == 1 and name not in read_units()
    if is_variable or re.search("[πθ]", name):  # 3πr² has no unit
        return text, ""
    number = text[: unit.start()].strip()

    # One spelling for "Square Meters", "sq. meter" and "meters^2".
    name = " ".join(name.casefold().replace(".", "").replace("{", "").replace("}", "").split())
    name = re.sub(r"(?<=[a-z])\s?\^?([23])\Z", r"^\1", name)
    for word, power in (("square", 2), ("sq", 2), ("cubic", 3), ("cu", 3)):
        if name.startswith(f"{word} "):
            name = f"{name.removeprefix(word).strip()}^{power}"
    singular = re.sub(r"(?<=[a-z]{2})s(?=\^|\Z)", "", name)
    # "units" and "square units" agree with any unit.
    return number, "" if singular.rstrip("^23") == "unit" else singular


def _write_mixed(match: re.Match[str]) -> str:
    """Return 2\\frac{1}{3} as \\frac{7}{3}; 2\\frac{5}{3} is a product and stays."""
    whole, above, below = map(int, match.groups())
    if above >= below:
        return match[0]
    return f"\\frac{{{whole * below + above}}}{{{below}}}"


def _write_repeating(match: re.Match[str]) -> str:
    """Return 0.1\\overline{6} as \\frac{15}{90}."""
    whole, fixed, period = match.groups()
    denominator = (10 ** len(period) - 1) * 10 ** len(fixed)
    numerator = int(f"{whole}{fixed}{period}") - int(f"{whole}{fixed}" or 0)
    return f"\\frac{{{numerator}}}{{{denominator}}}"


# ---- comparison without computing ----------------------------------------------------------------------------------


def compare_formulas(truth: Formula, result: Formula, *, is_marked: bool = True) -> bool | None:
    """Return True if the result equals the truth, False if not, None if this must be computed.

    `is_marked`: the result is marked as such, so an equation is the result itself: \\boxed{x^2 + y^2 = 1} is not 1.
    """
    true_core = truth.core
    core = result.core
    # If only one of the two is an equation ("x = 5"), its last side is compared.
    if "=" not in true_core:
        core = _take_last_side(core, is_marked)
    elif "=" not in core:
        true_core = _take_last_side(true_core, is_marked=True)
    true_number = _measure(true_core, truth.unit)
    number = _measure(core, result.unit)
    if true_number and number and is_close(number, true_number, 1e-9):
        return True
    # A missing unit agrees with any other.
    if truth.unit and result.unit and truth.unit != result.unit:
        return False
    if true_number and number and "%" in truth.unit + result.unit:
        return False
    if core == true_core:
        return True
    # Brackets around all of it do not matter, except around a list: (1, 2) may be an interval or a point.
    if core and "," not in core and core.strip("(){}") == true_core.strip("(){}"):
        return True
    # Words ("even", "Monday") are compared letter by letter.
    if has_prose(true_core) or has_prose(core) or re.fullmatch(r"[A-Za-z ]{2,}", true_core):
        letters = [char for char in core.casefold() if char.isalnum()]
        return letters == [char for char in true_core.casefold() if char.isalnum()]
    # An equation such as "x^2 + y^2 = 1" is not the value 1.
    is_list = "," in core + true_core
    if _is_equation(core) != _is_equation(true_core) and not is_list:
        return False
    # Computer algebra would read a time of day or a ratio (3:4) as a fraction,
    if re.search(r"\d:\d", true_core + core):
        return False
    # and a version or an address (1.2.3) as a product.
    if any(re.search(r"\d\.\d+\.\d", side) for side in (true_core, core)):
        return False
    return None


def _take_last_side(core: str, is_marked: bool) -> str:
    """Return the last side of an equation: 5 for "x = 5" and "A + B = 2 + 3 = 5".

    Lists ("x = 1, y = 2"), inequalities and equations that are themselves the result ("x^2 + y^2 = 1") stay whole.
    is_marked: the result is marked as such, so a single equation is the result. If it is not marked, the first side
    decides: with a power, a fraction or a quotient the equation stays whole ("x^2 + y = 1", "y/x = 2"); otherwise it is
    a step of the computation, whose last side is the result (5 for "a + b = 5").
    """
    core = _NAME.sub("", core)
    if "," in core or re.search(r"[<>≤≥≠]|\\(?:leq?|geq?|neq?|lt|gt)(?![a-z])", core):
        return core
    if "≡" in core or "\\equiv" in core:
        core = re.sub(r"\(?\\?p?mod(?:\{?\d+\}?)\)?\Z", "", core)  # \pmod{7}
    *sides, last = re.split(r"=|≡|\\equiv(?![a-z])", core)
    is_equation = len(sides) == 1 and evaluate(sides[0]) is None
    if is_equation and (is_marked or re.search(r"[a-zA-Z]\^|\\frac|/", sides[0])):
        return core
    return last


def _is_equation(core: str) -> bool:
    """Does the formula have an equals sign, other than in an index?"""
    without_indices = re.sub(r"_\{[^{}]*\}", "", core)  # the sign in \\sum_{k=1} does not count
    return "=" in without_indices


def _measure(core: str, unit: str) -> Number | None:
    """Return the value of a formula in base units; None if it is not a number."""
    value = evaluate(core)
    if value is None:
        return None
    if unit == "%":
        return Number(value / 100, percent=True)
    factor, _ = measure_unit(unit) or (1.0, "")
    return Number(value * factor, unit)


# ---- equality by computer algebra, in a worker process ---------------------------------------------------------------


def equal(truth: str, result: str) -> tuple[bool | None, str]:
    """Return whether the two formulas are equal (None: the truth is no mathematics), and the reason.

    math-verify's own time limits are off: the caller's worker has one.
    """
    from math_verify import verify

    logging.disable(logging.CRITICAL)  # it warns that its own time limits are off
    gold = _parse(truth)
    if not gold:
        return None, f"the truth {truth[:80]!r} is not mathematics"
    parsed = _parse(result)
    if not parsed:
        return False, "no mathematical result found in the answer"
    is_same = bool(verify(gold, parsed, timeout_seconds=None))
    return is_same, f"result {str(parsed[-1])[:80]!r}"


def _parse(formula: str) -> list[Any]:
    """Return what math-verify reads in the whole formula; [] if it cannot read it as a whole.

    By default, math-verify takes any number out of what it cannot parse.
    """
    from math_verify import LatexExtractionConfig, parse

    return list(
        parse(
            f"${' '.join(formula.split())}$",
            extraction_config=[LatexExtractionConfig(boxed_match_priority=-1)],
            fallback_mode="no_fallback",
            extraction_mode="first_match",
            parsing_timeout=None,
        )
    )
