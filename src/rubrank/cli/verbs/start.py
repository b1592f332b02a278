"""The verbs to start with: `rubrank init`, `rubrank demo` and `rubrank help`.

    rubrank init FOLDER                 copies the samples of cli/start: rollouts, a rubric, judges and settings
    rubrank demo                        runs the main steps on bundled rollouts; see cli/demo
    rubrank help                        the topics of the documentation, whose pages are installed with the package
    rubrank help judges                 a page
    rubrank help judges cascade         the sections of a page whose heading has this word
    rubrank help docs/judges.md         the same page: texts and docstrings refer to pages by their path
    rubrank help fuse                   a verb without a page of its own: its options

On a terminal a page is formatted and shown in a pager; otherwise its Markdown is printed.
"""

from __future__ import annotations

import posixpath
import re
import sys
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

import rubrank
from rubrank.cli.command import add_verb
from rubrank.cli.common import Force
from rubrank.cli.terminal import print_line, print_table
from rubrank.errors import InvalidInput

_NEXT_COMMANDS = (
    "rubrank grade rollouts.jsonl -r rubric.yaml --judges judges.yaml -o scores.parquet",
    "rubrank fuse scores.parquet --config settings.toml",
    "rubrank report scores.parquet --rollouts rollouts.jsonl",
)
# "[judges](judges.md#cascade)": the text, the page, the section
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*\.md)?(#[^)]*)?\)")
# "![Drawing](drawing.svg)" on a line of its own
_PICTURE = re.compile(r"^!\[.*\]\(.*\)\n?", re.MULTILINE)
_HEADING = re.compile(r"^(#{1,6}) +(.*)$", re.MULTILINE)
# A block of code between two lines of ``` or ~~~
_FENCED = re.compile(r"^(```+|~~~+).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_UNLISTED = ("index", "reference/", "log/")
"""Pages that are not listed: the site's home and generated reference, and the log of what was tried."""


def register(app: typer.Typer) -> None:
    """Add the verbs to a command line."""
    add_verb(app, init)
    add_verb(app, demo)
    add_verb(app, help_, "help")


def init(
    folder: Annotated[
        Path, typer.Argument(help="The folder; created if it does not exist.")
    ] = Path("rubrank"),
) -> None:
    """Create a folder with sample rollouts, a rubric, judges and settings to start from."""
    samples = {file.name: file.read_bytes() for file in (files("rubrank.cli") / "start").iterdir()}
    existing = [name for name in sorted(samples) if (folder / name).exists()]
    if existing:
        allowed = "a folder without files of these names"
        remedy = "Name another folder; nothing is replaced."
        raise InvalidInput("init", "folder", allowed, str(folder / existing[0]), remedy)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in samples.items():
        (folder / name).write_bytes(content)
    print_line(f"Created in {folder}: {', '.join(sorted(samples))}. Next:")
    for command in (f"cd {folder}", *_NEXT_COMMANDS):
        print_line(f"  {command}")


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File for the rewards, as JSON lines.")
    ] = Path("out/demo_rewards.jsonl"),
    force: Force = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show all groups, and explain two rewards in full.")
    ] = False,
) -> None:
    """Run the main steps on bundled rollouts: grade, fuse, gate, explain, and write a report."""
    from rubrank.cli.demo.demo import demo as run

    run(output, force=force, explain=explain)


# ---------------------------------------------------------------------------------------------------------------- help


def help_(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(help="A topic, such as judges; without it, all topics are listed."),
    ] = None,
    section: Annotated[
        str | None,
        typer.Argument(help="Show only the sections whose heading contains these words."),
    ] = None,
) -> None:
    """Show a page of the documentation, which is installed with the package."""
    if topic is None:
        rows = []
        for page_name in list_pages():
            if not page_name.startswith(_UNLISTED):
                markdown = (pages_folder() / f"{page_name}.md").read_text(encoding="utf-8")
                _, _, title = _find_headings(markdown)[0]
                rows.append([page_name, title])
        print_table("", ["topic", "page"], rows, words=2, most=None)
        print_line("rubrank help TOPIC shows a page, rubrank help TOPIC WORD a section of it.")
        print_line("rubrank VERB --help shows the options of a verb.")
        return
    name = topic.removeprefix("docs/").removesuffix(".md")
    if name not in list_pages():
        _show_verb(context, name)
        return
    markdown = (pages_folder() / f"{name}.md").read_text(encoding="utf-8")
    if section is not None:
        markdown = select_sections(markdown, section, name)
    page = _link_to_topics(markdown, name)
    if not sys.stdout.isatty():
        print_line(page.rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(page))


def pages_folder() -> Path:
    """Return the folder of the pages: inside an installed package, beside the sources in a checkout."""
    package = Path(rubrank.__file__).parent
    installed = package / "docs"
    return installed if installed.is_dir() else package.parents[1] / "docs"


def list_pages() -> list[str]:
    """List the names of all pages: "judges", "tutorials/judge" …"""
    folder = pages_folder()
    return sorted(
        path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")
    )


def select_sections(markdown: str, words: str, topic: str) -> str:
    """Return the sections whose heading contains the words, with everything below them."""
    headings = _find_headings(markdown)
    selected = []
    end_of_last = 0
    for number, (start, level, title) in enumerate(headings):
        # A heading within a section that is selected already is not repeated.
        if words.lower() not in title.lower() or start < end_of_last:
            continue
        # The section ends at the next heading of the same level or a higher one.
        end_of_last = len(markdown)
        for next_start, next_level, _ in headings[number + 1 :]:
            if next_level <= level:
                end_of_last = next_start
                break
        selected.append(markdown[start:end_of_last].strip())
    if not selected:
        titles = "; ".join(title for _, level, title in headings if level > 1)
        raise InvalidInput(
            "help",
            "section",
            allowed=f"part of a heading of {topic!r}",
            got=repr(words),
            remedy=f"Headings: {titles}.",
        )
    return "\n\n".join(selected) + "\n"


def _find_headings(markdown: str) -> list[tuple[int, int, str]]:
    """Return (position, level, title) of each heading; comments in code blocks are not headings."""
    code = [match.span() for match in _FENCED.finditer(markdown)]
    headings = []
    for match in _HEADING.finditer(markdown):
        if not any(start <= match.start() < end for start, end in code):
            headings.append((match.start(), len(match[1]), match[2].strip()))
    return headings


def _show_verb(context: Any, name: str) -> None:
    """Print the options of a verb; InvalidInput if there is no verb of this name."""
    verbs = context.parent.command.commands
    if name not in verbs:
        near = get_close_matches(name, [*list_pages(), *verbs], n=1)
        remedy = f"Did you mean {near[0]!r}?" if near else "`rubrank help` lists the topics."
        raise InvalidInput(
            "help",
            "topic",
            allowed="a page or a verb",
            got=repr(name),
            remedy=remedy,
        )
    verb_context = verbs[name].make_context(name, [], parent=context.parent, resilient_parsing=True)
    print_line(verbs[name].get_help(verb_context))


def _link_to_topics(markdown: str, topic: str) -> str:
    """Put `rubrank help TOPIC` in place of links to other pages, and remove pictures.

    topic: the page itself. Its links are relative to its folder: in tutorials/draft, "judge.md" is tutorials/judge, and
    "../judges.md" is judges.
    """
    folder = posixpath.dirname(topic)

    def show(match: re.Match[str]) -> str:
        text, page, _ = match.groups()
        if page is None:
            return text if match[3] else match[0]
        linked = posixpath.normpath(posixpath.join(folder, page)).removesuffix(".md")
        return f"{text} (`rubrank help {linked}`)" if linked in list_pages() else text

    return _LINK.sub(show, _PICTURE.sub("", markdown))
