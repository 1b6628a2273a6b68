"""Commands on a pool or a day: `gain` replays a trace, `lab rectify` lists today's live migrations, `lab eta` says
when waiting jobs start, `lab plan` sets start times of a day's jobs, `lab admit` accepts jobs with deadlines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.admission.settings import AdmitConfig
from sojourn.flows.commands.options import CELL_FAILED, Flags, Json, StoreFolder, keeps, plain_errors, print_json, takes
from sojourn.flows.compare.settings import QUEUE, CompareConfig
from sojourn.flows.settings.other_jobs import EtaConfig, PlanConfig, RectifyConfig
from sojourn.flows.settings.store import StoreSettings, load_settings


@plain_errors
@keeps("finished cells are in the store, and the same command goes on from there")
@takes(CompareConfig, "trace", "reader", "policies", "predictors", "loads", "host_cpu_cores", "host_mem_gib",
       "price_per_host_hour", "page", "picture", "store", "config",
       rare=("preset", "recipe", "rectifiers", "starts", "seeds", "n_seeds", "n_requests", "horizon_s", "column_map",
             "map_file", "timezone", "processors", "queues", "n_workers", "dask"))
def gain(
    flags: Flags,
    is_json: Json = False,
) -> None:
    """Say how many hosts a policy that knows lifetimes would leave empty on a trace, with perfect or predicted ones.

    Replays policies x predictors x loads x seeds in pairs against best-fit. Finished replays are not run again. With
    `--preset queue` it says how many hours of waiting a batch system's users would save.
    """
    settings = load_settings(CompareConfig, **flags)
    from sojourn.flows.workers.flow import check_before_work

    check_before_work(settings)
    from sojourn.flows.compare.comparison import run_comparison
    from sojourn.flows.console import leaving_stdout, stage
    from sojourn.flows.retrain.ingest import with_kept_trace
    from sojourn.flows.versions.promotion import open_store

    settings = with_kept_trace(settings)
    if settings.preset == QUEUE:
        from sojourn.flows.compare.queues import run_queue_gain

        with leaving_stdout(is_json):
            waiting = run_queue_gain(settings, open_store(settings))
        if is_json:
            print_json(waiting)
        return
    cells = settings.cells()  # refuses what can't be replayed before a store is made
    with leaving_stdout(is_json):
        with stage("open the store"):
            tracker = open_store(settings)
        n_failed, found = run_comparison(settings, tracker, cells)
    if is_json:
        print_json(found)
    if n_failed:
        raise typer.Exit(CELL_FAILED)


@plain_errors
@takes(EtaConfig, "bundle", "processors", "order", "backfill_order", "backfilling", "out",
       rare=("guard_h", "draws", "seed", "now_s"))
def eta(
    flags: Flags,
    jobs: Annotated[Path, typer.Argument(
        help="CSV or Parquet table, one row a job: job_id, processors, limit_s, waited_s, uptime_s (missing = waits), "
             "and the columns that the model reads; or what `squeue` or `kubectl get workloads -A -o json` prints "
             "(docs/simulator/start_times.md).")],
    is_json: Json = False,
) -> None:
    """Say when the jobs that wait in a queue will start: an 80 % interval, and the plan by their limits.

    The queue is served many times with run times drawn from the model's curves, as if no more jobs came.
    """
    settings = load_settings(EtaConfig, jobs=jobs, **flags)
    from sojourn.flows.console import leaving_stdout, stage
    from sojourn.flows.placement.waiting import print_waiting, read_waiting, waiting_table, write_waiting
    from sojourn.serving import Predictor

    queue = read_waiting(jobs, Predictor.load(settings.bundle), settings.processors, settings.now_s)
    for words in queue.warnings:
        typer.echo(f"warning: {words}", err=True)
    with leaving_stdout(is_json), stage(f"serve the queue {settings.draws} times"):
        table = waiting_table(queue, settings.rules, settings.draws, settings.seed)
    if settings.out is not None:
        write_waiting(table, settings.out)
    if is_json:
        for row in table.to_dict("records"):
            print_json(row)
    else:
        print_waiting(table)


@plain_errors
@takes(RectifyConfig, "bundle", "budget", "now_s", "record", "out", rare=("rectifier", "long_h", "minutes", "at_once"))
def rectify(
    flags: Flags,
    snapshot: Annotated[Path, typer.Argument(
        help="Folder with the tables hosts and requests, CSV or Parquet.")],
) -> None:
    """Rectify a pool: today's live migrations that free hosts; which host each frees, when, and with what chance."""
    settings = load_settings(RectifyConfig, snapshot=snapshot, **flags)  # refuses what is wrong before files are read
    from sojourn.flows.placement.snapshot import PoolRecord, read_snapshot
    from sojourn.flows.reports.section import migrations_table, nothing_words, print_migrations
    from sojourn.publishing import whole_file
    from sojourn.serving import Predictor
    from sojourn.simulator.rectification import RECTIFIERS

    predictor = Predictor.load(settings.bundle)
    history_to_s = int(predictor.info()["training"].get("history_to_s", 0))
    now_s = history_to_s if settings.now_s is None else settings.now_s
    pool = read_snapshot(snapshot, predictor, now_s)
    pool = replace(pool, view=replace(pool.view, migration_s=60 * settings.minutes, n_at_once=settings.at_once))
    rectify, left, record = settings.rectify, settings.budget, None
    if settings.record is not None:
        record = PoolRecord.read(settings.record, now_s).after(pool, now_s)
        pool = record.seen_by(pool)
        left = max(settings.budget - len(record.planned), 0)
    table = migrations_table(pool, RECTIFIERS[rectify.planner](pool.view, left, rectify.long_s))
    if settings.record is not None and record is not None:  # before the list, so that the cap holds after a kill
        with whole_file(settings.record) as temporary:
            temporary.write_text(record.with_plan(table).model_dump_json() + "\n", encoding="utf-8")
        typer.echo(f"record: {len(record.planned)} of {settings.budget} migrations of the last 24 hours begun; days of "
                   f"refills: {len(record.days)}", err=True)
    if now_s < history_to_s:
        typer.echo(f"warning: now_s must not be before the end of the bundle's history, {history_to_s}, got {now_s}: "
                   f"predictions know ends of the {(history_to_s - now_s) / 3_600:,.1f} hours between", err=True)
    for words in pool.warnings:
        typer.echo(f"warning: {words}", err=True)
    if settings.out is not None:
        with whole_file(settings.out) as temporary:
            table.to_csv(temporary, index=False)
    if left == 0 < settings.budget:
        typer.echo(f"no migrations: those of the last 24 hours are begun, {settings.budget} or more")
    elif len(table) == 0:
        typer.echo(nothing_words(pool, settings.budget))
    else:
        print_migrations(table, settings.minutes, settings.at_once)


@plain_errors
@takes(PlanConfig, "planners", "against", "out", "replan_at", "resources", "capacity", "bundle",
       rare=("n_samples", "alpha", "step_s", "least_runs", "held_out", "n_runs", "limit_s", "work_limit", "seed",
             "n_workers", "least_moved"))
def plan(
    flags: Flags,
    jobs: Annotated[Path, typer.Argument(
        help="CSV or Parquet table, one row a job: name, requested_start_s, flexibility_s, deadline_s, durations_s, "
             "one column a resource, optionally parents, planned_start_s, started_s, ended_s. Lists in a CSV file: "
             "600;720.")],
    store: StoreFolder = None,
) -> None:
    """Plan a day of recurring jobs: start times that keep the peak low although durations and usage are uncertain."""
    settings = load_settings(PlanConfig, jobs=jobs, **flags)
    from sojourn.flows.console import stage
    from sojourn.flows.plan import ModelDurations, PlanTask, log_plan, plan_day, read_jobs
    from sojourn.flows.versions.promotion import open_store
    from sojourn.simulator.planning import rest_of_day

    table = read_jobs(jobs, step_s=settings.step_s, resources=settings.resources, capacity=settings.capacity,
                      durations_of=None if settings.bundle is None else ModelDurations(settings.bundle),
                      least_runs=settings.least_runs)
    rest = None
    if settings.replan_at is None:
        table.check_begin()
    else:
        rest = rest_of_day(table.instance, table.state_at(settings.replan_at))
    task = PlanTask(settings, table.instance if rest is None else rest.instance, rest)
    planned = plan_day(task)
    with stage("log"):
        log_plan(open_store(load_settings(StoreSettings, store=store)), task, planned)


@plain_errors
@takes(AdmitConfig, "trace", "reader", "allocations", "backfill", "slacks", "cores", "predict", "out", "page", "store",
       "config", rare=("n_days", "n_draws", "seed", "sigma", "mean", "quantiles", "core_limit", "power", "repeat_power",
                       "idle_w", "busy_w", "horizon_s", "column_map", "map_file", "timezone", "n_workers"))
def admit(flags: Flags) -> None:
    """Admit jobs that must meet deadlines on a limited number of cores: rules side by side on the same days.

    Deadlines are drawn from slacks, since logs have none. The first allocation is the baseline.
    """
    from sojourn.flows.workers.flow import check_before_work

    settings = load_settings(AdmitConfig, **flags)
    check_before_work(settings)
    from sojourn.flows.admission.admit import run_admit, run_predicted
    from sojourn.flows.retrain.ingest import with_kept_trace

    (run_predicted if settings.predict else run_admit)(with_kept_trace(settings))
