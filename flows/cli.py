"""The command line: each command's file is imported when the command is called or its help is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sojourn import __version__
from sojourn.flows.process import show_what_can_be_shown

show_what_can_be_shown()


def _capacity() -> dict[str, Any]:
    from sojourn.flows.commands.pool import admit, compare, plan, rectify, simulate

    return {"simulate": simulate, "compare": compare, "rectify": rectify, "admit": admit, "plan": plan}


def _models() -> dict[str, Any]:
    from sojourn.flows.commands.models import evaluate, monitor, retrain, schedule, search, train_usage

    return {"retrain": retrain, "train-usage": train_usage, "evaluate": evaluate, "search": search,
            "monitor": monitor, "schedule": schedule}


def _served() -> dict[str, Any]:
    from sojourn.flows.commands.serve import annotate, export_c, predict, pull

    return {"predict": predict, "pull": pull, "annotate": annotate, "export-c": export_c}


def _store() -> dict[str, Any]:
    from sojourn.flows.commands.store import clean, results, rollback, status, ui, versions

    return {"results": results, "status": status, "versions": versions, "rollback": rollback, "clean": clean,
            "ui": ui}


def _traces() -> dict[str, Any]:
    from sojourn.flows.commands.trace import trace_app, usage_app

    return {"trace": trace_app, "usage": usage_app}


def _extender() -> dict[str, Any]:
    from sojourn.flows.commands.serve import extender

    return {"extender": extender}


COMMANDS: Mapping[str, tuple[Callable[[], dict[str, Any]], str]] = MappingProxyType({
    "simulate": (_capacity, "Replay a trace under each policy with perfect lifetimes (the most that could be gained) "
                            "or flawed ones."),
    "compare": (_capacity, "Compare policies x predictors x loads x seeds in pairs; finished cells are not run again."),
    "rectify": (_capacity, "Rectify a pool: today's live migrations that free hosts; which host each frees, when, and "
                           "with what chance."),
    "admit": (_capacity, "Admit jobs that must meet deadlines on a limited number of cores: rules side by side on the "
                         "same days."),
    "plan": (_capacity, "Plan a day of recurring jobs: start times that keep the peak low although durations and "
                        "usage are uncertain."),
    "retrain": (_models, "Train, evaluate on later requests and in simulation, and promote the model if it passes "
                         "every gate."),
    "train-usage": (_models, "Learn pulse waves and workload classes from usage series, and promote them if they beat "
                             "one equal margin for all."),
    "evaluate": (_models, "Compare every lifetime family on a trace's later part; nothing is promoted."),
    "search": (_models, "Search a family's hyperparameters on validation windows alone; test windows are not read."),
    "monitor": (_models, "Compare logged decisions with what became of them, week by week, and look for a drift."),
    "schedule": (_models, "Run a job on a schedule, until Ctrl-C; the champion is served from its folder throughout."),
    "predict": (_served, "Predict how long a request will stay: one JSON object a line, in seconds; with --explain, "
                         "explain it."),
    "pull": (_served, "Bring a registered version's bundle into a folder, if a predictor can serve it."),
    "annotate": (_served, "Write how long running pods or jobs will run, at most, as annotations that other programs "
                          "read."),
    "extender": (_extender, "Serve a bundle as a Kubernetes scheduler extender, on the loopback interface by default."),
    "export-c": (_served, "Write a bundle's model as a C99 source file and its header, for schedulers that are not "
                          "Python."),
    "versions": (_store, "List the versions of registered models side by side: alias, data, gates, rollbacks and "
                         "measures."),
    "rollback": (_store, "Make another version the champion: moves the alias, publishes its bundle, and records who "
                         "was left and why."),
    "results": (_store, "Write an index of all traces, and a page a trace with its latest study and comparisons, from "
                        "logged runs."),
    "status": (_store, "Say what the store holds now: champions and their bundles, the last run, what waits, and the "
                       "disk it takes."),
    "clean": (_store, "List what the store no longer needs, with sizes, and remove it after asking."),
    "ui": (_store, "Open the MLflow UI on the store, on the loopback interface only."),
    "trace": (_traces, "Read, describe and convert traces."),
    "usage": (_traces, "See what requests use over time."),
})
"""By name, in the order of help: what imports a command beside its neighbours, and its first sentence."""


class ImportedCommands(TyperGroup):
    """Commands that are imported one by one; help shows the whole of each one's first sentence."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = {name: TyperCommand(name, help=sentence) for name, (_, sentence) in COMMANDS.items()}

    def get_command(self, ctx: Any, name: str) -> Any:
        """The command itself; what `commands` holds are names alone."""
        return None if name not in COMMANDS else imported(name)

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of help."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write names and sentences."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in COMMANDS.items()])


def imported(name: str) -> Any:
    """A command, or a group of commands, as typer makes it."""
    from sojourn.flows.commands.options import RegistryCommand

    command = COMMANDS[name][0]()[name]
    if not isinstance(command, typer.Typer):
        one = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        settings = {"allow_extra_args": True, "ignore_unknown_options": True} if name == "extender" else None
        one.command(name, cls=RegistryCommand, add_help_option=name != "extender", context_settings=settings)(command)
        command = one
    made = typer.main.get_command(command)
    made.name = name
    return made


app = typer.Typer(cls=ImportedCommands, context_settings={"max_content_width": 120},
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
