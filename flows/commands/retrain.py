"""`sojourn retrain`: the whole job on a trace."""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.flows.commands.exit_codes import CHALLENGER
from sojourn.flows.commands.interruption import keeps
from sojourn.flows.commands.options import (
    ConfigFile,
    Confirmed,
    Dask,
    FitWorkers,
    Horizon,
    HostCores,
    HostMemory,
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
@keeps("the champion is as it was; what was read of the trace is kept in the store, and the next run takes it")
def retrain(
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
    is_shrunk_allowed: Annotated[bool | None, typer.Option(
        "--allow-shrunk", help="Take a source that grows even if it holds less than when it was last read.")] = None,
    is_again: Annotated[bool | None, typer.Option(
        "--again", help="Train even if nothing has changed since a finished run.")] = None,
    config: ConfigFile = None,
    store: StoreFolder = None,
    n_requests: Annotated[int | None, typer.Option(help="Requests of the synthetic trace. [default: 100000]")] = None,
    seed: Seed = None,
    n_threads: Threads = None,
    load: Annotated[float | None, typer.Option(help="Peak load of the simulated hosts, 0 to 1. [default: 0.8]")] = None,
    host_cpu_cores: HostCores = None,
    host_mem_gib: HostMemory = None,
    is_refreshed: Annotated[bool | None, typer.Option(
        "--refresh/--no-refresh", help="Learn a model that predicts running requests anew. [default: refresh]")] = None,
    is_simulated: Annotated[bool | None, typer.Option(
        "--simulate/--no-simulate", help="Replay placements. [default: simulate]")] = None,
    model_name: Annotated[str | None, typer.Option(
        help="Name in the model registry. [default: sojourn-lifetime, of a file sojourn-lifetime-FILE]")] = None,
    confirm: Confirmed = None,
    dask: Dask = None,
    n_fit_workers: FitWorkers = None,
) -> None:
    """Train, evaluate on later requests and in simulation, and promote the model if it passes every gate.

    Exit code 3 where it does not: the version is then only the challenger.
    """
    from sojourn.flows.jobs.preflight import check_before_work
    from sojourn.flows.settings.retrain import load_config

    settings = load_config(config, trace=trace, reader=reader, horizon_s=horizon_s,
                           column_map=tuple(column_map) if column_map else None, map_file=map_file,
                           trace_timezone=timezone, since=since, test=test,
                           test_reader=test_reader, test_offset_s=test_offset_s, is_overlap_allowed=is_overlap_allowed,
                           is_shrunk_allowed=is_shrunk_allowed, is_again=is_again, store=store,
                           n_requests=n_requests, seed=seed, n_threads=n_threads, load=load,
                           host_cpu_cores=host_cpu_cores, host_mem_gib=host_mem_gib,
                           is_refreshed=is_refreshed, is_simulated=is_simulated, model_name=model_name,
                           confirmed_columns=tuple(confirm) if confirm else None, dask=dask,
                           n_fit_workers=n_fit_workers)
    check_before_work(settings)
    keep_prefect_in(settings.store)
    from sojourn.flows.jobs.retrain import retrain as run
    from sojourn.flows.outside.tracked_names import CHAMPION

    if run(settings).promotion.alias != CHAMPION:
        raise typer.Exit(CHALLENGER)
