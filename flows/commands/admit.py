"""`sojourn admit`: which jobs are accepted when each must meet its deadline on the cores that the power allows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import (
    READER_HELP,
    ConfigFile,
    Horizon,
    MapFile,
    MapPairs,
    Seed,
    StoreFolder,
    Timezone,
    is_there,
    plain_errors,
)


@plain_errors
def admit(
    trace: Annotated[Path, typer.Argument(
        callback=is_there, help="Trace file or folder: jobs with their cores and run times.")],
    reader: Annotated[str, typer.Option(help=READER_HELP)] = "parquet",
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    policy: Annotated[list[str] | None, typer.Option(
        help="Acceptance: {acceptances}; may be repeated. [default: greedy]")] = None,
    allocation: Annotated[list[str] | None, typer.Option(
        help="Cores of a job: {allocations}; may be repeated. [default: best-fit]")] = None,
    backfill: Annotated[bool, typer.Option(
        "--backfill", help="Also each greedy pairing with conservative backfilling.")] = False,
    slack: Annotated[list[float] | None, typer.Option(
        help="By what share of its run time a job may end later; may be repeated. [default: 0.5]")] = None,
    sigma: Annotated[float | None, typer.Option(
        help="Deviation of the logarithm of slacks. [default: slack / 2.5]")] = None,
    mean: Annotated[str | None, typer.Option(
        help="Which mean --slack is: geometric or arithmetic. [default: geometric]")] = None,
    cores: Annotated[int | None, typer.Option(
        help="Cores that are on. [default: as many as the load of each day fills]")] = None,
    core_limit: Annotated[int | None, typer.Option(help="Leave out jobs on more cores. [default: none]")] = None,
    n_days: Annotated[int | None, typer.Option(help="Days with the most jobs, at most. [default: 10]")] = None,
    n_draws: Annotated[int | None, typer.Option(help="Draws of slacks for each day. [default: 10]")] = None,
    seed: Seed = None,
    power: Annotated[Path | None, typer.Option(
        help="CSV file with the power over time, from the start of a day: time_s and cores, or watts; instead of "
             "--cores. [default: none]")] = None,
    repeat_power: Annotated[bool, typer.Option("--repeat-power", help="The profile is that of every day.")] = False,
    idle_w: Annotated[float | None, typer.Option(help="Power of an idle core, W. [default: 60]")] = None,
    busy_w: Annotated[float | None, typer.Option(help="Power of a busy core, W. [default: 100]")] = None,
    sweep: Annotated[bool, typer.Option(
        "--sweep", help="Instead: all rules over cores, slacks and limits of width.")] = False,
    predict: Annotated[str | None, typer.Option(
        help="Instead: accept by quantiles of predicted run times, beside the user's estimate, on the later days: "
             "{families}, or bundle:FOLDER; estimate: that estimate alone, ends told or not. [default: none]")] = None,
    quantile: Annotated[list[float] | None, typer.Option(
        help="Of --predict; may be repeated. [default: 0.5 0.75 0.9 0.95]")] = None,
    config: ConfigFile = None,
    store: StoreFolder = None,
    out: Annotated[Path | None, typer.Option(
        help="Folder for tables (CSV) and pictures (PNG). [default: none]")] = None,
    page: Annotated[Path | None, typer.Option(
        help="HTML page to write, with the tables and pictures. [default: none]")] = None,
    n_workers: Annotated[int | None, typer.Option(help="Processes. [default: cores]")] = None,
) -> None:
    """Admit jobs that must meet deadlines on a limited number of cores: rules side by side on the same days.

    Deadlines are drawn from slacks, since logs have none. The first policy and allocation are the baseline.
    """
    from sojourn.flows.evaluations.admit_config import AdmitConfig
    from sojourn.flows.jobs.preflight import check_before_work
    from sojourn.flows.settings.store import load_settings

    settings = load_settings(
        AdmitConfig, config, trace=trace, reader=reader, horizon_s=horizon_s,
        column_map=tuple(column_map) if column_map else None, map_file=map_file, trace_timezone=timezone,
        policies=policy, allocations=allocation,
        is_backfilled=backfill or None, slacks=slack, sigma=sigma, mean=mean, cores=cores, core_limit=core_limit,
        n_days=n_days, n_draws=n_draws, seed=seed, power=power, is_power_repeated=repeat_power or None, idle_w=idle_w,
        busy_w=busy_w, is_sweep=sweep or None, predict=predict, quantiles=quantile, store=store, out=out,
        page=page, n_workers=n_workers)
    check_before_work(settings)
    from sojourn.flows.evaluations.admit import run_admit, run_predicted, run_sweep
    from sojourn.flows.stages.kept_trace import with_kept_trace

    run = run_predicted if settings.predict else run_sweep if settings.is_sweep else run_admit
    run(with_kept_trace(settings))
