"""`sojourn usage ...`: what requests use over time."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.flows.commands.options import CommandGroup, RegistryCommand, TraceArgument, plain_errors

if TYPE_CHECKING:
    from sojourn.flows.usage.describe_usage import UsageDescription

_FILES = ("classes.png", "errors.png", "periods.png", "series.parquet", "series.png", "spectrum.png")
"""What `describe` writes beside the store `usage`."""

usage_app = typer.Typer(cls=CommandGroup,
                        help="See what requests use over time.", no_args_is_help=True, rich_markup_mode=None)


@usage_app.callback()
def _group() -> None:
    """A group, so that its one command keeps its name."""


@usage_app.command("describe", cls=RegistryCommand)
@plain_errors
def usage_describe(
    path: TraceArgument,
    reader: Annotated[str, typer.Option(help="How to read the usage: {usage_readers}.")] = "parquet",
    option: Annotated[list[str] | None, typer.Option(
        "--set", help="Option of the reader, as NAME=VALUE (month=2013-7,2013-8); repeat. "
                      "[default: the reader's own]")] = None,
    timezone: Annotated[str, typer.Option(help="IANA name; decides the local time of day.")] = "UTC",
    step_s: Annotated[int, typer.Option(help="Step that waves are fitted on, seconds.")] = 300,
    n_classes: Annotated[int, typer.Option(help="Classes of series with the same day, at most.")] = 20,
    out: Annotated[Path | None, typer.Option(
        help="Folder for the pictures (PNG), a table of all series and the stored series. [default: none]")] = None,
) -> None:
    """Which requests are periodic and how, and which classes of days there are."""
    from sojourn.features.usage import read_usage
    from sojourn.flows.console import console, stage
    from sojourn.flows.usage.describe_usage import MAX_STEP_S, describe_usage
    from sojourn.flows.usage.report import summary_lines, usage_tables

    stream = read_usage(reader, path, timezone=timezone, **reader_options(reader, option or []))
    if not 1 <= step_s < MAX_STEP_S:
        raise ValueError(f"step_s must be at least 1 and below {MAX_STEP_S}, got {step_s!r}")
    if out is not None:
        _check_out(out)
    with stage("read and fit") as report:
        found = describe_usage(stream, step_s=step_s, n_classes=n_classes, progress=report,
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


def _check_out(out: Path) -> None:
    """Refuse a folder with files of the user, before anything is read; what this command wrote is replaced."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"out must be a folder, got the file {str(out)!r}")
    odd = [path.name for path in sorted(out.iterdir()) if not _is_written(path.name)] if out.is_dir() else []
    if odd:
        raise ValueError(f"out must be new, empty or a folder of `usage describe`, got something else in {str(out)!r}: "
                         f"{odd[0]!r}")


def _is_written(name: str) -> bool:
    """Whether this command writes it, or a run that was killed left it."""
    return name in (*_FILES, "usage") or name.startswith(tuple(f".{each}." for each in (*_FILES, "usage")))


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
    for name in _FILES:
        if name not in (*figures, "series.parquet"):
            (out / name).unlink(missing_ok=True)  # of an earlier run
    return [*(out / name for name in figures), out / "series.parquet", out / "usage"]
