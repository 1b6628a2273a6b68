"""`sojourn clean`: what a store no longer needs, with its size, and its removal."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.flows.commands.exit_codes import REFUSED
from sojourn.flows.commands.interruption import keeps
from sojourn.flows.commands.options import Flags, plain_errors, takes
from sojourn.flows.settings.store import RetentionSettings, load_settings

if TYPE_CHECKING:
    from sojourn.flows.versions.cleaning import CleaningPlan, Removable

_N_NAMED = 5
"""Of each kind the largest so many are named."""


@plain_errors
@keeps("the champion and all that is kept are as they were; the next `sojourn clean` goes on")
@takes(RetentionSettings, "store", "config", "keep_runs", "keep_days", "keep_caches", "keep_parts_days")
def clean(
    flags: Flags,
    is_meant: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
) -> None:
    """List what the store no longer needs, with sizes, and remove it after asking.

    Without a terminal to ask on, it is only listed. The champion never goes: versions with an alias and the newest that
    passed keep their artifacts. A rollback to a version that was cleaned is refused. In folders of caches only what
    Sojourn made goes. Exit code 2 where something could not be removed.
    """
    from sojourn.flows.settings.retrain import RetrainConfig
    from sojourn.flows.versions.cleaning import clean as run
    from sojourn.flows.versions.cleaning import plan_cleaning
    from sojourn.flows.versions.opening import open_store
    from sojourn.flows.versions.reading import read_store

    kind = RetentionSettings if flags["file"] is None else RetrainConfig  # a run's file has more than a cleaning reads
    settings = load_settings(kind, **flags)
    read_store(settings)  # a store that is not there yet is an error, not a reason to make one
    tracker = open_store(settings)
    plan = plan_cleaning(settings.store, tracker, settings)
    _show(plan)
    if not (is_meant or (plan.found and is_terminal() and typer.confirm("Remove all this?"))):
        typer.echo(f"{plan.n_bytes / 1e6:>10.2f} MB  to remove; nothing was, give --yes to remove it without asking")
        return
    done = run(settings.store, tracker, settings, shown=plan)
    typer.echo(f"{done.n_bytes / 1e6:>10.2f} MB  removed")
    for line in done.failed:
        typer.echo(f"error: {line}", err=True)
    if done.failed:
        raise typer.Exit(REFUSED)


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def _show(plan: CleaningPlan) -> None:
    kinds: dict[str, list[Removable]] = defaultdict(list)
    for each in plan.found:
        kinds[each.what].append(each)
    for what, found in sorted(kinds.items(), key=lambda kind: -_n_bytes(kind[1])):
        typer.echo(f"{_n_bytes(found) / 1e6:>10.2f} MB  {len(found):>5} x {what}")
        for each in found[:_N_NAMED]:
            typer.echo(f"{'':>10}     {each.n_bytes / 1e6:>10.2f} MB  {each.place}")
        if len(found) > _N_NAMED:
            typer.echo(f"{'':>10}     {_n_bytes(found[_N_NAMED:]) / 1e6:>10.2f} MB  {len(found) - _N_NAMED} more")
    for line in plan.waiting:
        typer.echo(line)


def _n_bytes(found: Sequence[Removable]) -> int:
    return sum(each.n_bytes for each in found)
