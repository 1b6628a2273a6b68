"""`sojourn train-usage`: what requests use over time, learnt from usage series."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.exit_codes import CHALLENGER
from sojourn.flows.commands.interruption import keeps
from sojourn.flows.commands.options import Flags, plain_errors, takes
from sojourn.flows.environment import keep_prefect_in
from sojourn.flows.settings.other_jobs import TrainUsageConfig
from sojourn.flows.settings.store import load_settings


@plain_errors
@keeps("the champion is as it was; nothing of this run is")
@takes(TrainUsageConfig, "config", "store", "n_classes", "seed", "n_threads", "model_name", "dask")
def train_usage(
    flags: Flags,
    trace: Annotated[Path, typer.Argument(help="File or folder of usage series; with --reader synthetic any name.")],
    reader: Annotated[str | None, typer.Option(
        help="How to read the usage: {usage_readers}. [default: parquet]")] = None,
    option: Annotated[list[str] | None, typer.Option(
        "--set", help="Option of the reader, as NAME=VALUE (month=2013-7); repeat. "
                      "[default: the reader's own]")] = None,
    timezone: Annotated[str | None, typer.Option(
        help="IANA name; decides the local time of day. [default: UTC]")] = None,
) -> None:
    """Learn pulse waves and workload classes from usage series, and promote them if they beat one equal margin for all.

    Exit code 3 where they do not: the version is then only the challenger.
    """
    from sojourn.flows.commands.usage import reader_options

    options = reader_options(reader or "parquet", option) if option else None
    settings = load_settings(TrainUsageConfig, usage_trace=trace, usage_reader=reader, usage_options=options,
                             timezone=timezone, **flags)
    if settings.usage_reader != "synthetic" and not trace.exists():
        raise FileNotFoundError(f"trace must be a file or folder, got {str(trace)!r}")
    keep_prefect_in(settings.store)
    from sojourn.flows.jobs.train_usage import train_usage as run
    from sojourn.flows.outside.tracked_names import CHAMPION

    if run(settings).promotion.alias != CHAMPION:
        raise typer.Exit(CHALLENGER)
