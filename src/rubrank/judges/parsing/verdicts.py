"""Reply → verdict: a reply is one object of the schema, or ends in a verdict that nothing contradicts; else missing.

    {"reasoning": "…", "finding": "meets", "verdict": 1}       1.0
    ```json {"reasoning": "…", "verdict": 0.5,} ```            0.5
    The tone is right.\n**Verdict:** 1                         1.0
    The tone is right: {"verdict": 1}, I think.                missing: no verdict at the end of the reply
    Verdict: 1 — no, wait, zero                                missing: no verdict in the line
    {"verdict": 1, "Verdict": 0}                               missing: two different verdicts
    {"reasoning": "…", "finding": "fails", "verdict": 1}       missing: the verdict contradicts its reasoning
    {"reasoning": "…", "verdict": 7}                           missing: 7 is not one of 0, 1 (0.7 for a range)
    1                                                          missing: it may answer the query instead of judging

A reply is read in four steps, each of which raises NoVerdict with a reason if it fails:

    find_statements     the reply → its statements: objects, and lines such as "Verdict: 1" (`statements.py`)
    _read_statement     a statement → an entry: verdict, finding, reasoning, items
    _score_entry        an entry → a value: the number is on the scale and agrees with the finding
    _unite              the values of all statements → one value, if they agree

Reasons contain the judge's own words. Given the `call` that was answered, a verdict that is copied from the text under
judgment is recognised, even without quotation marks.

If the judge lists items with a verdict for each, code computes the value instead of the judge estimating it:

    CoreFactAccuracy       [right, right, missing]                     0.5: most are right, the first among them
    SummaryRecall          [stated, in part, absent]                   0.5: the mean
    MaterialFaithfulness   [supported, contradicted]                   0: one is enough

That value is missing if the list is empty, a verdict is unknown, an item has no text, or there are not as many items as
in the reference. A parser cannot tell whether the judge looked at the right items.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from rubrank._plain import shorten
from rubrank.errors import only_our_errors
from rubrank.judges.judge import Call, Reply
from rubrank.judges.parsing.logprobs import read_distribution
from rubrank.judges.parsing.statements import (
    NoVerdict,
    Statements,
    find_statements,
    is_refusal,
    shorten_reason,
)
from rubrank.judges.prompting.prompt_files import LANGUAGES, load_criterion_prompt
from rubrank.judges.prompting.reply_form import (
    fold_word,
    make_batch_keys,
    map_findings_to_numbers,
    map_pairwise_findings_to_numbers,
    spell_number,
)
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.distribution import mean_of
from rubrank.verifiers.verifier import REFUSED, Domain, Verdict, missing

NumbersOfFindings: TypeAlias = Mapping[str, tuple[float, ...]]
"""Every word for a finding → the numbers that agree with it."""

_S = TypeVar("_S")
_V = TypeVar("_V")

# ---------------------------------------------------------------------------------------------------------- the kinds


@only_our_errors
def read_absolute(reply: Reply, criterion: Criterion, *, call: Call | None = None) -> Verdict:
    """Return the verdict of a reply about one criterion: a value of its domain, or missing."""
    items_schema = _find_items_schema(call)
    field = "verdict" if items_schema is None else "items"
    findings = map_findings_to_numbers(criterion)
    try:
        statements = find_statements(reply, lambda value: _has_field(value, field), call)

        def read(value: dict[str, Any] | str) -> tuple[float, str]:
            entry = _read_statement(value, _NUMBER, findings, statements)
            return _score_entry(entry, criterion, findings, items_schema)

        return Verdict(*_unite(statements.values, read, statements.text))
    except NoVerdict as problem:
        return problem.as_verdict()


def read_expected(reply: Reply, criterion: Criterion, *, call: Call | None = None) -> Verdict:
    """Return the mean of the domain's values, weighted by their probabilities as verdicts; or missing."""
    verdict = read_absolute(reply, criterion, call=call)
    if verdict.value is None:
        return verdict
    if not reply.logprobs:
        return missing("there are no log-probabilities")
    distribution, explanation = read_distribution(reply.logprobs, criterion.scale, verdict.value)
    if not distribution:
        return missing(explanation)
    # Rounding must not take the mean out of the domain.
    mean = min(max(mean_of(distribution), distribution[0][0]), distribution[-1][0])
    reason = shorten_reason(f"expected from {explanation}: {verdict.reason}")
    return Verdict(mean, reason, distribution)


def add_probabilities(
    verdict: Verdict, reply: Reply, criterion: Criterion, key: str | None = None
) -> Verdict:
    """Return the verdict with the probabilities of all values; unchanged if the reply does not show them.

    key: the criterion's field, in a reply about several criteria.
    """
    if verdict.value is None or not reply.logprobs:
        return verdict
    distribution, _ = read_distribution(reply.logprobs, criterion.scale, verdict.value, key)
    return replace(verdict, probabilities=distribution)


def read_batched(
    reply: Reply, criteria: Sequence[Criterion], *, call: Call | None = None
) -> dict[str, Verdict]:
    """Return a verdict, or a missing one, for every criterion by its name."""
    names = _map_names_to_criteria(criteria)

    def accept(value: Mapping[str, Any]) -> bool:
        if any(_find_criterion(field, names) is not None for field in _unwrap_batch(value)):
            return True
        return len(criteria) == 1 and _is_entry(value)

    try:
        statements = find_statements(reply, accept, call)
        objects = [_unwrap_batch(value) for value in _require_objects(statements)]
    except NoVerdict as problem:
        return {criterion.name: problem.as_verdict() for criterion in criteria}
    verdicts = {}
    for i, key in enumerate(make_batch_keys(criteria)):
        criterion = criteria[i]
        try:
            contents = _find_contents(objects, i, names, statements.text)
            if not contents and len(criteria) == 1:  # the verdict may come without the name
                contents = [value for value in objects if _is_entry(value)]
            if not contents:
                raise NoVerdict(f"no verdict about it in the reply: {statements.text}")
            items_schema = _find_items_schema(call, key)
            verdicts[criterion.name] = _read_contents(
                contents, criterion, items_schema, statements.text
            )
        except NoVerdict as problem:  # the other criteria may have a verdict
            verdicts[criterion.name] = problem.as_verdict()
    return verdicts


def read_pairwise(reply: Reply, *, call: Call | None = None) -> Verdict:
    """Return the verdict of a comparison: 1 = A is better, 0.5 = neither, 0 = B is better, or missing."""
    findings = map_pairwise_findings_to_numbers()
    try:
        statements = find_statements(reply, lambda value: _has_field(value, "verdict"), call)

        def read(value: dict[str, Any] | str) -> tuple[float, str]:
            entry = _read_statement(value, _CHOICE, findings, statements)
            _refuse_null(entry.verdict, entry)
            match = _CHOICE.fullmatch(str(entry.verdict).strip())
            if match is None:
                problem = f"verdict {shorten(str(entry.verdict), 60)} is not one of A, B, tie"
                raise NoVerdict(f"{problem}: {entry.reasoning}")
            score = _CHOICES[match[1].lower()]
            _check_finding(entry, score, findings)
            return score, shorten_reason(entry.reasoning) or _NO_REASON

        return Verdict(*_unite(statements.values, read, statements.text))
    except NoVerdict as problem:
        return problem.as_verdict()


def read_listwise(
    reply: Reply, n: int, *, call: Call | None = None
) -> tuple[tuple[int, ...] | None, str]:
    """Return dense ranks of the n responses as shown (1 = best), and the reason; ranks None: missing."""
    try:
        return parse_ranks(reply, n, call)
    except NoVerdict as problem:
        return None, problem.reason


def parse_ranks(reply: Reply, n: int, call: Call | None) -> tuple[tuple[int, ...], str]:
    """Return dense ranks of the n responses, and the reason; raises NoVerdict if they are missing."""
    statements = find_statements(reply, lambda value: _has_field(value, "verdict"), call)
    objects = _require_objects(statements)
    return _unite(objects, lambda value: _read_ranks(_read_object(value), n), statements.text)


def _unite(
    statements: Iterable[_S], read: Callable[[_S], tuple[_V, str]], text: str
) -> tuple[_V, str]:
    """Return the value that all statements agree on, with the last reason; raises NoVerdict if they do not agree.

    read: returns value and reason of a statement, or raises NoVerdict. text: the reply.
    """
    answers: list[tuple[_V, str]] = []
    problem: NoVerdict | None = None
    for statement in statements:
        try:
            answers.append(read(statement))
        except NoVerdict as error:
            problem = error
    if problem is not None and not answers:
        raise problem
    if problem is not None or len({value for value, _ in answers}) > 1:
        raise NoVerdict(f"two different verdicts: {text}")
    return answers[-1]


# ------------------------------------------------------------------------------------------------ statement → entry

# The names that judges give to the fields of a reply → the name in the schema.
_FIELD_NAMES = {
    **dict.fromkeys(("verdict", "结论", "判定", "ranks", "ranking"), "verdict"),
    **dict.fromkeys(
        ("reasoning", "reason", "explanation", "rationale", "justification", "analysis"),
        "reasoning",
    ),
    **dict.fromkeys(("推理", "理由", "分析", "解释"), "reasoning"),
    **dict.fromkeys(("finding", "判断"), "finding"),
    "items": "items",
    "criterion": "criterion",
}
# What may follow the verdict in its line: Markdown, a full stop, and the finding in brackets: "** (meets)."
_REST_OF_LINE = re.compile(
    r"[\s*_`.。!！]*(?:[(（](?P<finding>[^()（）\n]{1,80})[)）])?[\s*_`.。!！]*"
)


@dataclass(frozen=True)
class _Entry:
    """One statement about one criterion, not yet checked."""

    verdict: Any = None
    finding: Any = None
    reasoning: str = ""
    has_items: bool = False
    items: Any = None
    """A list, or null for "cannot tell"."""


def _find_field_name(name: str) -> str | None:
    return _FIELD_NAMES.get(name.strip().casefold())


def _has_field(value: Mapping[str, Any], field: str) -> bool:
    return any(_find_field_name(name) == field for name in value)


def _is_entry(value: Mapping[str, Any]) -> bool:
    return _has_field(value, "verdict") or _has_field(value, "items")


def _require_objects(statements: Statements) -> list[dict[str, Any]]:
    """Return the statements, all of which must be objects."""
    objects = [value for value in statements.values if isinstance(value, dict)]
    if len(objects) < len(statements.values):
        raise NoVerdict(f"no JSON in the reply: {statements.text}")
    return objects


def _read_object(value: Mapping[str, Any]) -> _Entry:
    """Read an object of the schema. Unknown fields are a problem: they may withdraw the verdict."""
    fields: dict[str, Any] = {}
    for name, content in value.items():
        field = _find_field_name(name)
        if field is None:
            raise NoVerdict(
                f"not the form that was asked for: a field {shorten(name, 40)!r}: {value}"
            )
        if field in fields:
            problem = f"the field {name} is given twice"
            if field == "verdict":
                problem = "two different verdicts"
            raise NoVerdict(f"{problem}: {value}")
        fields[field] = content
    reasoning = fields.get("reasoning")
    if reasoning is None:  # left out, or null
        reasoning = ""
    if not isinstance(reasoning, str):
        raise NoVerdict(f"not the form that was asked for: its reasoning is not a text: {value}")
    if is_refusal(reasoning):
        raise NoVerdict(f"{REFUSED}: {reasoning}", declined=True)
    return _Entry(
        verdict=fields.get("verdict"),
        finding=fields.get("finding"),
        reasoning=reasoning,
        has_items="items" in fields,
        items=fields.get("items"),
    )


def _read_statement(
    value: dict[str, Any] | str,
    pattern: re.Pattern[str],
    findings: NumbersOfFindings,
    statements: Statements,
) -> _Entry:
    """Read an object, or a line such as "1" or "A (better)" with this pattern.

    More text in the line is a problem: it may withdraw the verdict.
    """
    if isinstance(value, dict):
        return _read_object(value)
    line = value.strip()
    verdict = pattern.match(line)
    rest = None if verdict is None else _REST_OF_LINE.fullmatch(line, verdict.end())
    if verdict is not None and rest is not None:
        finding = rest["finding"]
        if not finding:
            return _Entry(verdict[0], statements.finding, statements.text.strip())
        if fold_word(finding) in findings:
            return _Entry(verdict[0], finding, statements.text.strip())
    raise NoVerdict(f"no verdict in the line “{shorten(line, 60)}”: {statements.text}")


# ---------------------------------------------------------------------------------------------------- entry → verdict

# "1", "-0.5", ".5"; the lengths are limited so that a number of a million digits takes no time.
_NUMBER = re.compile(r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})")
# The verdict of a comparison: "A", "Response B", "tie", "回复A".
_CHOICE = re.compile(
    r"(?:response|answer|回复|回答)?[ \t]*(a|b|tie|equal|平局|平手)(?![a-z])", re.IGNORECASE
)
_CHOICES = {"a": 1.0, "b": 0.0, "tie": 0.5, "equal": 0.5, "平局": 0.5, "平手": 0.5}
_NO_REASON = "the judge gave no reason"
_MAX_REASON = 400  # characters
_MAX_REASON_PER_RESPONSE = 250  # characters for each response of a list, if that gives more


def _score_entry(
    entry: _Entry,
    criterion: Criterion,
    findings: NumbersOfFindings,
    items_schema: Mapping[str, Any] | None,
) -> tuple[float, str]:
    """Return value and reason of an entry: computed from its items, or its verdict on the criterion's scale.

    items_schema: of the list of items that the judge was asked for; None: it was asked for a verdict.
    """
    if items_schema is not None or entry.has_items:
        if not entry.has_items:
            raise NoVerdict("not the form that was asked for: no list of items")
        count = None if items_schema is None else items_schema.get("minItems")
        return _score_items(entry, criterion, count)
    _refuse_null(entry.verdict, entry)
    scale = criterion.scale
    written = _parse_number(entry.verdict, criterion.value_domain)
    number = None if written is None else scale.match_number(written)
    value = None if number is None else scale.find_score(number)
    if number is None or value is None:
        allowed = f"one of {', '.join(map(spell_number, scale.numbers))}"
        if scale.is_range:
            allowed = "a whole number from 0 to 10"
        problem = f"verdict {shorten(str(entry.verdict), 60)} is not {allowed}"
        raise NoVerdict(f"{problem}: {entry.reasoning}")
    _check_finding(entry, number, findings)
    return value, shorten_reason(entry.reasoning) or _NO_REASON


def _parse_number(verdict: Any, domain: Domain) -> float | None:
    """Return the number that a judge wrote as a number, a text or, in a binary domain, a truth value; else None."""
    if isinstance(verdict, bool):
        return float(verdict) if domain.kind == "binary" else None
    if isinstance(verdict, str):
        match = _NUMBER.fullmatch(verdict.strip())
        return float(match[0]) if match else None
    if not isinstance(verdict, int | float) or abs(verdict) > 1e300 or not math.isfinite(verdict):
        return None
    return float(verdict)


def _read_ranks(entry: _Entry, n: int) -> tuple[tuple[int, ...], str]:
    """Return dense ranks and the reason; raises NoVerdict."""
    _refuse_null(entry.verdict, entry)
    by_number = entry.verdict
    if isinstance(by_number, list):
        by_number = {str(i): rank for i, rank in enumerate(by_number, 1)}
    ranks: list[Any] = []
    if isinstance(by_number, Mapping) and len(by_number) == n:
        ranks = [by_number.get(str(i)) for i in range(1, n + 1)]
    # Not isinstance: True is an int.
    if not ranks or any(
        type(rank) not in (int, float) or rank not in range(1, n + 1) for rank in ranks
    ):
        got = shorten(str(by_number), 120)
        raise NoVerdict(f"not a rank from 1 to {n} for each response: {got}: {entry.reasoning}")
    order = sorted(set(ranks))
    dense_ranks = tuple(order.index(rank) + 1 for rank in ranks)
    best = entry.finding if isinstance(entry.finding, list) else []
    if any(number not in range(1, n + 1) or dense_ranks[int(number) - 1] != 1 for number in best):
        problem = f"verdict contradicts its reasoning: best are {best}, ranks {ranks}"
        raise NoVerdict(f"{problem}: {entry.reasoning}")
    limit = max(_MAX_REASON, n * _MAX_REASON_PER_RESPONSE)
    return dense_ranks, shorten_reason(entry.reasoning, limit) or _NO_REASON


def _refuse_null(answer: Any, entry: _Entry) -> None:
    """Raise NoVerdict for null, the answer of a judge that cannot tell."""
    if answer is None:
        raise NoVerdict(f"the judge cannot tell: {entry.reasoning}", declined=True)


def _check_finding(entry: _Entry, number: float, findings: NumbersOfFindings) -> None:
    """Raise NoVerdict if the finding agrees only with other numbers. One in the judge's own words agrees with all."""
    agreeing_numbers = findings.get(fold_word(entry.finding)) if entry.finding else None
    if agreeing_numbers is not None and number not in agreeing_numbers:
        contradiction = f"found “{shorten(str(entry.finding), 40)}”, said {entry.verdict}"
        raise NoVerdict(f"verdict contradicts its reasoning: {contradiction}: {entry.reasoning}")


# -------------------------------------------------------------------------------------------------------------- items

_MAX_ITEMS = 500
_TOLERABLE_DEFECTS = 2  # under the rule "few", if the criterion has no parameter `most`


def _find_items_schema(call: Call | None, key: str | None = None) -> Mapping[str, Any] | None:
    """Return the schema of the list of items that a call asks for; None if it asks for none.

    key: the field of the criterion, in a batch.
    """
    if call is None or call.schema is None:
        return None
    schema: Any = call.schema
    if key is not None:
        schema = schema["properties"].get(key, {})
    items = schema.get("properties", {}).get("items")
    if items is None:
        return None
    alternatives = items.get("anyOf", [items])  # a list, or null if the judge may decline
    array: Mapping[str, Any] = next((a for a in alternatives if a.get("type") == "array"), {})
    return array


def _score_items(entry: _Entry, criterion: Criterion, count: int | None) -> tuple[float, str]:
    """Return the value that follows from the verdicts on the items, and the reason; raises NoVerdict.

    count: how many items there must be; None: any number.
    """
    form = load_criterion_prompt(criterion, "en").items
    if entry.verdict is not None or form is None:
        raise NoVerdict("not the form that was asked for: a list of items")
    _refuse_null(entry.items, entry)
    verdicts = _read_item_verdicts(entry, criterion)
    if count is not None and len(verdicts) != count:
        problem = f"{len(verdicts)} items are judged, the reference has {count}"
        raise NoVerdict(f"{problem}: {entry.reasoning}")
    domain = criterion.value_domain
    if form.rule == "few":
        tolerable = criterion.params.get("most", _TOLERABLE_DEFECTS)
        if not isinstance(tolerable, int):
            tolerable = _TOLERABLE_DEFECTS
        value = domain.high if len(verdicts) <= tolerable else domain.low
        explanation = f"{len(verdicts)} signs, {tolerable} are tolerable"
    else:
        if not verdicts:
            raise NoVerdict(f"the list of items is empty: {entry.reasoning}")
        share = _compute_share(form.rule, verdicts)
        exact = domain.low + share * (domain.high - domain.low)
        if domain.values:
            value = min(domain.values, key=lambda allowed: abs(allowed - exact))
        else:
            value = round(exact, 10)
        counts = Counter(verdicts)
        explanation = ", ".join(
            f"{counts[name]} {word}" for name, (word, _) in form.words.items() if counts[name]
        )
    return value, shorten_reason(f"{explanation}: {entry.reasoning}".rstrip(": "))


def _read_item_verdicts(entry: _Entry, criterion: Criterion) -> list[str]:
    """Return the verdict on every item, by its name in the prompt file; raises NoVerdict."""
    names_by_word: dict[str, str] = {}
    for language in LANGUAGES:
        form = load_criterion_prompt(criterion, language).items
        assert form is not None  # `_score_items` has refused criteria without items
        for name, (word, _) in form.words.items():
            names_by_word[fold_word(word)] = name
            # The name itself is understood, too, unless it is the word for another verdict.
            names_by_word.setdefault(fold_word(name), name)

    def refuse(problem: str) -> NoVerdict:
        return NoVerdict(f"{problem}: {entry.reasoning}")

    if not isinstance(entry.items, list):
        raise refuse("no list of items in the reply")
    if len(entry.items) > _MAX_ITEMS:
        raise refuse(f"a list of {len(entry.items)} items")
    verdicts = []
    for number, item in enumerate(entry.items, 1):
        if not isinstance(item, Mapping) or set(item) != {"item", "verdict"}:
            raise refuse(f"item {number} is not an object with item and verdict: {str(item)[:60]}")
        if not isinstance(item["item"], str) or not item["item"].strip():
            raise refuse(f"item {number} has no text")
        word = item["verdict"]
        if not isinstance(word, str) or fold_word(word) not in names_by_word:
            raise refuse(f"verdict {str(word)[:40]!r} of item {number} is not one of the words")
        verdicts.append(names_by_word[fold_word(word)])
    return verdicts


def _compute_share(rule: str, verdicts: Sequence[str]) -> float:
    """Return the share of the domain that verdicts on items give under a rule of a prompt file (`Items.rule`)."""
    n = len(verdicts)
    if rule == "facts":
        if set(verdicts) == {"right"}:
            return 1.0
        # Half, if none is wrong, the main one is there, and they get half of the credit.
        credit = verdicts.count("right") + 0.5 * verdicts.count("imprecise")
        if "wrong" in verdicts or verdicts[0] == "missing" or credit < 0.5 * n:
            return 0.0
        return 0.5
    if rule == "mean":
        return (verdicts.count("stated") + 0.5 * verdicts.count("part")) / n
    if rule == "none bad":
        return 0.0 if {"unsupported", "contradicted"} & set(verdicts) else 1.0
    share_of_yes = verdicts.count("yes") / n
    if rule == "share":
        return share_of_yes
    if rule == "composed":  # the mean of "all are yes" and the share
        return (float(share_of_yes == 1.0) + share_of_yes) / 2
    raise ValueError(f"there is no rule {rule!r} for items")


# ------------------------------------------------------------------------------------------------------------- batches


def _unwrap_batch(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entries of a batch by criterion. Some judges wrap them in one outer field."""
    inner = next(iter(value.values())) if len(value) == 1 else value
    if isinstance(inner, Mapping) and not _is_entry(inner):
        return inner
    return value


def _map_names_to_criteria(criteria: Sequence[Criterion]) -> dict[str, int | None]:
    """Return the index of the criterion by its key in a batch, by its name, and by both without spaces and case.

    None: several criteria have the same name without spaces and case.
    """
    names = [
        *enumerate(make_batch_keys(criteria)),
        *enumerate(criterion.name for criterion in criteria),
    ]
    folded: dict[str, int | None] = {}
    for i, name in names:
        if folded.setdefault(_fold_name(name), i) != i:
            folded[_fold_name(name)] = None
    # Reversed, so that a key wins over the name of another criterion.
    exact = {name: i for i, name in reversed(names)}
    return {**folded, **exact}


def _find_criterion(field: str, names: Mapping[str, int | None]) -> int | None:
    """Return the index of the criterion that a field is about; None: no criterion, or an ambiguous name."""
    return names[field] if field in names else names.get(_fold_name(field))


def _find_contents(
    objects: Sequence[Mapping[str, Any]], i: int, names: Mapping[str, int | None], text: str
) -> list[Any]:
    """Return the contents of the fields about criterion i. text: the reply, for errors."""
    names_of_criterion = tuple(_fold_name(name) for name, number in names.items() if number == i)
    contents: list[Any] = []
    for value in objects:
        for field, content in value.items():
            criterion = _find_criterion(field, names)
            if criterion == i and content is not None:
                contents.append(content)
            elif criterion is None and _fold_name(field).startswith(names_of_criterion):
                # "Tone (final)" beside "Tone".
                raise NoVerdict(f"two different verdicts: {text}")
    return contents


def _read_contents(
    contents: Sequence[Any],
    criterion: Criterion,
    items_schema: Mapping[str, Any] | None,
    text: str,
) -> Verdict:
    """Return the verdict that the contents of a criterion's fields agree on: objects, or verdicts alone."""
    findings = map_findings_to_numbers(criterion)

    def read(content: Any) -> tuple[float, str]:
        entry = _read_object(content) if isinstance(content, Mapping) else _Entry(content)
        return _score_entry(entry, criterion, findings, items_schema)

    return Verdict(*_unite(contents, read, text))


def _fold_name(name: str) -> str:
    return re.sub(r"[\s_-]+", "", unicodedata.normalize("NFKC", name).casefold())
