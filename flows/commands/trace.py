"""`sojourn trace ...`: read, describe, convert, generate and fetch traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import Horizon, Reader, plain_errors
from sojourn.flows.commands.registry_help import RegistryCommand

trace_app = typer.Typer(help="Read, describe and convert traces.", no_args_is_help=True)


@trace_app.command("describe", cls=RegistryCommand)
@plain_errors
def trace_describe(
    path: Annotated[Path, typer.Argument(help="Trace file or folder.")],
    reader: Reader = "parquet",
    horizon_s: Horizon = None,
    picture: Annotated[Path | None, typer.Option(help="Write a picture (PNG): lifetimes, arrivals, use.")] = None,
) -> None:
    """A trace's requests, lifetimes, owners and use of its hosts, and what its reader refused."""
    from sojourn.features.describe import describe
    from sojourn.features.readers import read_trace

    trace, report = read_trace(reader, path, horizon_s=horizon_s)
    typer.echo(report.text())
    typer.echo("")
    typer.echo(describe(trace).text())
    if picture is not None:
        from sojourn.features.trace_figure import trace_figure

        trace_figure(trace).savefig(picture, dpi=110)
        typer.echo(f"\npicture  {picture}")


@trace_app.command("convert", cls=RegistryCommand)
@plain_errors
def trace_convert(
    path: Annotated[Path, typer.Argument(help="Trace file or folder.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    reader: Reader = "swf",
    horizon_s: Horizon = None,
) -> None:
    """Read a trace and write it in our own format, refused rows beside it."""
    from sojourn.features.readers import read_trace

    trace, report = read_trace(reader, path, horizon_s=horizon_s)
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
    from sojourn.flows.progress import stage

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
    from sojourn.flows.progress import stage

    with stage(f"fetch {name}") as report:
        path = fetch(name, folder, progress=report)
    note = TRACES[name].note
    typer.echo(f"licence  {TRACES[name].licence}{chr(10) + 'note     ' + note if note else ''}")
    typer.echo(f"next     sojourn trace describe {path} --reader {TRACES[name].reader}")
