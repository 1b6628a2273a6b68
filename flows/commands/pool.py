"""Commands on a pool or a day: `simulate` and `compare` replay a trace, `rectify` lists today's live migrations, `plan`
sets start times of a day's jobs, `admit` accepts jobs with deadlines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.flows.admission.settings import AdmitConfig
from sojourn.flows.commands.options import (
    CELL_FAILED,
    Flags,
    Reader,
    StoreFolder,
    is_there,
    keeps,
    plain_errors,
    takes,
)
from sojourn.flows.compare.settings import CompareConfig, SimulateConfig
from sojourn.flows.settings.other_jobs import PlanConfig, RectifyConfig
from sojourn.flows.settings.store import StoreSettings, load_settings


@plain_errors
@takes(SimulateConfig, "trace", "reader", "horizon_s", "column_map", "map_file", "trace_timezone", "recipe", "policies",
       "n_requests", "load", "noise", "recall", "host_cpu_cores", "host_mem_gib", "seed", "stranding", "picture")
def simulate(flags: Flags) -> None:
    """Replay a trace under each policy with perfect lifetimes (the most that could be gained) or flawed ones.

    Best-fit is always included: gains are differences to it.
    """
    settings = load_settings(SimulateConfig, **flags)
    from sojourn.features.readers import read_trace
    from sojourn.features.synthetic import synthesize
    from sojourn.flows.console import console, stage, tell_doubts
    from sojourn.flows.reports.comparison_report import policies_table
    from sojourn.simulator import KNOWN_POLICIES, LongAsShort, NoisyOracle, Oracle, build_workload, compare
    from sojourn.simulator.experiments import BASELINE, Pairing

    seed = settings.seed
    names = dict.fromkeys([BASELINE, *settings.policies])
    with stage("read"):
        if settings.trace is None:
            trace = synthesize(settings.n_requests, seed=seed)
        else:
            trace, read_report = read_trace(settings.reader, settings.trace, **settings.reading)
            tell_doubts(read_report.lines())
    recipe = settings.recipe or settings.own_recipe
    shape = settings.shape if recipe == "trace" else {}
    built = build_workload(recipe, trace, load=settings.load, seed=seed, **shape)
    tell_doubts(built.doubts())
    with stage("simulate") as report:
        sources: dict[str, Any] = {"oracle": Oracle(built)}
        sources |= {f"noise {sigma:g}": NoisyOracle(built, sigma, seed) for sigma in settings.noise}
        sources |= {f"recall {share:g}": LongAsShort(built, share, seed=seed) for share in settings.recall}
        pairings: list[Pairing] = [(name, "", None) for name in names if KNOWN_POLICIES[name].predictions == "none"]
        pairings += [(name, label, source) for name in names if KNOWN_POLICIES[name].predictions != "none"
                     for label, source in sources.items()]
        comparison = compare(built, pairings, progress=lambda done, total, _: report(done, total),
                             n_stranding_moments=settings.stranding)
    console.print(policies_table(comparison.table, built.description))
    if settings.picture is not None:
        from sojourn.simulator.page import write_png

        write_png(comparison, settings.picture)
        console.print(f"picture  {settings.picture}", soft_wrap=True)


@plain_errors
@keeps("finished cells are in the store, and the same command goes on from there")
@takes(CompareConfig, "trace", "reader", "horizon_s", "column_map", "map_file", "trace_timezone", "recipe", "policies",
       "predictors", "rectifiers", "loads", "seeds", "n_seeds", "starts", "n_requests", "host_cpu_cores",
       "host_mem_gib", "preset", "config", "store", "page", "price_per_host_hour", "n_workers", "dask")
def compare(flags: Flags) -> None:
    """Compare policies x predictors x loads x seeds in pairs; finished cells are not run again."""
    settings = load_settings(CompareConfig, **flags)
    from sojourn.flows.workers.flow import check_before_work

    check_before_work(settings)
    from sojourn.flows.compare.comparison import run_comparison
    from sojourn.flows.console import stage
    from sojourn.flows.retrain.ingest import with_kept_trace
    from sojourn.flows.versions.promotion import open_store

    settings = with_kept_trace(settings)
    cells = settings.cells()  # refuses what can't be replayed before a store is made
    with stage("open the store"):
        tracker = open_store(settings)
    if run_comparison(settings, tracker, cells):
        raise typer.Exit(CELL_FAILED)


@plain_errors
@takes(RectifyConfig, "bundle", "budget", "rectifier", "long_h", "minutes", "at_once", "now_s", "out")
def rectify(
    flags: Flags,
    snapshot: Annotated[Path, typer.Argument(
        help="Folder with the tables hosts and requests, CSV or Parquet.")],
) -> None:
    """Rectify a pool: today's live migrations that free hosts; which host each frees, when, and with what chance."""
    settings = load_settings(RectifyConfig, snapshot=snapshot, **flags)  # refuses what is wrong before files are read
    from sojourn.flows.placement.snapshot import read_snapshot
    from sojourn.flows.reports.section import migrations_table, nothing_words, print_migrations
    from sojourn.serving import Predictor
    from sojourn.simulator.rectification import RECTIFIERS

    predictor = Predictor.load(settings.bundle)
    history_to_s = int(predictor.info()["training"].get("history_to_s", 0))
    now_s = history_to_s if settings.now_s is None else settings.now_s
    pool = read_snapshot(snapshot, predictor, now_s)
    pool = replace(pool, view=replace(pool.view, migration_s=60 * settings.minutes, n_at_once=settings.at_once))
    rectify = settings.rectify
    table = migrations_table(pool, RECTIFIERS[rectify.planner](pool.view, rectify.budget, rectify.long_s))
    if now_s < history_to_s:
        typer.echo(f"warning: now_s must not be before the end of the bundle's history, {history_to_s}, got {now_s}: "
                   f"predictions know ends of the {(history_to_s - now_s) / 3_600:,.1f} hours between", err=True)
    for words in pool.warnings:
        typer.echo(f"warning: {words}", err=True)
    if settings.out is not None:
        from sojourn.publishing import whole_file

        with whole_file(settings.out) as temporary:
            table.to_csv(temporary, index=False)
    if len(table) == 0:
        typer.echo(nothing_words(pool, settings.budget))
    else:
        print_migrations(table, settings.minutes, settings.at_once)


@plain_errors
@takes(PlanConfig, "planners", "against", "out", "replan_at", "n_samples", "alpha", "step_s", "resources", "bundle",
       "least_runs", "capacity", "held_out", "n_runs", "limit_s", "work_limit", "seed", "n_workers", "is_least_moved")
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
@takes(AdmitConfig, "horizon_s", "column_map", "map_file", "trace_timezone", "allocations", "is_backfilled", "slacks",
       "sigma", "mean", "cores", "core_limit", "n_days", "n_draws", "seed", "power", "is_power_repeated", "idle_w",
       "busy_w", "predict", "quantiles", "config", "store", "out", "page", "n_workers")
def admit(
    flags: Flags,
    trace: Annotated[Path, typer.Argument(
        callback=is_there, help="Trace file or folder: jobs with their cores and run times.")],
    reader: Reader = "parquet",
) -> None:
    """Admit jobs that must meet deadlines on a limited number of cores: rules side by side on the same days.

    Deadlines are drawn from slacks, since logs have none. The first allocation is the baseline.
    """
    from sojourn.flows.workers.flow import check_before_work

    settings = load_settings(AdmitConfig, trace=trace, reader=reader, **flags)
    check_before_work(settings)
    from sojourn.flows.admission.admit import run_admit, run_predicted
    from sojourn.flows.retrain.ingest import with_kept_trace

    (run_predicted if settings.predict else run_admit)(with_kept_trace(settings))
