"""`sojourn rectify`: today's live migrations that free hosts, from a snapshot of a pool, with reasons."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import plain_errors

_LEAST_H, _MOST_H = 0.001, 876_600
"""Of a long stay: 100 years at most."""
_MOST_MINUTES = 1_440
"""Of a migration: a day, since what is freed later counts for nothing."""


@plain_errors
def rectify(
    snapshot: Annotated[Path, typer.Argument(
        help="Folder with the tables hosts and requests, CSV or Parquet.")],
    bundle: Annotated[Path, typer.Option(help="Bundle folder: the model that predicts.")],
    budget: Annotated[int, typer.Option(help="Migrations at most.")] = 5,
    rectifier: Annotated[str, typer.Option(help="What plans them: {rectifiers}.")] = "value",
    long_h: Annotated[float | None, typer.Option(
        help="Of pdre: hours from which on a predicted stay is long. [default: 24]")] = None,
    minutes: Annotated[int, typer.Option(help="How long a migration takes, minutes.")] = 20,
    at_once: Annotated[int, typer.Option(help="Migrations that go at a time.")] = 3,
    now_s: Annotated[int | None, typer.Option(
        help="The snapshot's time, whole seconds on the training trace's clock. [default: its end]")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file to write the list to. [default: none]")] = None,
) -> None:
    """Rectify a pool: today's live migrations that free hosts; which host each frees, when, and with what chance."""
    from sojourn.simulator.rectification import BUDGET_MAX, RECTIFIERS, Rectify

    asked = Rectify(rectifier, budget, long_s=_long_s(long_h))  # refuses what is wrong before files are read
    if long_h is not None and rectifier != "pdre":
        raise ValueError(f"long_h must be given with the rectifier pdre alone, got {long_h:g} with {rectifier!r}")
    for name, number, most in (("minutes", minutes, _MOST_MINUTES), ("at_once", at_once, BUDGET_MAX)):
        if not 1 <= number <= most:
            raise ValueError(f"{name} must be in 1..{most}, got {number}")
    if out is not None:
        _check_out(out, snapshot, bundle)
    from sojourn.flows.placement.snapshot import read_snapshot
    from sojourn.flows.reports.rectify_table import migrations_table, nothing_words, print_migrations
    from sojourn.serving import Predictor

    predictor = Predictor.load(bundle)
    history_to_s = int(predictor.info()["training"].get("history_to_s", 0))
    if now_s is None:
        now_s = history_to_s
    pool = read_snapshot(snapshot, predictor, now_s)
    pool = replace(pool, view=replace(pool.view, migration_s=60 * minutes, n_at_once=at_once))
    table = migrations_table(pool, RECTIFIERS[rectifier](pool.view, asked.budget, asked.long_s))
    if now_s < history_to_s:
        typer.echo(f"warning: now_s must not be before the end of the bundle's history, {history_to_s}, got {now_s}: "
                   f"predictions know ends of the {(history_to_s - now_s) / 3_600:,.1f} hours between", err=True)
    for words in pool.warnings:
        typer.echo(f"warning: {words}", err=True)
    if out is not None:
        from sojourn.publishing import whole_file

        with whole_file(out) as temporary:
            table.to_csv(temporary, index=False)
    if len(table) == 0:
        typer.echo(nothing_words(pool, budget))
    else:
        print_migrations(table, minutes, at_once)


def _long_s(long_h: float | None) -> int:
    hours = 24.0 if long_h is None else long_h
    if not _LEAST_H <= hours <= _MOST_H:  # nan too
        raise ValueError(f"long_h must be hours in {_LEAST_H}..{_MOST_H}, got {hours:g}")
    return round(3_600 * hours)


def _check_out(out: Path, snapshot: Path, bundle: Path) -> None:
    """ValueError where the list can't be written there, or would stand in the place of what is read."""
    if out.is_dir():
        raise ValueError(f"out must be a file, got the folder {str(out)!r}")
    above = next(parent for parent in out.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(f"out must be a file in a folder that can be written to, got {str(out)!r}")
    tables = [snapshot / f"{name}{suffix}" for name in ("hosts", "requests") for suffix in (".csv", ".parquet")]
    is_table = any(out.resolve() == table.resolve() or (out.exists() and table.exists() and out.samefile(table))
                   for table in tables)
    if is_table or out.resolve().parent == bundle.resolve():
        raise ValueError(f"out must be no file of the snapshot or of the bundle, got {str(out)!r}")
