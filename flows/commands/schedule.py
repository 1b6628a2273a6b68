"""`sojourn schedule`: a job that runs without anyone watching."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import ConfigFile, ReaderName, StoreFolder, plain_errors


@plain_errors
def schedule(
    cron: Annotated[str, typer.Option(help="When: minute hour day month weekday, such as \"0 3 * * 1\".")],
    job: Annotated[str, typer.Option(help="What: retrain, train-usage or monitor.")] = "retrain",
    timezone: Annotated[str, typer.Option(help="IANA name; of the times in --cron.")] = "UTC",
    trace: Annotated[Path | None, typer.Option(
        help="Trace, series for train-usage, or outcomes for monitor. [default: none: a synthetic trace, or the log's "
             "own ends]")] = None,
    reader: ReaderName = None,
    config: ConfigFile = None,
    store: StoreFolder = None,
    is_printed: Annotated[bool, typer.Option(
        "--print", help="Print a prefect.yaml for a process work pool instead, and run nothing.")] = False,
) -> None:
    """Run a job on a schedule, until Ctrl-C; the champion is served from its folder throughout."""
    from sojourn.flows.environment import prefect_kept_in
    from sojourn.flows.jobs.schedule_settings import JOBS
    from sojourn.flows.settings.store import load_settings

    if job not in JOBS:
        raise ValueError(f"job must be one of {', '.join(JOBS)}, got {job!r}")
    names = ("usage_trace", "usage_reader") if job == "train-usage" else ("trace", "reader")
    settings = load_settings(JOBS[job], config, store=store, **dict(zip(names, (trace, reader), strict=True)))
    if is_printed:
        from sojourn.flows.jobs.deployment_file import deployment_file
        from sojourn.flows.jobs.next_times import next_times

        next_times(cron, timezone)
        typer.echo(deployment_file(settings, cron, timezone), nl=False)
        return
    with prefect_kept_in(settings.store):
        from sojourn.flows.jobs.schedule import run_on_schedule

        run_on_schedule(settings, cron, timezone, lambda line: typer.echo(line))
