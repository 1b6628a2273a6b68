"""The commands by name, and the first page of help.

It is there at once: nothing is imported for it but `os` and `types`. Even `typing` would take a quarter of its time.
"""
from __future__ import annotations

import os
from types import MappingProxyType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ABOUT = "Predict how long each VM, pod or job will stay, and measure what a scheduler gains from it."
WIDTH = 120
"""A page of help takes so many columns at most."""
_LEAST_WIDTH = 50
_OPTIONS = (("--version", "Print the version and end."), ("-h, --help", "Show this message and exit."))


class Leaf:
    """A command: function of a file of `flows/commands`, and its first sentence. is_parsed: else it reads its words."""

    __slots__ = ("about", "file", "function", "is_parsed")

    def __init__(self, file: str, function: str, about: str, is_parsed: bool = True) -> None:
        self.file, self.function, self.about, self.is_parsed = file, function, about, is_parsed


class Branch:
    """Commands by name, and what they have in common."""

    __slots__ = ("about", "commands")

    def __init__(self, about: str, commands: Mapping[str, Leaf]) -> None:
        self.about, self.commands = about, commands


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


def first_page(n_columns: int) -> str:
    """The help of `sojourn` itself on a terminal of so many columns, in the form in which typer shows other pages."""
    width = max(min(n_columns, WIDTH) - 2, _LEAST_WIDTH)
    return "\n".join(["Usage: sojourn [OPTIONS] COMMAND [ARGS]...", "",
                      *(f"  {line}" for line in _wrapped(ABOUT, width - 2)), "",
                      "Options:", *_listed(_OPTIONS, width), "",
                      "Commands:", *_listed([(name, each.about) for name, each in COMMANDS.items()], width)])


def terminal_columns() -> int:
    """How wide the terminal is: COLUMNS, else what it says itself, else 80."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns > 0:
        return columns
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:  # standard output is no terminal
        return 80


def _listed(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    first = max(len(name) for name, _ in rows) + 2
    lines = []
    for name, about in rows:
        parts = _wrapped(about, width - 2 - first)
        lines += [f"  {name:<{first}}{parts[0]}", *(f"{'':{first + 2}}{part}" for part in parts[1:])]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of whole words. Not by `textwrap`: its import takes longer than the page."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines
