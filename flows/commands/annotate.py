"""`sojourn annotate`: bounds of running requests' lifetimes, as lines that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.flows.commands.json_objects import json_objects
from sojourn.flows.commands.options import (
    READER_HELP,
    Horizon,
    MapFile,
    MapPairs,
    Timezone,
    is_there,
    plain_errors,
)
from sojourn.inflated import text_of

if TYPE_CHECKING:
    from sojourn.features.trace import Trace


@plain_errors
def annotate(
    bundle: Annotated[Path, typer.Argument(help="Bundle folder.")],
    trace: Annotated[Path, typer.Option(
        callback=is_there,
        help="Trace file or folder that holds what runs now: what has no end is annotated. What has ended since the "
             "training shows the coverage.")],
    reader: Annotated[str, typer.Option(help=READER_HELP)] = "parquet",
    consumer: Annotated[str, typer.Option("--for", help="Who reads it: {consumers}.")] = "json",
    quantile: Annotated[float, typer.Option(
        help="The share of requests that should end within their bound, above 0 and below 1.")] = 0.9,
    only: Annotated[Path | None, typer.Option(
        help="Text file of request ids, one a line: annotate no others. [default: all that run]")] = None,
    requests: Annotated[Path | None, typer.Option(
        help="File with one JSON object a line: requests that have not started, their columns and request_id; they are "
             "annotated in place of what runs. [default: none]")] = None,
    is_corrected: Annotated[bool, typer.Option(
        "--corrected", help="Ask the model for the quantile that held on the earlier half of the held-out requests.",
    )] = False,
    at_most: Annotated[str | None, typer.Option(
        help="No bound is longer, from the request's start, such as 12h or 2d. [default: none]")] = None,
    is_any_kind: Annotated[bool, typer.Option(
        "--any-kind", help="For karpenter: pods of all controllers, and not of Jobs and CronJobs alone.")] = False,
    output: Annotated[Path | None, typer.Option(
        help="File to write. [default: none: a dry run, which prints what would be written]")] = None,
    is_any_coverage_taken: Annotated[bool, typer.Option(
        "--any-coverage", help="Write the file even if coverage is unknown or more than 2 points too low.")] = False,
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
) -> None:
    """Write how long running pods or jobs will run, at most, as annotations that other programs read.

    Nothing is applied to a cluster: the lines are printed, or written to a file for you to run. The coverage of the
    bounds on requests that the model has not seen is said on standard error.
    """
    from sojourn.features.readers import span_s
    from sojourn.flows.annotation.annotate import Order, annotated

    order = Order(bundle, consumer, quantile, None if only is None else _ids(only), is_corrected,
                  None if requests is None else _requests(requests),
                  None if at_most is None else span_s(at_most, "--at-most"), is_any_kind)
    found = annotated(order, _read(trace, reader, horizon_s, column_map, map_file, timezone))
    for line in found.said:
        typer.echo(line, err=True)
    if output is None:
        typer.echo("".join(f"{line}\n" for line in found.lines), nl=False)
        typer.echo(f"dry run   {found.n_bounds:,} lines, nothing was written (--output FILE writes them)", err=True)
        return
    if found.refusal and not is_any_coverage_taken:
        raise ValueError(f"bounds must hold before they are written (--any-coverage writes them all the same), got: "
                         f"{found.refusal}")
    from sojourn.publishing import whole_file

    with whole_file(output) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in found.lines), encoding="utf-8")
    typer.echo(f"written   {output}: {found.n_bounds:,} lines", err=True)


def _read(path: Path, reader: str, horizon_s: int | None, column_map: list[str] | None, map_file: Path | None,
          timezone: str | None) -> Trace:
    from sojourn.features.readers import read_trace
    from sojourn.flows.settings.trace import ColumnOptions, column_keywords

    options = column_keywords(ColumnOptions(tuple(column_map or ()), map_file, timezone), reader)
    trace, report = read_trace(reader, path, horizon_s=horizon_s, **options)
    typer.echo(f"trace     {len(trace):,} requests of {path.name}, {report.n_refused:,} rows refused", err=True)
    return trace


def _requests(file: Path) -> dict[str, dict[str, Any]]:
    found = json_objects(text_of(file), f"{file}: line")
    if not found:
        raise ValueError(f"requests must be a file with one JSON object a line, got an empty one: {str(file)!r}")
    return found


def _ids(file: Path) -> frozenset[str]:
    found = frozenset(line.strip() for line in text_of(file).split("\n") if line.strip())
    if not found:
        raise ValueError(f"only must be a file of request ids, one a line, got an empty one: {str(file)!r}")
    return found
