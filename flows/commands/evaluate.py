"""`sojourn evaluate`: all lifetime families side by side on one trace."""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.flows.commands.interruption import keeps
from sojourn.flows.commands.options import (
    Confirmed,
    Dask,
    FitWorkers,
    Horizon,
    MapFile,
    MapPairs,
    Overlap,
    ReaderName,
    Seed,
    Since,
    StoreFolder,
    TestOffset,
    TestPath,
    TestReader,
    Threads,
    Timezone,
    TracePath,
    plain_errors,
)
from sojourn.flows.environment import keep_prefect_in


@plain_errors
@keeps("what was read of the trace is kept in the store, and the next run takes it")
def evaluate(
    trace: TracePath = None,
    reader: ReaderName = None,
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    since: Since = None,
    test: TestPath = None,
    test_reader: TestReader = None,
    test_offset_s: TestOffset = None,
    is_overlap_allowed: Overlap = None,
    family: Annotated[list[str] | None, typer.Option(
        help="Families to compare: {families}. [default: all]")] = None,
    store: StoreFolder = None,
    n_requests: Annotated[int | None, typer.Option(help="Requests of the synthetic trace. [default: 100000]")] = None,
    seed: Seed = None,
    n_threads: Threads = None,
    long_lived_s: Annotated[int | None, typer.Option(
        help="What counts as long-lived, seconds. [default: chosen from the earlier part]")] = None,
    confirm: Confirmed = None,
    dask: Dask = None,
    n_fit_workers: FitWorkers = None,
) -> None:
    """Compare every lifetime family on a trace's later part; nothing is promoted."""
    from sojourn.flows.jobs.preflight import check_before_work
    from sojourn.flows.settings.retrain import load_config
    from sojourn.models.lifetime import LIFETIME_MODELS

    settings = load_config(None, trace=trace, reader=reader, horizon_s=horizon_s,
                           column_map=tuple(column_map) if column_map else None, map_file=map_file,
                           trace_timezone=timezone, since=since, store=store, test=test,
                           test_reader=test_reader, test_offset_s=test_offset_s, is_overlap_allowed=is_overlap_allowed,
                           n_requests=n_requests, seed=seed, n_threads=n_threads,
                           families=tuple(family or LIFETIME_MODELS), long_lived_s=long_lived_s,
                           confirmed_columns=tuple(confirm) if confirm else None, dask=dask,
                           n_fit_workers=n_fit_workers)
    check_before_work(settings)
    keep_prefect_in(settings.store)
    from sojourn.flows.jobs.study import study

    study(settings)
