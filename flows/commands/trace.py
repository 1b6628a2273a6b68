"""Commands on traces: `check`, `trace` describes, converts, makes and fetches them, `usage describe` shows what
requests use over time."""

from __future__ import annotations

import inspect
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.flows.commands.options import Flags, Json, TraceArgument, keeps, plain_errors, print_json, takes
from sojourn.flows.settings.other_jobs import DESCRIBED, DescribeUsageConfig
from sojourn.flows.settings.store import load_settings
from sojourn.flows.settings.trace import ReadSettings, has_option

if TYPE_CHECKING:
    from sojourn.features.read_report import ReadReport
    from sojourn.features.trace import Trace
    from sojourn.flows.usage.describe_usage import UsageDescription

_READING = ("horizon_s", "column_map", "map_file", "timezone")
LEAST_REQUESTS = 10
"""With fewer, the check names no next command: a retraining would fail."""
ENOUGH_ENDS = 340
"""With fewer, no version passes its gates."""


@plain_errors
@takes(ReadSettings, "reader", rare=_READING)
def describe(
    flags: Flags,
    path: TraceArgument,
    picture: Annotated[Path | None, typer.Option(
        help="Write a picture (PNG): lifetimes, arrivals, use. [default: none]")] = None,
    is_json: Json = False,
) -> None:
    """A trace's requests, lifetimes, owners and use of its hosts, and what its reader refused."""
    from sojourn.features.describe import describe as described

    trace, report, _ = _read(path, flags)
    summary = described(trace)
    if is_json:
        print_json({**report.summary(), **asdict(summary), "binding": summary.binding})
    else:
        typer.echo(f"{report.text()}\n\n{summary.text()}")
    if picture is not None:
        from sojourn.features.trace_figure import trace_figure

        trace_figure(trace).savefig(picture, dpi=110)
        typer.echo(f"\npicture  {picture}", err=is_json)


@plain_errors
@takes(ReadSettings, "reader", rare=_READING)
def check(
    flags: Flags,
    path: TraceArgument,
    is_json: Json = False,
) -> None:
    """Say what would be read: columns and what they are, first and last time, what is censored and what is refused.

    Of a table whose columns were guessed or given by --column-map, TABLE.toml is written beside it, to edit; a file
    that is there stays as it is.
    """
    from sojourn.features.readers import check_facts, check_lines

    trace, report, settings = _read(path, flags)
    lines = [*check_lines(trace, report), ""]
    given = "" if settings.horizon_s is None else f" --horizon-s {settings.horizon_s}"
    if "column_map" in trace.meta:
        written = path.with_name(f"{path.name}.toml") if settings.map_file is None else settings.map_file
        if written.exists():
            given += "" if settings.map_file is None else f" --map-file {settings.map_file}"
            given += "".join(f" --column-map {shlex.quote(pair)}" for pair in settings.column_map)
            given += "" if settings.timezone is None else f" --timezone {settings.timezone}"
            lines.append(f"columns  {written} says what they are; edit it and check again")
        else:
            try:
                written.write_text(trace.meta["column_map"], encoding="utf-8")
                lines.append(f"written  {written} says what the columns are; edit it and check again")
            except OSError as error:
                lines.append(f"columns  {written} cannot be written ({error.strerror}); keep this as a file and give "
                             f"it with --map-file:\n\n{trace.meta['column_map']}")
    elif settings.timezone is not None:
        given += f" --timezone {settings.timezone}"
    if not trace.is_event().any():
        missing = ("say when requests ended (--column-map departure=COLUMN or duration=COLUMN): none"
                   if has_option(settings.reader, "columns") else "read a longer record: no request")
        lines.append(f"next     {missing} has an end, and without ends there is nothing to learn")
    elif len(trace) < LEAST_REQUESTS:
        lines.append(f"next     read a longer table: {len(trace)} requests are too few for a model")
    else:
        file = f"{shlex.quote(str(path))} --reader {settings.reader}{given}"
        lines.append(f"next     sojourn gain {file}\n         sojourn train {file}")
    n_ended = int(trace.is_event().sum())
    if len(trace) >= LEAST_REQUESTS and 0 < n_ended < ENOUGH_ENDS:
        lines.insert(-1, f"few      {n_ended:,} requests have ended: a model's gates need some {ENOUGH_ENDS} (100 in "
                         "the last 30 %)")
    if is_json:
        print_json({**check_facts(trace, report), "column_map_toml": trace.meta.get("column_map"),
                    "next": lines[-1].removeprefix("next     ").split("\n         ")})
    else:
        from sojourn.flows.console import console, fitted

        typer.echo("\n".join(fitted(lines, console.width)))


@plain_errors
@takes(ReadSettings, "reader", rare=_READING)
def convert(
    flags: Flags,
    path: TraceArgument,
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
) -> None:
    """Read a trace and write it in our own format, refused rows beside it."""
    trace, report, _ = _read(path, flags)
    trace.save(folder)
    report.write_rejected(folder)
    typer.echo(report.text())
    typer.echo(f"\nwritten  {folder}")


@plain_errors
def synth(
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


@plain_errors
@keeps("what was fetched is; the same command goes on where it stopped")
def fetch(
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


def _read(path: Path, flags: Flags) -> tuple[Trace, ReadReport, ReadSettings]:
    """The trace, what its reader refused, and how it was read; a table is no folder in our own format."""
    settings = load_settings(ReadSettings, trace=path, **flags)
    if settings.reader == "parquet" and path.is_file():
        raise ValueError(f"reader parquet must be given a folder that sojourn wrote, got the file {str(path)!r} (a "
                         "table as CSV or Parquet: --reader csv)")
    from sojourn.features.readers import read_trace

    return (*read_trace(settings.reader, path, **settings.reading), settings)


@plain_errors
@takes(DescribeUsageConfig, "usage_reader", "day_timezone", "step_s", "n_classes", "out")
def describe_usage(
    flags: Flags,
    path: TraceArgument,
    option: Annotated[list[str] | None, typer.Option(
        "--set", help="Option of the reader, as NAME=VALUE (month=2013-7,2013-8); repeat. "
                      "[default: the reader's own]")] = None,
) -> None:
    """Which requests are periodic and how, and which classes of days there are."""
    reader = flags["usage_reader"] or "parquet"
    options = reader_options(reader, option or [])
    settings = load_settings(DescribeUsageConfig, usage_options=options, **flags)
    from sojourn.features.usage import read_usage
    from sojourn.flows.console import console, stage
    from sojourn.flows.usage.describe_usage import describe_usage
    from sojourn.flows.usage.report import summary_lines, usage_tables

    out = settings.out
    stream = read_usage(reader, path, timezone=settings.day_timezone, **options)
    with stage("read and fit") as report:
        found = describe_usage(stream, step_s=settings.step_s, n_classes=settings.n_classes, progress=report,
                               folder=None if out is None else out / "usage")
    typer.echo(found.report.text())
    typer.echo("")
    for line in summary_lines(found):
        typer.echo(line)
    for table in usage_tables(found):
        console.print("")
        console.print(table)
    if out is not None:
        for written in _written(found, out):
            typer.echo(f"written  {written}")


def reader_options(reader: str, given: list[str]) -> dict[str, Any]:
    """Options of the reader, in the type of their default; text where that is None."""
    from sojourn.features.usage import USAGE_READERS

    if reader not in USAGE_READERS:
        raise ValueError(f"reader must be one of {', '.join(USAGE_READERS)}; got {reader!r}")
    parameters = inspect.signature(USAGE_READERS[reader].stream).parameters
    found: dict[str, Any] = {}
    for each in given:
        name, separator, text = each.partition("=")
        known = (*USAGE_READERS[reader].options, "max_cpu")
        if not separator or name not in known:
            raise ValueError(f"--set must be NAME=VALUE with a name of {reader} ({', '.join(known)}), got {each!r}")
        default = parameters[name].default
        if isinstance(default, bool):
            if text not in ("true", "false"):
                raise ValueError(f"{name} must be true or false, got {text!r}")
            found[name] = text == "true"
        elif isinstance(default, int | float):
            try:
                found[name] = type(default)(text)
            except ValueError as error:
                raise ValueError(f"{name} must be a number, got {text!r}") from error
        else:
            found[name] = text
    return found


def _written(found: UsageDescription, out: Path) -> list[Path]:
    """Write the pictures and the table; the store is there already."""
    from sojourn.flows.usage.report import classes_figure, errors_figure, examples_figure, period_figure, request_figure
    from sojourn.models.periodicity import PeriodicitySettings
    from sojourn.publishing import whole_file

    figures = {"periods.png": period_figure(found.fits, found.source), "series.png": examples_figure(found)}
    errors = errors_figure(found)
    if errors is not None:
        figures["errors.png"] = errors
    if found.example_fits.is_periodic[0]:
        figures["spectrum.png"] = request_figure(found.examples, found.example_fits, 0, PeriodicitySettings(),
                                                 f"request {found.examples.request_ids[0]}")
    if len(found.centres):
        figures["classes.png"] = classes_figure(found)
    for name, figure in figures.items():
        with whole_file(out / name) as temporary:
            figure.savefig(temporary, dpi=110, format="png")
    with whole_file(out / "series.parquet") as temporary:
        found.table.to_parquet(temporary, index=False)
    for name in DESCRIBED:
        if name not in (*figures, "series.parquet"):
            (out / name).unlink(missing_ok=True)  # of an earlier run
    return [*(out / name for name in figures), out / "series.parquet", out / "usage"]
