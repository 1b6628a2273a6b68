"""The command line: each command's file is imported when the command is called or its help is shown."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from sojourn import __version__
from sojourn.flows.process import show_what_can_be_shown

show_what_can_be_shown()
_WIDTH = {"max_content_width": 120, "help_option_names": ["-h", "--help"]}


class Leaf(NamedTuple):
    """A command: function of a file of `flows/commands`, and its first sentence. is_parsed: else it reads its words."""

    file: str
    function: str
    about: str
    is_parsed: bool = True


class Branch(NamedTuple):
    """Commands by name, and what they have in common."""

    about: str
    commands: Mapping[str, Leaf]


COMMANDS: Mapping[str, Leaf | Branch] = MappingProxyType({
    "check": Leaf("trace", "check", "Say what would be read: columns and what they are, first and last time, what is "
                                    "censored and what is refused."),
    "gain": Leaf("pool", "gain", "Say how many hosts a policy that knows lifetimes would leave empty on a trace, with "
                                 "perfect or predicted ones."),
    "train": Leaf("models", "train", "Train, evaluate on later requests and in simulation, and promote the model if it "
                                     "passes every gate."),
    "model": Branch("Versions of models: list, take, ask and watch them.", MappingProxyType({
        "list": Leaf("store", "list_versions", "List the versions of registered models side by side: alias, data, "
                                               "gates, rollbacks and measures."),
        "show": Leaf("store", "show", "Show one version: its data, each gate with what it judged, and the measures."),
        "promote": Leaf("store", "promote", "Make a version the champion: moves the alias, publishes its bundle, and "
                                            "records who was left and why."),
        "rollback": Leaf("store", "rollback", "Make the champion's predecessor, or another earlier version, the "
                                              "champion again, and record why."),
        "pull": Leaf("serve", "pull", "Bring a registered version's bundle into a folder, if a predictor can serve "
                                      "it."),
        "predict": Leaf("serve", "predict", "Predict how long a request will stay: one JSON object a line, in seconds; "
                                            "with --explain, explain it."),
        "export-c": Leaf("serve", "export_c", "Write a bundle's model as one C99 header, for schedulers "
                                              "that are not Python."),
        "monitor": Leaf("models", "monitor", "Compare logged decisions with what became of them, week by week, and "
                                             "look for a drift."),
        "schedule": Leaf("models", "schedule", "Run a job on a schedule, until Ctrl-C; the champion is served from its "
                                               "folder throughout."),
    })),
    "serve": Branch("Answer a scheduler or other programs.", MappingProxyType({
        "extender": Leaf("serve", "extender", "Serve a bundle as a Kubernetes scheduler extender, on the loopback "
                                              "interface by default.", is_parsed=False),
        "http": Leaf("serve", "http", "Answer programs that are not Python over HTTP: admissions, remaining times, "
                                      "ends; one writer of the history.", is_parsed=False),
        "costs": Leaf("serve", "costs", "Write what an eviction of each running pod would waste, for Karpenter or "
                                        "Kueue; a dry run by default.", is_parsed=False),
        "kubernetes": Leaf("serve", "kubernetes", "Serve a bundle as a scheduler extender that itself watches a "
                                                  "cluster's pods and nodes.", is_parsed=False),
        "annotate": Leaf("serve", "annotate", "Write how long running pods or jobs will run, at most, as annotations "
                                              "that other programs read."),
        "warm": Leaf("serve", "warm", "Compile what a predictor's first start would compile, once, and keep it.",
                     is_parsed=False),
    })),
    "trace": Branch("Describe, convert, make and fetch traces.", MappingProxyType({
        "describe": Leaf("trace", "describe", "A trace's requests, lifetimes, owners and use of its hosts, and what "
                                              "its reader refused."),
        "convert": Leaf("trace", "convert", "Read a trace and write it in our own format, refused rows beside it."),
        "synth": Leaf("trace", "synth", "Write a synthetic trace in our own format; the same options give the same "
                                        "rows."),
        "fetch": Leaf("trace", "fetch", "Fetch a public trace from its publisher; a broken fetch goes on where it "
                                        "stopped."),
    })),
    "usage": Branch("See and learn what requests use over time.", MappingProxyType({
        "describe": Leaf("trace", "describe_usage", "Which requests are periodic and how, and which classes of days "
                                                    "there are."),
        "train": Leaf("models", "train_usage", "Learn pulse waves and workload classes from usage series, and promote "
                                               "them if they beat one equal margin for all."),
    })),
    "store": Branch("The folder of all that is kept.", MappingProxyType({
        "status": Leaf("store", "status", "Say what the store holds now: champions and their bundles, the last run, "
                                          "what waits, and the disk it takes."),
        "clean": Leaf("store", "clean", "List what the store no longer needs, with sizes, and remove it after asking."),
        "ui": Leaf("store", "ui", "Open the MLflow UI on the store, on the loopback interface only."),
    })),
    "lab": Branch("Compare families, search hyperparameters, plan a day, admit jobs, see starts.", MappingProxyType({
        "evaluate": Leaf("models", "evaluate", "Compare every lifetime family on a trace's later part; nothing is "
                                               "promoted."),
        "search": Leaf("models", "search", "Search a family's hyperparameters on validation windows alone; test "
                                           "windows are not read."),
        "plan": Leaf("pool", "plan", "Plan a day of recurring jobs: start times that keep the peak low although "
                                     "durations and usage are uncertain."),
        "admit": Leaf("pool", "admit", "Admit jobs that must meet deadlines on a limited number of cores: rules side "
                                       "by side on the same days."),
        "eta": Leaf("pool", "eta", "Say when the jobs that wait in a queue will start: an 80 % interval, and the plan "
                                   "by their limits."),
        "rectify": Leaf("pool", "rectify", "Rectify a pool: today's live migrations that free hosts; which host each "
                                           "frees, when, and with what chance."),
    })),
})
"""By name, in the order of help."""


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
