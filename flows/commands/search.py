"""`sojourn search`: hyperparameters of a family."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.interruption import keeps
from sojourn.flows.commands.options import Flags, plain_errors, takes
from sojourn.flows.environment import keep_prefect_in
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import load_settings
from sojourn.flows.settings.trace import maps_columns, takes_timezone


@plain_errors
@keeps("finished trials are in the store, and the same command goes on from there")
@takes(RetrainConfig, "column_map", "map_file", "trace_timezone", "store", "n_requests", "seed", "n_threads", "dask")
def search(
    flags: Flags,
    on: Annotated[list[str] | None, typer.Option(
        help="Traces, as READER=PATH, or `synthetic`; repeat. [default: synthetic]")] = None,
    family: Annotated[str, typer.Option(
        help="The family whose hyperparameters are searched: {searched}.")] = "hazard",
    horizon_s: Annotated[list[int] | None, typer.Option(
        "--horizon", help="When a trace's observation ended, seconds on its clock; once for each file of --on, in "
                          "their order. [default: found in the files]")] = None,
    n_trials: Annotated[int, typer.Option(help="Trials in all, those of earlier runs in the store included.")] = 40,
    timeout_s: Annotated[float, typer.Option(help="No trial begins after this many seconds.")] = 1_800.0,
) -> None:
    """Search a family's hyperparameters on validation windows alone; test windows are not read."""
    from sojourn.flows.jobs.preflight import check_before_work

    traces = [each.partition("=")[::2] for each in on or ["synthetic"]]
    n_files = sum(bool(path) for _, path in traces)
    if horizon_s and len(horizon_s) != n_files:
        raise ValueError(f"--horizon must be given once for each of the {n_files} files of --on, or not at all, got "
                         f"{len(horizon_s)}")
    horizons = iter(horizon_s or ())
    columns, timezone = {name: flags.pop(name) for name in ("column_map", "map_file")}, flags.pop("trace_timezone")
    if any(columns.values()) and not any(maps_columns(reader) for reader, _ in traces):
        raise ValueError("--map and --map-file must be given with a table, as csv=PATH, got none in --on")
    if timezone and not any(takes_timezone(reader) for reader, _ in traces):
        raise ValueError("--timezone must be given with csv=PATH or slurm=PATH, got none in --on")
    configs = [load_settings(RetrainConfig, trace=Path(path) if path else None, reader=reader,
                             horizon_s=next(horizons, None) if path else None,
                             trace_timezone=timezone if takes_timezone(reader) else None,
                             **(columns if maps_columns(reader) else {}), **flags) for reader, path in traces]
    for each in configs:
        check_before_work(each)
    keep_prefect_in(configs[0].store)
    from sojourn.flows.jobs.search import search as run

    run(configs, family, n_trials, timeout_s)
