"""The command line: each command's file is imported when the command is called or its help is shown."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sojourn import __version__
from sojourn.flows.commands.table import ABOUT, COMMANDS, WIDTH, Branch, Leaf
from sojourn.flows.process import show_what_can_be_shown

show_what_can_be_shown()
_WIDTH = {"max_content_width": WIDTH, "help_option_names": ["-h", "--help"]}


class ImportedCommands(TyperGroup):
    """Commands that are imported one by one; help shows the whole of each one's first sentence."""

    def __init__(self, tree: Mapping[str, Leaf | Branch] = COMMANDS, **given: Any) -> None:
        super().__init__(**given)
        self._tree = tree
        self.commands = {name: TyperCommand(name, help=each.about) for name, each in tree.items()}

    def get_command(self, ctx: Any, name: str) -> Any:
        """The command itself; what `commands` holds are names alone."""
        found = self._tree.get(name)
        if isinstance(found, Branch):
            return ImportedCommands(found.commands, name=name, help=found.about, no_args_is_help=True,
                                    context_settings=_WIDTH, rich_markup_mode=None)
        return None if found is None else imported(name, found)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write names and sentences."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.about) for name, each in self._tree.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the words name; a command of a branch that is asked for without it is told."""
        if args and args[0] not in self._tree:
            found = [f"sojourn {name} {args[0]}" for name, each in COMMANDS.items()
                     if isinstance(each, Branch) and args[0] in each.commands]
            if found:
                ctx.fail(f"No such command {args[0]!r}: did you mean {' or '.join(found)}?")
        return super().resolve_command(ctx, args)


def imported(name: str, leaf: Leaf) -> Any:
    """A command as typer makes it."""
    from sojourn.flows.commands.options import RegistryCommand

    function = getattr(import_module(f"sojourn.flows.commands.{leaf.file}"), leaf.function)
    one = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    settings = _WIDTH if leaf.is_parsed else {"allow_extra_args": True, "ignore_unknown_options": True}
    one.command(name, cls=RegistryCommand, add_help_option=leaf.is_parsed, context_settings=settings)(function)
    made = typer.main.get_command(one)
    made.name = name
    return made


app = typer.Typer(cls=ImportedCommands, context_settings=_WIDTH,
                  help=ABOUT,
                  no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False,
                  rich_markup_mode=None)  # rich reads [default: 5] as markup and leaves it out


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"sojourn {__version__}")
        raise typer.Exit


@app.callback()
def _sojourn(
    version: Annotated[bool, typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Print the version and end.")] = False,
) -> None:
    """What stands before a command; `version` has ended the program by then."""
