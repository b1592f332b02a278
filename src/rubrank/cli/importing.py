"""`--import MODULE` on every verb: modules that register verifiers, rules, models, attributes or judge kinds.

rubrank grade rollouts.jsonl --rubric rubric.yaml --import my_checks
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rubrank.cli.flags import remember
from rubrank.cli.printing import errors_in_words, warnings_in_words
from rubrank.cli.usage import locate, usage_in_words

_HELP = "Import a module that adds verifiers, rules, models, attributes or judge kinds; may be repeated."


class ExtensibleGroup(TyperGroup):
    """A group whose verbs, and those of the groups in it, all take `--import`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_option())  # before the verb it does the same
        for verb in _verbs(self):
            verb.params.append(_option())
            remember(verb)
            locate(verb)
        locate(self)

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Read what stands before the verb."""
        with usage_in_words():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; what the library warns of is shown as its errors are."""
        with warnings_in_words(), usage_in_words():
            return super().invoke(ctx)


def _verbs(group: Any) -> list[Any]:
    """All commands below a group that are no groups themselves."""
    found = []
    for command in group.commands.values():
        found += _verbs(command) if hasattr(command, "commands") else [command]
    return found


def _import(names: list[str] | None) -> None:
    from rubrank._plugins import import_module

    with errors_in_words():
        for name in names or ():
            import_module(name)


def _option() -> Any:
    """The option itself, as typer makes it for a verb that declares it."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def verb(
        modules: Annotated[
            list[str] | None,
            # eager: names in other options are looked up after it
            typer.Option("--import", metavar="MODULE", help=_HELP, callback=_import, is_eager=True, expose_value=False),
        ] = None,
    ) -> None:
        pass

    return typer.main.get_command(app).params[0]
