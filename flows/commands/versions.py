"""`sojourn versions`, `rollback` and `sync`: what is registered, another champion by decision, what was kept sent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import plain_errors

_STORE_HELP = "Folder of all stores; SOJOURN_TRACKING_URI names a server instead. [default: .sojourn]"


@plain_errors
def versions(
    name: Annotated[str | None, typer.Argument(help="Registered model; without one, all of them.")] = None,
    store: Annotated[Path | None, typer.Option(help=_STORE_HELP)] = None,
) -> None:
    """List the versions of registered models side by side: alias, data, gates, rollbacks and measures."""
    from sojourn.flows.progress import console
    from sojourn.flows.reports.section import Section
    from sojourn.flows.settings.store import StoreSettings, load_settings
    from sojourn.flows.versions.reading import read_store
    from sojourn.flows.versions.version_list import lost_aliases, version_lines, version_rows

    tracker = read_store(load_settings(StoreSettings, store=store))
    names = tracker.models() if name is None else [name]
    if not names:
        typer.echo("no model is registered yet")
    for each in names:
        titles, rows = version_rows(version_lines(tracker, each))
        legend = "Not comparable: judged on other data or another window than the champion. Brier and MAE: lower = " \
                 "better; gain: empty hosts over best-fit, percentage points, higher = better."
        console.print(Section(each, "", titles, rows, 4, legend), crop=False)
        for alias, version in lost_aliases(tracker, each).items():
            typer.echo(f"warning: the alias {alias} of {each} points at version {version}, which is gone; "
                       f"`sojourn rollback {each} --to VERSION --why WHY` moves the champion", err=True)


@plain_errors
def rollback(
    name: Annotated[str, typer.Argument(help="Registered model.")],
    to: Annotated[int, typer.Option("--to", help="Version that becomes champion.")],
    why: Annotated[str, typer.Option(help="Reason; it is recorded in MLflow.")],
    is_despite_gates: Annotated[bool, typer.Option(
        "--despite-gates", help="Take a version that failed gates, too; the record names them.")] = False,
    store: Annotated[Path | None, typer.Option(help=_STORE_HELP)] = None,
) -> None:
    """Make another version the champion: moves the alias, publishes its bundle, and records who was left and why.

    A version that failed gates is refused without --despite-gates. The same call again finishes one that was cut off.
    """
    from sojourn.flows.settings.store import StoreSettings, load_settings
    from sojourn.flows.versions.opening import open_store
    from sojourn.flows.versions.reading import read_store
    from sojourn.flows.versions.rollback import roll_back

    config = load_settings(StoreSettings, store=store)
    read_store(config)  # a store that is not there yet is an error, not a reason to make one
    done = roll_back(open_store(config), config.store, name, to, why, is_despite_gates=is_despite_gates)
    before = "none" if done.before is None else f"version {done.before}"
    failed = f"\ndespite   failed gates: {', '.join(done.despite)}" if done.despite else ""
    typer.echo(f"champion  {name} version {done.version}, before: {before}{failed}\nbundle    {done.folder}\n"
               f"recorded  run {done.run_id}")


@plain_errors
def sync(
    store: Annotated[Path | None, typer.Option(help=_STORE_HELP)] = None,
) -> None:
    """Send the runs that were kept while the tracking store was away: logs them and promotes by their gates."""
    from sojourn.flows.environment import keep_prefect_in
    from sojourn.flows.settings.store import StoreSettings, load_settings
    from sojourn.flows.versions.opening import open_store

    config = load_settings(StoreSettings, store=store)
    if not config.store.is_dir():
        raise FileNotFoundError(f"store must be a folder, got {str(config.store)!r}")
    keep_prefect_in(config.store)
    from sojourn.flows.stages.unsent import send_unsent
    from sojourn.flows.store.unsent_runs import unsent_orders

    tracker = open_store(config)
    send_unsent(config.store, tracker, typer.echo)
    if left := len(unsent_orders(config.store)):
        raise ValueError(f"every kept run must be sent, got {left} that are kept still")
    typer.echo("nothing is kept that was not sent")
