"""Commands that train and watch models: `train`, `usage train`, `lab evaluate`, `lab search`, `model monitor` and
`model schedule`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import (
    ALARM,
    CHALLENGER,
    ConfigFile,
    Flags,
    StoreFolder,
    keeps,
    plain_errors,
    takes,
)
from sojourn.flows.process import keep_prefect_in
from sojourn.flows.settings.other_jobs import MonitorConfig, TrainUsageConfig
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import load_settings
from sojourn.flows.settings.trace import has_option


@plain_errors
@keeps("the champion is as it was; what was read of the trace is kept in the store, and the next run takes it")
@takes(RetrainConfig, "trace", "reader", "model_name", "load", "host_cpu_cores", "host_mem_gib", "since", "config",
       "store", rare=("refresh", "simulate", "again", "seed", "n_threads", "n_requests", "horizon_s", "column_map",
                      "map_file", "timezone", "confirmed_columns", "test", "test_reader", "test_offset_s",
                      "allow_overlap", "allow_shrunk", "dask"))
def train(flags: Flags) -> None:
    """Train, evaluate on later requests and in simulation, and promote the model if it passes every gate.

    Exit code 3 if it does not: the version is then only the challenger.
    """
    from sojourn.flows.retrain.verdict import kept_answer

    settings = load_settings(RetrainConfig, **flags)
    kept = kept_answer(settings)
    if kept is not None:
        if not kept.is_champion:
            raise typer.Exit(CHALLENGER)
        return
    from sojourn.flows.workers.flow import check_before_work

    check_before_work(settings)
    keep_prefect_in(settings.store)
    from sojourn.flows.retrain.job import retrain as run
    from sojourn.flows.tracking.tracker import CHAMPION

    if run(settings).promotion.alias != CHAMPION:
        raise typer.Exit(CHALLENGER)


@plain_errors
@keeps("what was read of the trace is kept in the store, and the next run takes it")
@takes(RetrainConfig, "trace", "reader", "since", "long_lived_s", "store",
       rare=("seed", "n_threads", "n_requests", "horizon_s", "column_map", "map_file", "timezone", "confirmed_columns",
             "test", "test_reader", "test_offset_s", "allow_overlap", "dask"))
def evaluate(
    flags: Flags,
    family: Annotated[list[str] | None, typer.Option(
        help="Families to compare: {families}. [default: all]")] = None,
) -> None:
    """Compare every lifetime family on a trace's later part; nothing is promoted."""
    from sojourn.flows.workers.flow import check_before_work
    from sojourn.models.lifetime import LIFETIME_MODELS

    settings = load_settings(RetrainConfig, families=tuple(family or LIFETIME_MODELS), **flags)
    check_before_work(settings)
    keep_prefect_in(settings.store)
    from sojourn.flows.study.study import study

    study(settings)


@plain_errors
@keeps("finished trials are in the store, and the same command goes on from there")
@takes(RetrainConfig, "store", rare=("seed", "n_threads", "n_requests", "column_map", "map_file", "timezone", "dask"))
def search(
    flags: Flags,
    on: Annotated[list[str] | None, typer.Option(
        help="Traces, as READER=PATH, or `synthetic`; repeat. [default: synthetic]")] = None,
    family: Annotated[str, typer.Option(
        help="The family whose hyperparameters are searched: {searched}.")] = "hazard",
    horizon_s: Annotated[list[int] | None, typer.Option(
        help="When a trace's observation ended, seconds on its clock; once for each file of --on, in their "
             "order. [default: found in the files]")] = None,
    n_trials: Annotated[int, typer.Option(help="Trials in all, those of earlier runs in the store included.")] = 40,
    timeout_s: Annotated[float, typer.Option(help="No trial begins after this many seconds.")] = 1_800.0,
) -> None:
    """Search a family's hyperparameters on validation windows alone; test windows are not read."""
    from sojourn.flows.workers.flow import check_before_work

    traces = [each.partition("=")[::2] for each in on or ["synthetic"]]
    n_files = sum(bool(path) for _, path in traces)
    if horizon_s and len(horizon_s) != n_files:
        raise ValueError(f"--horizon-s must be given once for each of the {n_files} files of --on, or not at all, got "
                         f"{len(horizon_s)}")
    horizons = iter(horizon_s or ())
    columns, timezone = {name: flags.pop(name) for name in ("column_map", "map_file")}, flags.pop("timezone")
    if any(columns.values()) and not any(has_option(reader, "columns") for reader, _ in traces):
        raise ValueError("--column-map and --map-file must be given with a table, as csv=PATH, got none in --on")
    if timezone and not any(has_option(reader, "timezone") for reader, _ in traces):
        raise ValueError("--timezone must be given with csv=PATH or slurm=PATH, got none in --on")
    configs = [load_settings(RetrainConfig, trace=Path(path) if path else None, reader=reader,
                             horizon_s=next(horizons, None) if path else None,
                             timezone=timezone if has_option(reader, "timezone") else None,
                             **(columns if has_option(reader, "columns") else {}), **flags) for reader, path in traces]
    for each in configs:
        check_before_work(each)
    keep_prefect_in(configs[0].store)
    from sojourn.flows.study.search import search as run

    run(configs, family, n_trials, timeout_s)


@plain_errors
@keeps("the champion is as it was; nothing of this run is")
@takes(TrainUsageConfig, "usage_reader", "day_timezone", "model_name", "n_classes", "config", "store",
       rare=("seed", "n_threads", "dask"))
def train_usage(
    flags: Flags,
    trace: Annotated[Path, typer.Argument(
        help="File or folder of usage series; with --usage-reader synthetic any name.", metavar="FILE")],
    option: Annotated[list[str] | None, typer.Option(
        "--set", help="Option of the reader, as NAME=VALUE (month=2013-7); repeat. "
                      "[default: the reader's own]")] = None,
) -> None:
    """Learn pulse waves and workload classes from usage series, and promote them if they beat one equal margin for all.

    Exit code 3 if they do not: the version is then only the challenger.
    """
    from sojourn.flows.commands.trace import reader_options

    options = reader_options(flags["usage_reader"] or "parquet", option) if option else None
    settings = load_settings(TrainUsageConfig, usage_trace=trace, usage_options=options, **flags)
    if settings.usage_reader != "synthetic" and not trace.exists():
        raise FileNotFoundError(f"trace must be a file or folder, got {str(trace)!r}")
    keep_prefect_in(settings.store)
    from sojourn.flows.tracking.tracker import CHAMPION
    from sojourn.flows.usage.train_usage import train_usage as run

    if run(settings).promotion.alias != CHAMPION:
        raise typer.Exit(CHALLENGER)


@plain_errors
@takes(MonitorConfig, "trace", "reader", "log", "alias", "retrain_deployment", "retrain_config", "store", "config",
       rare=("as_of_s", "detector", "long_lived_s", "refractory_days", "max_age_days", "horizon_s", "column_map",
             "map_file", "timezone"))
def monitor(
    flags: Flags,
    name: Annotated[str, typer.Argument(help="Registered model.")],
) -> None:
    """Compare logged decisions with what became of them, week by week, and look for a drift.

    Exit code 4: there is a fresh alarm, and the same version still answers.
    """
    from sojourn.flows.workers.flow import check_before_work

    settings = load_settings(MonitorConfig, model_name=name, **flags)
    if settings.retrain_config is not None and not settings.retrain_config.is_file():
        raise FileNotFoundError(f"retrain_config must be a TOML file, got {str(settings.retrain_config)!r}")
    check_before_work(settings)
    keep_prefect_in(settings.store)
    from sojourn.flows.monitor.job import monitor as run

    if run(settings).is_open:
        raise typer.Exit(ALARM)


@plain_errors
def schedule(
    cron: Annotated[str, typer.Option(help="When: minute hour day month weekday, such as \"0 3 * * 1\".")],
    job: Annotated[str, typer.Option(help="What: retrain, train-usage or monitor.")] = "retrain",
    cron_timezone: Annotated[str, typer.Option(help="IANA name; of the times in --cron.")] = "UTC",
    trace: Annotated[Path | None, typer.Option(
        help="Trace, series for train-usage, or outcomes for monitor. [default: none: a synthetic trace, or the log's "
             "own ends]")] = None,
    reader: Annotated[str | None, typer.Option(
        help="How to read the trace: {readers}. [default: by the file's name]")] = None,
    config: ConfigFile = None,
    store: StoreFolder = None,
    is_printed: Annotated[bool, typer.Option(
        "--print", help="Print a prefect.yaml for a process work pool instead, and run nothing.")] = False,
) -> None:
    """Run a job on a schedule, until Ctrl-C; the champion is served from its folder throughout."""
    from sojourn.flows.process import prefect_kept_in
    from sojourn.flows.schedule.deployment import JOBS

    if job not in JOBS:
        raise ValueError(f"job must be one of {', '.join(JOBS)}, got {job!r}")
    names = ("usage_trace", "usage_reader") if job == "train-usage" else ("trace", "reader")
    settings = load_settings(JOBS[job], config, store=store, **dict(zip(names, (trace, reader), strict=True)))
    if is_printed:
        from sojourn.flows.schedule.deployment import deployment_file, next_times

        next_times(cron, cron_timezone)
        typer.echo(deployment_file(settings, cron, cron_timezone), nl=False)
        return
    with prefect_kept_in(settings.store):
        from sojourn.flows.schedule.run import run_on_schedule

        run_on_schedule(settings, cron, cron_timezone, lambda line: typer.echo(line))
