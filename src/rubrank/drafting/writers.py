"""Let models ("writers") write judged criteria for a prompt, merge what they wrote, and try to game the result.

    writers = load_writers("writers.yaml")            the same file form as judges: endpoints, limits, prices, cache
    (written,), account = write_items([task], writers, load_templates())
    written.items                                     criteria {question: Does the answer …?, points: 5, …}
    written.breaker                                   a cheap text that fulfils the items badly

    prompt ── writer a ──> items ─┐
           └─ writer b ──> items ─┴─ merge ──> items ──> breaker

    item        a question for a judge, with points: below 0 for what a good answer must not have
    merging     the first writer says which items of different writers mean the same; these become one. Pairs that share
                few words stay apart, whatever the model says.
    breaker     the last writer's attempt to fulfil all items without a good answer; `keep.py` drops items by which it
                would win

Writers are called through the client of the judges: replies are cached and paid once, rate limits are kept, and an
interrupted run continues where it stopped. If a writer's reply cannot be read, the reason is recorded and the items of
the other writers are used.

A prompt may try to give the writers orders. So it is sent as data between fences that depend on its text, and items
that are true of every answer are refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from rubrank.drafting.draft import Author, DraftedItem, WrittenItems, name_question
from rubrank.drafting.lint import find_two_questions
from rubrank.errors import InvalidInput
from rubrank.judges.client.runtime import JudgeClients, open_clients, runtime
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Asker, Call, Judges, load_judges
from rubrank.rubrics.files import read_settings

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress: TypeAlias = Callable[[int, int], None]
"""Called with (done, total)."""
PROMPT_VERSION = "2"
"""Version of the library's templates. It is part of the cache key, so a new version asks again."""
CATEGORIES = ("Essential", "Important", "Optional", "Pitfall")
MOST_ITEMS = 20
"""Items of one reply that are read."""
_MOST_RESPONSES = 4
"""Responses that are shown to a writer."""
_LONGEST_QUESTION = 400
"""Characters of a question; a longer one asks more than one thing."""
_HAN = re.compile(r"[一-鿿]")
# Items that a hostile prompt may dictate: they are true of every answer.
_ALWAYS_TRUE = re.compile(
    r"\b(?:always (?:pass|true|yes)|regardless of|any (?:answer|response) (?:passes|is)|answer yes)\b|无论|总是通过",
    re.IGNORECASE,
)
USUAL_POINTS = 5.0
"""An item with this many points has weight 1, as criteria that are compiled or activated have."""
_LEAST_OVERLAP = 0.2
"""Two items are merged only if at least this share of their words is in both."""
_TEMPLATE_FIELDS = {
    "compile": {"fence", "prompt", "criteria", "compiled", "library"},
    "entail": {"fence", "prompt", "items"},
    "examples": {"fence", "items"},
    "write": {"fence", "prompt", "material"},
    "merge": {"fence", "items"},
    "break": {"fence", "prompt", "items"},
    "violate": {"fence", "response", "items"},
}
"""Name of a template → the fields that its text may have."""


@dataclass(frozen=True)
class WritingTask:
    """A prompt for which items are written."""

    prompt: str
    reference: str | None = None
    responses: Sequence[str] = ()
    """Responses of different strength; the contrast shows what matters."""
    best_first: bool = False
    """Are the responses sorted by strength? If not, the writers are not told which of them are strong."""


def load_writers(source: str | Path | Mapping[str, Any] | Judges) -> Judges:
    """Load the writers from a file in the form of a judges file, or from its data. Writers need not name criteria."""
    if isinstance(source, Judges):
        return source
    data: Any
    if isinstance(source, Mapping):
        data = source
        where = "writers"
        folder = Path()
    else:
        data = read_settings(str(source))
        where = str(source)
        folder = Path(source).parent
    if isinstance(data, Mapping) and "endpoints" in data:  # a single writer
        data = {"judges": [data]}
    entries: Any = data.get("judges") if isinstance(data, Mapping) else None
    is_list = isinstance(entries, list) and len(entries) > 0
    if not is_list or not all(isinstance(entry, Mapping) for entry in entries):
        raise InvalidInput(
            where,
            "judges",
            allowed="a list of writers: name, endpoints",
            got="none",
            remedy="See docs/judges.md.",
        )
    # Only one judge may leave out its criteria, so every writer gets a name in their place.
    writers = [
        {"criteria": [f"items by writer {number}"], **entry} for number, entry in enumerate(entries)
    ]
    return load_judges({**data, "judges": writers}, folder=folder)


def write_items(
    tasks: Sequence[WritingTask],
    writers: Judges,
    templates: Templates,
    progress: Progress | None = None,
) -> tuple[list[WrittenItems], Account]:
    """Let the writers write items for all tasks; returns them with what they cost.

    progress: called when a task is done. Items that cannot be used are listed with the reason, and not kept.
    """

    async def write(task: WritingTask, clients: JudgeClients) -> WrittenItems:
        problems: list[str] = []

        # 1. All writers write items. `sample` keeps two writers of the same model from sharing a cached reply.
        items: list[DraftedItem] = []
        values = {"prompt": task.prompt, "material": describe_material(task)}
        message = templates.fill("write", task.prompt, values)
        replies = await asyncio.gather(
            *(
                ask_json(clients.asker_of(writer), message, "write", sample=number)
                for number, writer in enumerate(writers.judges)
            )
        )
        for writer, (data, problem) in zip(writers.judges, replies, strict=True):
            if problem:
                problems.append(f"{writer.name}: {problem}")
                continue
            author = Author(writer.name, writer.endpoints[0].model, templates.version)
            items_of_writer = _read_items(data, author)
            items += items_of_writer
            if not any(item.kept for item in items_of_writer):
                problems.append(f"{writer.name}: no item could be used")
        refused = [item for item in items if not item.kept]
        items = [item for item in items if item.kept]

        # 2. The first writer merges items that mean the same.
        merger = clients.asker_of(writers.judges[0])
        items = await _merge_items(task, items, merger, templates, problems)
        if not items:
            return WrittenItems(refused, problems)

        # 3. The last writer writes the breaker: a text that fulfils the items without being a good answer.
        values = {"prompt": task.prompt, "items": number_items(items)}
        message = templates.fill("break", task.prompt, values)
        data, problem = await ask_json(clients.asker_of(writers.judges[-1]), message, "break")
        breaker = data.get("text") if not problem else None
        if not isinstance(breaker, str) or not breaker.strip():
            problems.append(f"breaker: {problem or 'no text'}")
            breaker = None
        return WrittenItems([*items, *refused], problems, breaker)

    return ask_for_each(tasks, write, writers, progress)


def ask_for_each(
    tasks: Sequence[Task],
    ask: Callable[[Task, JudgeClients], Awaitable[Result]],
    writers: Judges,
    progress: Progress | None = None,
) -> tuple[list[Result], Account]:
    """Await ask(task, clients) for all tasks at once. Returns the results in order, and what the calls cost."""
    done = 0

    async def ask_and_count(task: Task, clients: JudgeClients) -> Result:
        nonlocal done
        result = await ask(task, clients)
        done += 1
        if progress is not None:
            progress(done, len(tasks))
        return result

    async def ask_all() -> tuple[list[Result], Account]:
        async with AsyncExitStack() as stack:
            clients = await open_clients(writers, writers.judges, stack, None)
            results = await asyncio.gather(*(ask_and_count(task, clients) for task in tasks))
            return results, clients.account()

    return runtime().run(ask_all())


def describe_material(task: WritingTask) -> str:
    """Return the reference and some responses, as the writers see them."""
    parts = []
    if task.reference is not None:
        parts.append(f"A reference answer, which is right:\n{task.reference}\n")
    shown = task.responses[:_MOST_RESPONSES]
    for number, response in enumerate(shown, start=1):
        if not task.best_first or len(shown) == 1:
            strength = ""
        elif len(shown) == 2:
            strength = " (the better one)" if number == 1 else " (the weaker one)"
        else:
            strength = " (one of the two best)" if number <= 2 else " (weaker)"
        parts.append(f"Answer {number}{strength}:\n{response}\n")
    return "\n".join(parts)


def number_items(items: Sequence[DraftedItem]) -> str:
    """Return the questions, numbered from 1."""
    return "\n".join(f"{number}. {item.question}" for number, item in enumerate(items, start=1))


# ---- replies -------------------------------------------------------------------------------------------------------


async def ask_json(
    asker: Asker,
    message: str,
    purpose: str,
    sample: int = 0,
    schema: Mapping[str, Any] | None = None,
) -> tuple[Mapping[str, Any], str | None]:
    """Ask for a JSON object; returns it and None, or ({}, reason) if there is none.

    sample: the number of the writer. Two writers may be the same model, and must not share a cached reply.
    """
    call = Call(
        ({"role": "user", "content": message},),
        schema=schema,
        prompt_version=f"draft-{PROMPT_VERSION}",
        purpose=purpose,
        sample=sample,
    )
    reply = await asker.ask(call)
    if reply.text is None or reply.failure:
        return {}, reply.failure or "no reply"
    start = reply.text.find("{")
    end = reply.text.rfind("}")
    try:
        data = json.loads(reply.text[start : end + 1])
    except (ValueError, RecursionError):
        return {}, "the reply is not JSON"
    if not isinstance(data, dict):
        return {}, "the reply is not a JSON object"
    return data, None


def read_list(data: Mapping[str, Any], name: str) -> list[Any]:
    """Return the list of this name in a reply; empty if there is none."""
    value = data.get(name)
    return value if isinstance(value, list) else []


def _read_items(data: Mapping[str, Any], author: Author) -> list[DraftedItem]:
    """Return the items of a reply; those that cannot be used are not kept, with the reason."""
    items: dict[int, DraftedItem] = {}  # by their numbers in the reply

    def refuse(question: str, reason: str) -> DraftedItem:
        criterion = {"name": question[:60], "question": question}
        return DraftedItem(criterion, "written", kept=False, reason=reason, author=author)

    for number, entry in enumerate(read_list(data, "items")[:MOST_ITEMS], start=1):
        question = entry.get("question") if isinstance(entry, dict) else None
        if not isinstance(question, str) or not question.strip():
            items[number] = refuse(str(entry)[:80], "no question")
            continue
        question = " ".join(question.split())
        points = entry.get("points", USUAL_POINTS)
        fault = _find_fault(question, points, items.values())
        if fault:
            items[number] = refuse(question[:_LONGEST_QUESTION], fault)
            continue
        category = entry.get("category")
        if category not in CATEGORIES:
            category = "Pitfall" if points < 0 else "Important"
        # {"question": …, "depends": 2}: the item means nothing unless item 2 of the same reply is fulfilled. Only an
        # earlier item counts, so that no cycle is possible, and only one that is kept and names no fault.
        base_number = entry.get("depends")
        base = items.get(base_number) if isinstance(base_number, int) else None
        depends = base.question if base is not None and base.kept and base.points > 0 else None
        criterion = make_judged_criterion(question, points, category)
        items[number] = DraftedItem(criterion, "written", author=author, depends=depends)
    return list(items.values())


def make_judged_criterion(question: str, points: float, category: str) -> dict[str, Any]:
    """Return a written criterion in the form of a rubric file, without `depends`, which needs unique names."""
    return {
        "name": name_question(question),
        "question": question,
        "points": float(points),
        "weight": abs(points) / USUAL_POINTS,
        "category": category,
    }


def _find_fault(question: str, points: Any, items: Collection[DraftedItem]) -> str | None:
    """Return why an item cannot be used; None if it can. items: those of the same reply so far."""
    if len(question) > _LONGEST_QUESTION:
        return f"longer than {_LONGEST_QUESTION} characters"
    is_number = isinstance(points, int | float) and not isinstance(points, bool)
    if not is_number or not 1 <= abs(points) <= 10:
        return "points are not between 1 and 10, or -1 and -10"
    if _ALWAYS_TRUE.search(question):
        return "true of every answer"
    if find_two_questions(question):
        return "asks two things at once"
    if any(item.kept and item.question.casefold() == question.casefold() for item in items):
        return "the same question twice"
    return None


# ---- merging -------------------------------------------------------------------------------------------------------


async def _merge_items(
    task: WritingTask,
    items: list[DraftedItem],
    asker: Asker,
    templates: Templates,
    problems: list[str],
) -> list[DraftedItem]:
    """Return the items of all writers; two that mean the same become one, in the words of the first.

    problems: gets the reason if the merger's reply cannot be used; then nothing is merged.
    """
    if len({item.author.writer for item in items}) < 2:
        return items
    message = templates.fill("merge", task.prompt, {"items": number_items(items)})
    data, problem = await ask_json(asker, message, "merge")
    if problem:
        problems.append(f"merging: {problem}")
        return items
    merged = list(items)
    absorbed: set[int] = set()  # positions of items that were merged with an earlier one
    # The model answers {"same": [[1, 4], …]}, with numbers counted from 1.
    for pair in read_list(data, "same"):
        if not isinstance(pair, list) or not all(isinstance(number, int) for number in pair):
            continue
        if len(pair) != 2 or not all(1 <= number <= len(items) for number in pair):
            continue
        first, second = sorted(number - 1 for number in pair)
        if first in absorbed or second in absorbed:
            continue
        if _may_mean_the_same(items[first], items[second]):
            absorbed.add(second)
            questions = (*merged[first].merged_with, items[second].question)
            merged[first] = replace(merged[first], merged_with=questions)
    return [item for number, item in enumerate(merged) if number not in absorbed]


def _may_mean_the_same(first: DraftedItem, second: DraftedItem) -> bool:
    """Can two items be merged if a model says that they mean the same?

    They must come from different writers, share enough words, and both give points or both take them away.
    """
    have_same_sign = (first.points > 0) == (second.points > 0)
    if first.author.writer == second.author.writer or not have_same_sign:
        return False
    first_words = _find_words(first.question)
    second_words = _find_words(second.question)
    overlap = len(first_words & second_words) / max(1, len(first_words | second_words))
    return overlap >= _LEAST_OVERLAP


def _find_words(question: str) -> set[str]:
    """Return the words of a question; of a Chinese one its characters, as there are no spaces between words."""
    return set(_HAN.findall(question) or re.findall(r"\w+", question.casefold()))


# ---- templates -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Templates:
    """The texts that are sent to the writers, with fields such as {prompt} and {items}."""

    texts: Mapping[tuple[str, str], str]
    """(language, name) → text with fields; `_TEMPLATE_FIELDS` lists the names."""
    version: str = PROMPT_VERSION
    """The version of the library's prompts, with a digest of the user's own prompts if there are any."""

    def fill(self, name: str, prompt: str, values: Mapping[str, str]) -> str:
        """Return the template `name` in the language of the task's prompt, with its fields filled by `values`.

        The data stands between fences such as =====[4f0c…]=====. The number in them is a digest of the data, so that
        the data cannot contain its own fence.
        """
        # As in `compiler.py`: a prompt is Chinese if more than a fifth of it is; an English one may quote a few words.
        language = "zh" if len(_HAN.findall(prompt)) > 0.2 * len(prompt) else "en"
        digest = hashlib.sha256("\0".join(values.values()).encode()).hexdigest()[:16]
        return self.texts[language, name].format(fence=f"=====[{digest}]=====", **values)


def load_templates(folder: Path | None = None) -> Templates:
    """Load the library's templates. Files of a folder replace them: write.txt, or en/write.txt and zh/write.txt …

    Raises InvalidInput if there is no such folder, or if a file has unknown fields.
    """
    texts = dict(_read_library_templates())
    if folder is not None:
        if not folder.is_dir():
            raise InvalidInput(
                str(folder),
                "prompts",
                allowed=f"a folder with {', '.join(f'{name}.txt' for name in _TEMPLATE_FIELDS)}",
                got="none",
            )
        for language, name in texts:
            for path in (folder / f"{name}.txt", folder / language / f"{name}.txt"):
                if not path.exists():
                    continue
                text = path.read_text(encoding="utf-8")
                fields = _TEMPLATE_FIELDS[name]
                try:
                    text.format(**dict.fromkeys(fields, ""))
                except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
                    # The last two: {prompt.x} and {prompt[x]}.
                    raise InvalidInput(
                        str(path),
                        "the prompt",
                        allowed=f"with the fields {', '.join(sorted(fields))}; {{{{ and }}}} for braces",
                        got=f"an error at {error}",
                    ) from None
                texts[language, name] = text
    if texts == _read_library_templates():
        return Templates(texts)
    digest = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:8]
    return Templates(texts, f"{PROMPT_VERSION}, own {digest}")


@cache
def _read_library_templates() -> Mapping[tuple[str, str], str]:
    """Read the templates of the library: (language, name) → text."""
    folder = files("rubrank") / "drafting" / "templates"
    texts = {}
    for language in ("en", "zh"):
        for name in _TEMPLATE_FIELDS:
            path = folder / language / f"{name}.txt"
            texts[language, name] = path.read_text(encoding="utf-8")
    return texts
