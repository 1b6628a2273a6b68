"""Commands on a store: `model list`, `show`, `promote` and `rollback`; `store status`, `clean` and `ui`."""

from __future__ import annotations

import os
import socket
import sys
from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.flows.commands.options import REFUSED, Flags, Json, StoreFolder, keeps, plain_errors, print_json, takes
from sojourn.flows.settings.store import RetentionSettings, StoreSettings, load_settings

if TYPE_CHECKING:
    from sojourn.flows.versions.cleaning import CleaningPlan, Removable

_STORE_HELP = "Folder of all stores; SOJOURN_TRACKING_URI names a server instead. [default: .sojourn]"
_N_NAMED = 5
"""Of each kind the largest so many are named."""


@plain_errors
def list_versions(
    name: Annotated[str | None, typer.Argument(help="Registered model; without one, all of them.")] = None,
    store: Annotated[Path | None, typer.Option(help=_STORE_HELP)] = None,
    is_json: Json = False,
) -> None:
    """List the versions of registered models side by side: alias, data, gates, rollbacks and measures."""
    from sojourn.flows.console import console
    from sojourn.flows.reports.section import Section
    from sojourn.flows.versions.promotion import read_store
    from sojourn.flows.versions.version_list import comparison_words, lost_aliases, version_lines, version_rows

    tracker = read_store(load_settings(StoreSettings, store=store))
    names = tracker.models() if name is None else [name]
    if not names and not is_json:
        typer.echo("no model is registered yet")
    for each in names:
        lines = version_lines(tracker, each)
        titles, rows = version_rows(lines)
        apart = "Not comparable: judged on other data or another window than the champion. "
        legend = apart * any(line.is_comparable is False for line in lines) + "Brier and MAE: lower = " \
                 "better; 90 % covers: share of requests that end by the 90 % quantile, at creation and at 1 h; .9 " \
                 "is right; gain: empty hosts over best-fit, percentage points, higher = better."
        if is_json:
            for line in lines:
                print_json({"model": each, **line.facts()})
        else:
            if words := comparison_words(lines):
                console.print(words, markup=False)
            console.print(Section(each, "", titles, rows, 4, legend))
        for alias, version in lost_aliases(tracker, each).items():
            typer.echo(f"warning: the alias {alias} of {each} points at version {version}, which is gone; "
                       f"`sojourn model promote {each} VERSION --why WHY` moves the champion", err=True)


_WHY = typer.Option(help="Reason; it is recorded in MLflow.")
_DESPITE = typer.Option("--despite-gates", help="Take a version that failed gates, too; the record names them.")
Model = Annotated[str, typer.Argument(help="Registered model.")]


@plain_errors
def show(
    name: Model,
    version: Annotated[int | None, typer.Argument(help="Its version. [default: the champion]")] = None,
    store: Annotated[Path | None, typer.Option(help=_STORE_HELP)] = None,
) -> None:
    """Show one version: its data, each gate with what it judged, and the measures."""
    from sojourn.flows.versions.promotion import read_store
    from sojourn.flows.versions.version_list import shown_lines

    for line in shown_lines(read_store(load_settings(StoreSettings, store=store)), name, version):
        typer.echo(line)


@plain_errors
def promote(
    name: Model,
    version: Annotated[int, typer.Argument(help="Version that becomes champion.")],
    why: Annotated[str, _WHY],
    is_despite_gates: Annotated[bool, _DESPITE] = False,
    store: Annotated[Path | None, typer.Option(help=_STORE_HELP)] = None,
) -> None:
    """Make a version the champion: moves the alias, publishes its bundle, and records who was left and why.

    A version that failed gates is refused without --despite-gates. The same call again finishes one that was cut off.
    """
    _make_champion(name, version, why, is_despite_gates, store, is_succession=True)


@plain_errors
def rollback(
    name: Model,
    why: Annotated[str, _WHY],
    to: Annotated[int | None, typer.Option(
        "--to", help="Version that becomes champion. [default: the newest before the champion that passed its gates "
                     "and was not rolled back]")] = None,
    is_despite_gates: Annotated[bool, _DESPITE] = False,
    store: Annotated[Path | None, typer.Option(help=_STORE_HELP)] = None,
) -> None:
    """Make the champion's predecessor, or another earlier version, the champion again, and record why.

    A version that failed gates is refused without --despite-gates. The same call again finishes one that was cut off,
    if --to names the version.
    """
    _make_champion(name, to, why, is_despite_gates, store)


def _make_champion(name: str, version: int | None, why: str, is_despite_gates: bool, store: Path | None, *,
                   is_succession: bool = False) -> None:
    from sojourn.flows.versions.promotion import open_store, read_store
    from sojourn.flows.versions.version_list import predecessor, roll_back

    config = load_settings(StoreSettings, store=store)
    tracker = read_store(config)  # a store that is not there yet is an error, not a reason to make one
    to = predecessor(tracker, config.store, name) if version is None else version
    done = roll_back(open_store(config), config.store, name, to, why, is_despite_gates=is_despite_gates,
                    is_succession=is_succession)
    before = "none" if done.before is None else f"version {done.before}"
    failed = f"\ndespite   failed gates: {', '.join(done.despite)}" if done.despite else ""
    typer.echo(f"champion  {name} version {done.version}, before: {before}{failed}\nbundle    {done.folder}\n"
               f"recorded  run {done.run_id}")


@plain_errors
def status(
    store: StoreFolder = None,
    is_json: Json = False,
) -> None:
    """Say what the store holds now: champions and their bundles, the last run, what waits, and the disk it takes."""
    from sojourn.flows.versions.promotion import read_store
    from sojourn.flows.versions.version_list import status_facts, status_lines

    settings = load_settings(StoreSettings, store=store)
    facts = status_facts(settings, read_store(settings))
    if is_json:
        print_json(facts)
    else:
        typer.echo("\n".join(status_lines(facts)))


@plain_errors
@keeps("the champion and all that is kept are as they were; the next `sojourn store clean` goes on")
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
    from sojourn.flows.versions.promotion import open_store, read_store

    kind = RetentionSettings if flags["file"] is None else RetrainConfig  # a run's file has more than a cleaning reads
    settings = load_settings(kind, **flags)
    read_store(settings)  # a store that is not there yet is an error, not a reason to make one
    tracker = open_store(settings)
    plan = plan_cleaning(settings.store, tracker, settings)
    _show(plan)
    if not (is_meant or (plan.items and is_terminal() and typer.confirm("Remove all this?"))):
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
    for each in plan.items:
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


@plain_errors
def ui(
    store: Annotated[Path | None, typer.Option(
        help="Folder of all stores; SOJOURN_TRACKING_URI may name an SQLite file. [default: .sojourn]")] = None,
    port: Annotated[int, typer.Option(help="Port on the loopback interface.")] = 5000,
) -> None:
    """Open the MLflow UI on the store, on the loopback interface only."""
    import_module("flask")  # of the whole MLflow: without it the server ends with a traceback
    from sojourn.flows.versions.promotion import read_store

    config = load_settings(StoreSettings, store=store)
    uri = config.mlflow_uri
    if uri.is_server:
        raise ValueError("ui must be given a store or an SQLite file: the tracking server has pages of its own, "
                         f"see {uri}")
    tracker = read_store(config)  # upgraded before it is opened
    _check_free(port)
    typer.echo(f"MLflow UI on {tracker.runs_page(f'http://127.0.0.1:{port}')} (Ctrl-C ends it)")
    # in the environment: every user of the machine sees command lines
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                   "MLFLOW_BACKEND_STORE_URI": uri.plain}
    arguments = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    os.execve(sys.executable, arguments, environment)


def _check_free(port: int) -> None:
    """OSError naming the port where nothing can listen on it: MLflow's own process would end, and its parent stay."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that was closed a moment ago is free
        try:
            tried.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise OSError(f"port must be one that is free, got {port} ({getattr(error, 'strerror', None) or error})"
                          ) from error
