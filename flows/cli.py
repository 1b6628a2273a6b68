"""The command line: each command's own file is in `commands`, and imports heavy libraries when the command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn import __version__
from sojourn.flows.commands.admit import admit
from sojourn.flows.commands.annotate import annotate
from sojourn.flows.commands.clean import clean
from sojourn.flows.commands.evaluate import evaluate
from sojourn.flows.commands.export_c import export_c
from sojourn.flows.commands.extender import extender
from sojourn.flows.commands.monitor import monitor
from sojourn.flows.commands.plan import plan, plan_evaluate
from sojourn.flows.commands.predict import predict
from sojourn.flows.commands.pull import pull
from sojourn.flows.commands.rectify import rectify
from sojourn.flows.commands.registry_help import CommandGroup, RegistryCommand
from sojourn.flows.commands.results import results
from sojourn.flows.commands.retrain import retrain
from sojourn.flows.commands.schedule import schedule
from sojourn.flows.commands.search import search
from sojourn.flows.commands.simulate import compare, simulate
from sojourn.flows.commands.status import status
from sojourn.flows.commands.trace import trace_app
from sojourn.flows.commands.train_usage import train_usage
from sojourn.flows.commands.ui import ui
from sojourn.flows.commands.usage import usage_app
from sojourn.flows.commands.versions import rollback, sync, versions
from sojourn.flows.terminal import show_what_can_be_shown

show_what_can_be_shown()

app = typer.Typer(cls=CommandGroup, context_settings={"max_content_width": 120},
                  help="Predict how long each VM, pod or job will stay, and measure what a scheduler gains from it.",
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


app.add_typer(trace_app, name="trace")
app.add_typer(usage_app, name="usage")
for command in (simulate, compare, rectify, admit, annotate, plan, plan_evaluate, retrain, train_usage, evaluate,
                search, results, predict, pull, monitor, schedule, status, versions, rollback, sync, clean, export_c,
                ui):
    app.command(cls=RegistryCommand)(command)
app.command(add_help_option=False,
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(extender)
