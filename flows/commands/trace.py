"""`sojourn trace ...`: read, describe, convert, generate and fetch traces."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import (
    CommandGroup,
    Horizon,
    MapFile,
    MapPairs,
    Reader,
    RegistryCommand,
    Timezone,
    TraceArgument,
    keeps,
    plain_errors,
)

LEAST_REQUESTS = 10
"""With fewer, the check names no next command: a retraining would fail."""
trace_app = typer.Typer(cls=CommandGroup, help="Read, describe and convert traces.", no_args_is_help=True,
                        rich_markup_mode=None)


@trace_app.command("describe", cls=RegistryCommand)
@plain_errors
def trace_describe(
    path: TraceArgument,
    reader: Reader = "parquet",
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    picture: Annotated[Path | None, typer.Option(
        help="Write a picture (PNG): lifetimes, arrivals, use. [default: none]")] = None,
) -> None:
    """A trace's requests, lifetimes, owners and use of its hosts, and what its reader refused."""
    from sojourn.features.describe import describe
    from sojourn.features.readers import read_trace
    from sojourn.flows.settings.trace import ColumnOptions, column_keywords

    options = column_keywords(ColumnOptions(tuple(column_map or ()), map_file, timezone), reader)
    _check_path(path, reader)
    trace, report = read_trace(reader, path, horizon_s=horizon_s, **options)
    typer.echo(report.text())
    typer.echo("")
    typer.echo(describe(trace).text())
    if picture is not None:
        from sojourn.features.trace_figure import trace_figure

        trace_figure(trace).savefig(picture, dpi=110)
        typer.echo(f"\npicture  {picture}")


@trace_app.command("check", cls=RegistryCommand)
@plain_errors
def trace_check(
    path: TraceArgument,
    reader: Reader = "csv",
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
) -> None:
    """Say what would be read: columns and what they are, first and last time, what is censored and what is refused.

    Of a table whose columns were guessed or given by --map, TABLE.toml is written beside it, to edit; a file that is
    there stays as it is.
    """
    from sojourn.features.readers import check_lines, read_trace
    from sojourn.flows.settings.trace import ColumnOptions, column_keywords, maps_columns

    options = column_keywords(ColumnOptions(tuple(column_map or ()), map_file, timezone), reader)
    _check_path(path, reader)
    trace, report = read_trace(reader, path, horizon_s=horizon_s, **options)
    typer.echo("\n".join(check_lines(trace, report)))
    typer.echo("")
    given = "" if horizon_s is None else f" --horizon {horizon_s}"
    if "column_map" in trace.meta:
        written = path.with_name(f"{path.name}.toml") if map_file is None else map_file
        if written.exists():
            given += "" if map_file is None else f" --map-file {map_file}"
            given += "".join(f" --map {shlex.quote(pair)}" for pair in column_map or ())
            given += "" if timezone is None else f" --timezone {timezone}"
            typer.echo(f"columns  {written} says what they are; edit it and check again")
        else:
            try:
                written.write_text(trace.meta["column_map"], encoding="utf-8")
                typer.echo(f"written  {written} says what the columns are; edit it and check again")
            except OSError as error:
                typer.echo(f"columns  {written} cannot be written ({error.strerror}); keep this as a file and give it "
                           f"with --map-file:\n\n{trace.meta['column_map']}")
    elif timezone is not None:
        given += f" --timezone {timezone}"
    if not trace.is_event().any() and not maps_columns(reader):
        typer.echo("next     read a longer record: no request has an end, and without ends there is nothing to learn")
    elif not trace.is_event().any():
        typer.echo("next     say when requests ended (--map departure=COLUMN or duration=COLUMN): none has an end, and "
                   "without ends there is nothing to learn")
    elif len(trace) < LEAST_REQUESTS:
        typer.echo(f"next     read a longer table: {len(trace)} requests are too few for a model")
    else:
        typer.echo(f"next     sojourn retrain --trace {shlex.quote(str(path))} --reader {reader}{given}")


@trace_app.command("convert", cls=RegistryCommand)
@plain_errors
def trace_convert(
    path: TraceArgument,
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    reader: Reader = "swf",
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
) -> None:
    """Read a trace and write it in our own format, refused rows beside it."""
    from sojourn.features.readers import read_trace
    from sojourn.flows.settings.trace import ColumnOptions, column_keywords

    options = column_keywords(ColumnOptions(tuple(column_map or ()), map_file, timezone), reader)
    _check_path(path, reader)
    trace, report = read_trace(reader, path, horizon_s=horizon_s, **options)
    trace.save(folder)
    report.write_rejected(folder)
    typer.echo(report.text())
    typer.echo(f"\nwritten  {folder}")


@trace_app.command("synth")
@plain_errors
def trace_synth(
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    n_requests: Annotated[int, typer.Option(help="Requests, 1,000 at least.")] = 60_000,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    days: Annotated[float, typer.Option(help="Length, 1 to 3650 days.")] = 28.0,
    usage: Annotated[int, typer.Option(help="CPU usage series for this many of the longest requests.")] = 0,
) -> None:
    """Write a synthetic trace in our own format; the same options give the same rows."""
    from sojourn.features.synthetic import synthesize
    from sojourn.features.synthetic_usage import with_usage
    from sojourn.flows.console import stage

    if n_requests < 1_000:
        raise ValueError(f"n_requests must be at least 1,000 (shares of fewer mean little), got {n_requests!r}")
    with stage("synthesize"):
        trace, truth = synthesize(n_requests, seed=seed, days=days), None
    if usage:
        with stage("usage") as report:
            trace, truth = with_usage(trace, usage, seed=seed, progress=report)
    with stage("write"):
        trace.save(folder)
        if truth is not None:
            truth.to_parquet(folder / "usage_truth.parquet", index=False)
    typer.echo(f"written  {folder}\nnext     sojourn trace describe {folder}")


@trace_app.command("fetch")
@plain_errors
@keeps("what was fetched is; the same command goes on where it stopped")
def trace_fetch(
    name: Annotated[str | None, typer.Argument(help="Public trace; --list shows them.")] = None,
    folder: Annotated[Path, typer.Option(help="Folder of all fetched traces.")] = Path("traces"),
    is_list: Annotated[bool, typer.Option("--list", help="Name the known traces and their terms.")] = False,
) -> None:
    """Fetch a public trace from its publisher; a broken fetch goes on where it stopped."""
    from sojourn.features.fetch import TRACES, fetch

    if is_list:
        for key, known in TRACES.items():
            typer.echo(f"{key:<20}reader {known.reader:<15}{known.licence}{'; ' + known.note if known.note else ''}")
        return
    if name is None:
        raise ValueError("NAME must be given, got none (--list shows the known traces)")
    from sojourn.flows.console import stage

    with stage(f"fetch {name}") as report:
        path = fetch(name, folder, progress=report)
    note = TRACES[name].note
    typer.echo(f"licence  {TRACES[name].licence}{chr(10) + 'note     ' + note if note else ''}")
    typer.echo(f"next     sojourn trace describe {path} --reader {TRACES[name].reader}")


def _check_path(path: Path, reader: str) -> None:
    if reader == "parquet" and path.is_file():
        raise ValueError(f"reader parquet must be given a folder that sojourn wrote, got the file {str(path)!r} (a "
                         "table as CSV or Parquet: --reader csv)")
