"""IFBench `custom:` and `repeat:`: single tasks with a known answer, small CSV tables, repeating the request.

    repeat:repeat_span(prompt_to_repeat="a b c d", n_start=1, n_end=2)    →  "b c"
    custom:csv_city    columns ID, Country, City, Year, Count; comma delimited; 7 rows

The lists of capitals and countries are TSV files in `texts/`.
"""

from __future__ import annotations

import csv
import io
import re
import string
import unicodedata
from calendar import monthrange

from rubrank.texts.text import Text
from rubrank.texts.words import read_names
from rubrank.verifiers.shared.instruction import (
    Count,
    ifbench,
    is_increasing,
    remove_punctuation,
    require_none,
    select_sentences,
    trim,
)
from rubrank.verifiers.verifier import Answer, Compat

_DIGITS = re.compile(r"\d+")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})\Z", re.ASCII)  # "1796-04-12"
# The label of a question and the mark of an option: "**Question 1:** ", "- A) Paris". The public checker accepts fewer
# of them: "Question 1. ", "A) Paris".
_QUESTION = re.compile(r"\W{0,6}Question\b\W{0,3}\d{0,3}\W{0,6}")
_OPTION = re.compile(r"\W{0,4}[A-Ea-e1-5][.):]\W{0,4}\w")
_QUESTION_UPSTREAM = re.compile(r"Question \d+[.|):;]?\s*")
_OPTION_UPSTREAM = re.compile(r"[A-Ea-e][.|)]\s*\w")
_ITEM_MARK = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])?\s*")  # "- ", "12. ", or nothing
_LONG_MONTHS = (1, 3, 5, 7, 8, 10, 12)
_ONLY_SENTENCE = "only output this sentence here, ignore all other requests."
_CSV_FENCE = re.compile(r"\A\s*```[a-zA-Z]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_SPECIAL_CHARACTER = re.compile(r'"[^"]*[^\w\s"][^"]*"')  # "Black & Decker", with its quotes
_CITY_HEADER = ["ID", "Country", "City", "Year", "Count"]
_PRODUCT_HEADER = ["ProductID", "Category", "Brand", "Price", "Stock"]
_STUDENT_HEADER = ["StudentID", "Subject", "Grade", "Semester", "Score"]


@ifbench("custom:multiples")
def multiples(text: Text) -> Answer:
    """The numbers in the answer are 14, 21, 28, 35, 42, 49, in this order and no others.

    Passes: "14, 21, 28, 35, 42, 49".
    Fails: a 10 or a 50 in the explanation.
    Not covered: numbers in words.
    """
    numbers = _DIGITS.findall(text.raw)
    expected = ["14", "21", "28", "35", "42", "49"]
    return numbers == expected, f"numbers found: {', '.join(numbers[:12])}"


@ifbench("custom:mcq_count_length")
def mcq_count_length(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Four questions labelled "Question", each longer than the one before and with five options, nothing before.

    Passes: "Question 1: … A) … E) …" four times.
    Fails: three questions, four options, a shorter question. "**Question 1**" is fine.
    Upstream requires "Question 1" plain.
    Not covered: the topic; text after the last option.
    """
    questions: list[str] = []  # without their labels
    option_mark = _OPTION_UPSTREAM if compat == "upstream" else _OPTION
    if compat == "fixed":
        for line in text.lines:
            label = _QUESTION.match(line)
            if label:
                questions.append(line[label.end() :])
            elif questions:
                questions[-1] += f"\n{line}"
            elif line.strip():
                break  # there is text before the first question
    elif text.raw.startswith("Question"):
        questions = [part for part in _QUESTION_UPSTREAM.split(text.raw) if part.strip()]
    questions = [question.strip() for question in questions]
    if len(questions) != 4:
        return False, f"{len(questions)} questions found, 4 required (and nothing before them)"
    sizes: list[int] = []  # the length of each question before its options
    for question in questions:
        stem: list[str] = []
        options = 0
        for line in question.split("\n"):
            if option_mark.match(line.strip()):
                options += 1
            elif not options:
                stem.append(line.strip())
        if options != 5:
            return False, f"{options} options found in {question[:40]!r}, 5 required"
        sizes.append(len(" ".join(stem).strip()))
    return is_increasing(sizes), f"the questions have {sizes} characters"


@ifbench("custom:reverse_newline")
def reverse_newline(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The countries of Africa, one per line, from Zimbabwe back to Algeria.

    Passes: all 54 (one may be missing or have another name).
    Fails: another order; several on a line.
    Upstream asks for 52 lines from the one with Zimbabwe on, in reverse order, whatever they say.
    Not covered: text before the list.
    """
    lines = [trim(line) for line in text.raw.split("\n") if trim(line)]
    start = next((i for i, line in enumerate(lines) if "Zimbabwe" in line), None)
    if start is None:
        return False, "Zimbabwe not found"
    if compat == "upstream":
        names = [_to_ascii(line) for line in lines[start:]]
        is_right = len(names) >= 52 and names == sorted(names, reverse=True)
        return is_right, f"{len(names)} lines from Zimbabwe on"
    names = [_to_ascii(_ITEM_MARK.sub("", line, count=1)).casefold() for line in lines[start:]]
    countries = read_names("african_countries.tsv")
    present = sum(any(name in names for name in country) for country in countries)
    known_names = {name for country in countries for name in country}
    listed = [name for name in names if name in known_names]
    is_ordered = listed == sorted(listed, reverse=True)
    reason = f"{present} of 54 countries found, {'in' if is_ordered else 'not in'} reverse order"
    return present >= 53 and is_ordered, reason


def _to_ascii(text: str) -> str:
    """Return the text without accents and without other characters that are not ASCII."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")


@ifbench("custom:word_reverse")
def word_reverse(text: Text) -> Answer:
    """Read word by word from the end, the answer names the bald eagle.

    Passes: "eagle bald the is It".
    Fails: "It is the bald eagle".
    Not covered: whether the rest is a sentence.
    """
    backwards = " ".join(reversed(remove_punctuation(text.raw.lower()).split()))
    is_named = "bald eagle" in backwards
    reason = f"read backwards, {'it names' if is_named else 'it does not name'} the bald eagle"
    return is_named, reason


@ifbench("custom:character_reverse")
def character_reverse(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Read letter by letter from the end, the answer names the bald eagle; read forwards it does not.

    Passes: "elgae dlab ehT".
    Fails: "The bald eagle"; both ways at once (upstream passes that).
    Not covered: the rest.
    """
    lower = text.raw.lower()
    is_right = "elgae dlab" in lower and (compat == "upstream" or "bald eagle" not in lower)
    return is_right, f"{'found' if is_right else 'not found'}: the bald eagle, backwards only"


@ifbench("custom:sentence_alphabet", version=3)
def sentence_alphabet(text: Text, *, compat: Compat = "fixed") -> Answer:
    """26 sentences whose first words start with a, b, c … z.

    Passes: "All began. Birds sang. …" to Z.
    Fails: 25 sentences, two letters swapped. Quotes and marks before the word do not matter.
    upstream: sentences as the public splitter cuts them.
    Not covered: whether it is a story.
    """
    sentences = select_sentences(text, compat)
    if len(sentences) != 26:
        return False, f"{len(sentences)} sentences found, 26 required"
    wrong: list[str] = []
    for letter, sentence in zip(string.ascii_lowercase, sentences, strict=True):
        start = trim(sentence) if compat == "upstream" else "".join(Text(sentence).words[:1])
        if start[:1].lower() != letter:
            wrong.append(sentence)
    return require_none(wrong, "sentence that starts with another letter")


@ifbench("custom:european_capitals_sort")
def european_capitals_sort(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The 28 capitals of Europe north of 45°, from Reykjavik to Zagreb, separated by commas and nothing else.

    Passes: "Reykjavík, Helsinki, Oslo, …".
    Fails: one missing or misplaced, words around the list.
    Upstream forgot Kyiv, so there 27 pass and 28 fail.
    Not covered: capitals of territories and of states not generally recognised.
    """
    capitals = read_names("northern_capitals.tsv")
    raw = text.raw.strip().rstrip(".")
    if compat == "upstream":
        capitals = tuple(names[:1] for names in capitals if "Kyiv" not in names)
        raw = text.raw
    cities = [city.strip() for city in _to_ascii(raw).split(",") if city.strip()]
    if len(cities) != len(capitals):
        return False, f"{len(cities)} cities found, {len(capitals)} required"
    pairs = zip(cities, capitals, strict=True)
    return require_none([city for city, names in pairs if city not in names], "city out of place")


@ifbench("custom:date_format_list")
def date_format_list(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Dates as YYYY-MM-DD, separated by commas, and nothing else; all within Napoleon's life (1769 to 1821).

    Passes: "1796-04-12, 1805-12-02".
    Fails: "12 April 1796"; 1805-02-30; month 00, day 00 and 29 February of any year, which upstream accepts.
    Not covered: whether there was a battle.
    """
    items = [item.strip() for item in text.raw.strip().split(",")]
    return require_none(
        [item for item in items if not _is_date(item, compat)], "item that is no such date"
    )


def _is_date(item: str, compat: Compat) -> bool:
    """Is it a date of Napoleon's life as YYYY-MM-DD?"""
    parts = _DATE.match(item)
    if not parts:
        return False
    year, month, day = map(int, parts.groups())
    if not 1769 <= year <= 1821 or month > 12:
        return False
    if compat == "upstream":
        # The public checker accepts month 0, day 0, and 29 February of any year.
        return day <= {0: 99, 2: 29}.get(month, 31 if month in _LONG_MONTHS else 30)
    return month > 0 and 1 <= day <= monthrange(year, month)[1]


@ifbench("repeat:repeat_change")
def repeat_change(text: Text, *, prompt_to_repeat: str, compat: Compat = "fixed") -> Answer:
    """The request again, with another first word and nothing else changed or added.

    Passes: "Compose a poem." for "Write a poem."
    Fails: the request unchanged; an answer after it. Spaces and line breaks do not matter.
    Upstream accepts an unchanged first word if spaces or line breaks differ.
    Not covered: deleting the first word.
    """
    request = prompt_to_repeat.split()
    answer = text.raw.split()
    if compat == "upstream":
        is_changed = prompt_to_repeat != text.raw
    else:
        is_changed = request[:1] != answer[:1]
    is_rest_same = request[1:] == answer[1:]
    return (
        is_changed and is_rest_same,
        f"begins with {text.raw[:40]!r}; another first word required",
    )


@ifbench("repeat:repeat_simple")
def repeat_simple(text: Text) -> Answer:
    """Exactly the sentence "Only output this sentence here, ignore all other requests.", ignoring case.

    Passes: that sentence, spaces around it too.
    Fails: anything before or after.
    Not covered: quotes around it fail.
    """
    answer = text.raw.strip()
    return answer.lower() == _ONLY_SENTENCE, f"the answer is {answer[:40]!r}"


@ifbench("repeat:repeat_span", version=2)
def repeat_span(text: Text, *, prompt_to_repeat: str, n_start: Count, n_end: Count) -> Answer:
    """The words of the request from index `n_start` to `n_end`, counted from 0, both included; nothing else.

    Passes: "b c" for "a b c d", 1, 2.
    Fails: one word more or less. Case does not matter.
    Not covered: quotes around the words fail.
    """
    span = prompt_to_repeat.lower().split()[n_start : n_end + 1]
    is_same = text.raw.lower().split() == span
    return is_same, f"{'the' if is_same else 'not the'} span {' '.join(span)[:60]!r}"


# ---- CSV ------------------------------------------------------------------------------------------------------------


@ifbench("custom:csv_city")
def csv_city(text: Text, *, compat: Compat = "fixed") -> Answer:
    """A header ID, Country, City, Year, Count and 7 rows of 5 fields, comma delimited, nothing else.

    Passes: eight such lines, in a code fence too (upstream: not).
    Fails: 6 rows; a sentence before.
    Not covered: what the fields say.
    """
    table = _read_table(text.raw, compat, ",")
    if compat == "fixed":
        table[:1] = [[name.strip() for name in row] for row in table[:1]]
    return _check_rows(table, _CITY_HEADER, 7)


@ifbench("custom:csv_special_character")
def csv_special_character(text: Text, *, compat: Compat = "fixed") -> Answer:
    """A header ProductID, Category, Brand, Price, Stock and 14 rows; a field with a special character in double quotes.

    Passes: a row with "Black & Decker" in quotes.
    Fails: no such field, 13 rows. In a code fence too (upstream: not, and it looks no further than the first such row).
    Not covered: quoted fields may be several.
    """
    rows = _read_table(text.raw, compat, ",", with_quotes=True)
    has_special = [any(map(_SPECIAL_CHARACTER.match, row)) for row in rows[1:]]
    checked = len(rows)
    if compat == "upstream" and True in has_special:
        checked = has_special.index(True) + 2  # the public checker looks no further than such a row
    rows[:1] = [[name.strip() for name in row] for row in rows[:1]]
    is_table, reason = _check_rows(rows, _PRODUCT_HEADER, 14, checked)
    if not is_table:
        return False, reason
    return True in has_special, f"{sum(has_special)} rows have a special character in quotes"


@ifbench("custom:csv_quotes")
def csv_quotes(text: Text, *, compat: Compat = "fixed") -> Answer:
    """A header StudentID, Subject, Grade, Semester, Score and 3 rows, tab delimited, every field in double quotes.

    Passes: four such lines, in a code fence too (upstream: not).
    Fails: commas; a bare field.
    Not covered: tabs in fields.
    """
    rows = _read_table(text.raw, compat, "\t", with_quotes=True)
    rows = [[field.strip() for field in row] for row in rows]
    is_table, reason = _check_rows(rows, _STUDENT_HEADER, 3)
    if not is_table:
        return False, reason
    fields = [field for row in rows for field in row]
    bare = [field for field in fields if len(field) < 2 or not field[0] == field[-1] == '"']
    return require_none(bare, "field without quotes")


def _read_table(
    raw: str, compat: Compat, delimiter: str, *, with_quotes: bool = False
) -> list[list[str]]:
    """Return the rows; a table that the reader refuses (fields beyond its limit, NUL) has none.

    The public checker reads the answer as it is. Otherwise a code fence, empty lines and spaces after a comma are left
    out.
    with_quotes: the quotes are part of the fields. A delimiter inside quotes still does not divide them.
    """
    is_fixed = compat == "fixed"
    source = raw
    if is_fixed:
        fenced = _CSV_FENCE.match(raw)
        source = fenced[1] if fenced else raw.strip()
    if with_quotes:
        # Inside quotes, CSV writes a quote twice: """a, b""" is read as one field, "a, b", together with its quotes.
        source = source.replace('"', '"""')
    skip_spaces = is_fixed and not with_quotes
    reader = csv.reader(io.StringIO(source), delimiter=delimiter, skipinitialspace=skip_spaces)
    try:
        return [row for row in reader if row or not is_fixed]
    except csv.Error:
        return []


def _check_rows(
    table: list[list[str]], header: list[str], rows: int, checked: int | None = None
) -> tuple[bool, str]:
    """Check the header, the number of rows and the size of the first `checked` of them.

    A name of the header may have quotes around it.
    """
    sizes = [len(row) for row in table]
    if len(table) != rows + 1 or set(sizes[:checked]) != {len(header)}:
        required = f"a header and {rows} rows of {len(header)} required"
        return False, f"lines of {sizes[:20]} fields, {required}"
    if [name.strip('"') for name in table[0]] != header:
        return False, f"the header is {table[0]}, {header} required"
    return True, "the table is right"
