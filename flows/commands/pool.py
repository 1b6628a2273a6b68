"""Commands on a pool or a day: `simulate` and `compare` replay a trace, `rectify` lists today's live migrations, `plan`
sets start times of a day's jobs, `admit` accepts jobs with deadlines."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.flows.commands.options import (
    CELL_FAILED,
    READER_HELP,
    ConfigFile,
    Dask,
    Horizon,
    HostCores,
    HostMemory,
    MapFile,
    MapPairs,
    Reader,
    ReaderName,
    Seed,
    StoreFolder,
    Timezone,
    TracePath,
    is_there,
    keeps,
    plain_errors,
)

_LEAST_H, _MOST_H = 0.001, 876_600
"""Of a long stay: 100 years at most."""
_MOST_MINUTES = 1_440
"""Of a migration: a day, since what is freed later counts for nothing."""


@plain_errors
def simulate(
    trace: TracePath = None,
    reader: Reader = "parquet",
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    recipe: Annotated[str | None, typer.Option(
        help="Recipe: {recipes}. [default: the reader's own, else trace]")] = None,
    policy: Annotated[list[str], typer.Option(
        help="Policy: {policies}; may be repeated. [default: all]")] = [],  # noqa: B006
    n_requests: Annotated[int, typer.Option(help="Requests of the synthetic trace.")] = 60_000,
    load: Annotated[float, typer.Option(help="Peak load of the hosts, 0 to 1.")] = 0.8,
    noise: Annotated[list[float], typer.Option(
        help="Also with lognormal noise of this sigma on every lifetime; may be repeated. "
             "[default: none]")] = [],  # noqa: B006
    recall: Annotated[list[float], typer.Option(
        help="Also with this share of requests over 2 h known, the others taken for short; may be repeated. "
             "[default: none]")] = [],  # noqa: B006
    host_cpu_cores: HostCores = None,
    host_mem_gib: HostMemory = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    stranding: Annotated[int, typer.Option(
        help="Also measure stranded CPU and memory at this many moments, say 8.")] = 0,
    picture: Annotated[Path | None, typer.Option(
        help="Write a picture (PNG) of empty hosts over time. [default: none]")] = None,
) -> None:
    """Replay a trace under each policy with perfect lifetimes (the most that could be gained) or flawed ones.

    Best-fit is always included: gains are differences to it.
    """
    from sojourn.features.readers import read_trace
    from sojourn.features.synthetic import synthesize
    from sojourn.flows.console import console, stage, tell_doubts
    from sojourn.flows.reports.comparison_report import policies_table
    from sojourn.flows.settings.retrain import shape_options
    from sojourn.flows.settings.trace import ColumnOptions, column_keywords, own_recipe
    from sojourn.simulator import (
        KNOWN_POLICIES,
        POLICIES,
        LongAsShort,
        NoisyOracle,
        Oracle,
        build_workload,
        compare,
    )
    from sojourn.simulator.experiments import BASELINE, Pairing

    unknown = [name for name in policy if name not in KNOWN_POLICIES]
    if unknown:
        raise ValueError(f"policy must be one of {', '.join(KNOWN_POLICIES)}, got {unknown[0]!r}")
    names = dict.fromkeys([BASELINE, *(policy or POLICIES)])
    with stage("read"):
        if trace is None:
            read = synthesize(n_requests, seed=seed)
        else:
            options = column_keywords(ColumnOptions(tuple(column_map or ()), map_file, timezone), reader)
            read, read_report = read_trace(reader, trace, horizon_s=horizon_s, **options)
            tell_doubts(read_report.lines())
    recipe = recipe or own_recipe("synthetic" if trace is None else reader)
    shape = shape_options(host_cpu_cores, host_mem_gib) if recipe == "trace" else {}
    built = build_workload(recipe, read, load=load, seed=seed, **shape)
    tell_doubts(built.doubts())
    with stage("simulate") as report:
        sources: dict[str, Any] = {"oracle": Oracle(built)}
        sources |= {f"noise {sigma:g}": NoisyOracle(built, sigma, seed) for sigma in noise}
        sources |= {f"recall {share:g}": LongAsShort(built, share, seed=seed) for share in recall}
        pairings: list[Pairing] = [(name, "", None) for name in names if KNOWN_POLICIES[name].predictions == "none"]
        pairings += [(name, label, source) for name in names if KNOWN_POLICIES[name].predictions != "none"
                     for label, source in sources.items()]
        comparison = compare(built, pairings, progress=lambda done, total, _: report(done, total),
                             n_stranding_moments=stranding)
    console.print(policies_table(comparison.table, built.description))
    if picture is not None:
        from sojourn.simulator.page import write_png

        write_png(comparison, picture)
        console.print(f"picture  {picture}", soft_wrap=True)


@plain_errors
@keeps("finished cells are in the store, and the same command goes on from there")
def compare(
    trace: TracePath = None,
    reader: ReaderName = None,
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    recipe: Annotated[str | None, typer.Option(
        help="Recipe: {recipes}. [default: the reader's own, else trace]")] = None,
    policy: Annotated[list[str] | None, typer.Option(
        help="Policy: {policies}; may be repeated. [default: all]")] = None,
    predictor: Annotated[list[str] | None, typer.Option(
        help="oracle, noise:SIGMA, recall:SHARE, owner-recall:SHARE, a lifetime family (km, hazard, ...), "
             "bundle:FOLDER, refreshed: of one of the last two, or one-shot: of any; may be repeated. "
             "[default: oracle]")] = None,
    rectify: Annotated[list[str] | None, typer.Option(
        help="Live migrations that free hosts, RECTIFIER:MOVES a day: {rectifiers}; may be repeated. "
             "[default: none]")] = None,
    load: Annotated[list[float] | None, typer.Option(
        help="Peak load of the hosts, above 0 and at most 1; may be repeated. [default: 0.8]")] = None,
    seed: Annotated[list[int] | None, typer.Option(
        help="Seed of a pair of replays; may be repeated. [default: 0 to 4]")] = None,
    n_seeds: Annotated[int | None, typer.Option(
        help="So many seeds, from 0 on, in place of --seed. [default: none]")] = None,
    start: Annotated[list[str] | None, typer.Option(
        help="cold: the whole trace, from an empty pool; warm: its later part, with what was running; may be repeated. "
             "[default: warm where a predictor is learnt, else cold]")] = None,
    n_requests: Annotated[int | None, typer.Option(help="Requests of the synthetic trace. [default: 60000]")] = None,
    host_cpu_cores: HostCores = None,
    host_mem_gib: HostMemory = None,
    preset: Annotated[str | None, typer.Option(
        help="A named comparison: {presets}. Other options replace its settings. [default: none]")] = None,
    config: ConfigFile = None,
    store: StoreFolder = None,
    page: Annotated[Path | None, typer.Option(
        help="HTML page to write, with its tables as CSV beside it. [default: none]")] = None,
    price_per_host_hour: Annotated[float | None, typer.Option(
        help="Price of one host for an hour, in any currency: gains are also said in money. [default: none]")] = None,
    n_workers: Annotated[int | None, typer.Option(help="Processes. [default: cores]")] = None,
    dask: Dask = None,
) -> None:
    """Compare policies x predictors x loads x seeds in pairs; finished cells are not run again."""
    from sojourn.flows.compare.presets import known_preset
    from sojourn.flows.console import stage

    if preset is not None:
        known_preset(preset)  # before seconds of imports
    flags = {
        "trace": trace, "reader": reader, "horizon_s": horizon_s,
        "column_map": tuple(column_map) if column_map else None, "map_file": map_file, "trace_timezone": timezone,
        "recipe": recipe, "policies": policy,
        "predictors": predictor, "rectifiers": rectify, "loads": load, "seeds": seed, "n_seeds": n_seeds,
        "starts": start,
        "n_requests": n_requests,
        "host_cpu_cores": host_cpu_cores, "host_mem_gib": host_mem_gib, "preset": preset, "store": store, "page": page,
        "n_workers": n_workers, "dask": dask,
        "price_per_host_hour": price_per_host_hour}  # fmt: skip
    from sojourn.flows.compare.settings import CompareConfig
    from sojourn.flows.settings.store import load_settings

    settings = load_settings(CompareConfig, config, **flags)
    from sojourn.flows.workers.job import check_before_work

    check_before_work(settings)
    from sojourn.flows.compare.comparison import run_comparison
    from sojourn.flows.retrain.ingest import with_kept_trace
    from sojourn.flows.versions.promotion import open_store

    settings = with_kept_trace(settings)
    cells = settings.cells()  # refuses what can't be replayed before a store is made
    with stage("open the store"):
        tracker = open_store(settings)
    if run_comparison(settings, tracker, cells):
        raise typer.Exit(CELL_FAILED)


@plain_errors
def rectify(
    snapshot: Annotated[Path, typer.Argument(
        help="Folder with the tables hosts and requests, CSV or Parquet.")],
    bundle: Annotated[Path, typer.Option(help="Bundle folder: the model that predicts.")],
    budget: Annotated[int, typer.Option(help="Migrations at most.")] = 5,
    rectifier: Annotated[str, typer.Option(help="What plans them: {rectifiers}.")] = "value",
    long_h: Annotated[float | None, typer.Option(
        help="Of pdre: hours from which on a predicted stay is long. [default: 24]")] = None,
    minutes: Annotated[int, typer.Option(help="How long a migration takes, minutes.")] = 20,
    at_once: Annotated[int, typer.Option(help="Migrations that go at a time.")] = 3,
    now_s: Annotated[int | None, typer.Option(
        help="The snapshot's time, whole seconds on the training trace's clock. [default: its end]")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file to write the list to. [default: none]")] = None,
) -> None:
    """Rectify a pool: today's live migrations that free hosts; which host each frees, when, and with what chance."""
    from sojourn.simulator.rectification import BUDGET_MAX, RECTIFIERS, Rectify

    asked = Rectify(rectifier, budget, long_s=_long_s(long_h))  # refuses what is wrong before files are read
    if long_h is not None and rectifier != "pdre":
        raise ValueError(f"long_h must be given with the rectifier pdre alone, got {long_h:g} with {rectifier!r}")
    for name, number, most in (("minutes", minutes, _MOST_MINUTES), ("at_once", at_once, BUDGET_MAX)):
        if not 1 <= number <= most:
            raise ValueError(f"{name} must be in 1..{most}, got {number}")
    if out is not None:
        _check_out(out, snapshot, bundle)
    from sojourn.flows.placement.snapshot import read_snapshot
    from sojourn.flows.reports.section import migrations_table, nothing_words, print_migrations
    from sojourn.serving import Predictor

    predictor = Predictor.load(bundle)
    history_to_s = int(predictor.info()["training"].get("history_to_s", 0))
    if now_s is None:
        now_s = history_to_s
    pool = read_snapshot(snapshot, predictor, now_s)
    pool = replace(pool, view=replace(pool.view, migration_s=60 * minutes, n_at_once=at_once))
    table = migrations_table(pool, RECTIFIERS[rectifier](pool.view, asked.budget, asked.long_s))
    if now_s < history_to_s:
        typer.echo(f"warning: now_s must not be before the end of the bundle's history, {history_to_s}, got {now_s}: "
                   f"predictions know ends of the {(history_to_s - now_s) / 3_600:,.1f} hours between", err=True)
    for words in pool.warnings:
        typer.echo(f"warning: {words}", err=True)
    if out is not None:
        from sojourn.publishing import whole_file

        with whole_file(out) as temporary:
            table.to_csv(temporary, index=False)
    if len(table) == 0:
        typer.echo(nothing_words(pool, budget))
    else:
        print_migrations(table, minutes, at_once)


def _long_s(long_h: float | None) -> int:
    hours = 24.0 if long_h is None else long_h
    if not _LEAST_H <= hours <= _MOST_H:  # nan too
        raise ValueError(f"long_h must be hours in {_LEAST_H}..{_MOST_H}, got {hours:g}")
    return round(3_600 * hours)


def _check_out(out: Path, snapshot: Path, bundle: Path) -> None:
    """ValueError where the list can't be written there, or would stand in the place of what is read."""
    if out.is_dir():
        raise ValueError(f"out must be a file, got the folder {str(out)!r}")
    above = next(parent for parent in out.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(f"out must be a file in a folder that can be written to, got {str(out)!r}")
    tables = [snapshot / f"{name}{suffix}" for name in ("hosts", "requests") for suffix in (".csv", ".parquet")]
    is_table = any(out.resolve() == table.resolve() or (out.exists() and table.exists() and out.samefile(table))
                   for table in tables)
    if is_table or out.resolve().parent == bundle.resolve():
        raise ValueError(f"out must be no file of the snapshot or of the bundle, got {str(out)!r}")


@plain_errors
def plan(
    jobs: Annotated[Path, typer.Argument(
        help="CSV or Parquet table, one row a job: name, requested_start_s, flexibility_s, deadline_s, durations_s, "
             "one column a resource, optionally parents, planned_start_s, started_s, ended_s. Lists in a CSV file: "
             "600;720.")],
    planner: Annotated[list[str], typer.Option(
        help="Planner: {planners}; repeat to compare. The first one's schedule is written.")] = ["cospis"],  # noqa: B006
    against: Annotated[str, typer.Option(help="Planner that the others are held against.")] = "det-p50",
    out: Annotated[Path, typer.Option(
        help="Folder for the schedule (CSV, Parquet), its picture (PNG), the metrics (JSON) and a page "
             "(HTML).")] = Path("plan"),
    replan_at: Annotated[float | None, typer.Option(
        "--replan-at", help="Plan the rest of the day at this time, seconds: what started_s and ended_s say has "
                            "happened by then stays. [default: none]")] = None,
    n_samples: Annotated[int, typer.Option(help="Samples of pairs of duration and usage (K).")] = 25,
    alpha: Annotated[float, typer.Option(help="Share of samples that may break deadlines, 0 to 1.")] = 0.4,
    step_s: Annotated[float, typer.Option(help="Step of all times, seconds; coarser = faster on long days.")] = 1.0,
    resource: Annotated[list[str], typer.Option(
        help="Column of a resource; repeat for several.")] = ["cpu_cores"],  # noqa: B006
    bundle: Annotated[Path | None, typer.Option(
        help="Bundle folder: jobs with few runs get their durations from its lifetime model; the table then has a "
             "column `request`, the request's attributes as JSON. "
             "[default: none]")] = None,
    least_runs: Annotated[int, typer.Option(help="With --bundle: from so many runs on a job's own are used.")] = 5,
    capacity: Annotated[list[float] | None, typer.Option(
        help="What there is of each resource, in their order: refuses jobs that never fit. "
             "[default: not looked at]")] = None,
    held_out: Annotated[float, typer.Option(help="Share of each job's runs, the latest, to test on.")] = 0.3,
    n_runs: Annotated[int, typer.Option(help="Days that are drawn from them.")] = 50,
    limit_s: Annotated[float, typer.Option(help="Time limit of a planner, seconds.")] = 30.0,
    work_limit: Annotated[float | None, typer.Option(
        help="The solver's deterministic limit, about seconds of one core: the same schedule on any machine. "
             "[default: none]")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    n_workers: Annotated[int, typer.Option(help="Threads of the solver; 1 repeats exactly.")] = 1,
    is_least_moved: Annotated[bool, typer.Option(
        "--least-moved", help="Of the schedules with the lowest peak found, one that moves jobs least.")] = False,
    store: StoreFolder = None,
) -> None:
    """Plan a day of recurring jobs: start times that keep the peak low although durations and usage are uncertain."""
    from sojourn.flows.console import stage
    from sojourn.flows.placement.job_table import ModelDurations, read_jobs
    from sojourn.flows.plan import FILES, PlanTask, log_plan, plan_day
    from sojourn.flows.settings.store import StoreSettings, load_settings
    from sojourn.flows.versions.promotion import open_store
    from sojourn.simulator.planning import Limits, PlanSettings, rest_of_day
    from sojourn.simulator.planning import planner as planner_of

    for name in (*planner, against):
        planner_of(name)
    settings = PlanSettings(n_samples, alpha, Limits(
        limit_s=limit_s, work_limit=work_limit, seed=seed, n_workers=n_workers, is_least_moved=is_least_moved))
    if out.exists() and not out.is_dir():
        raise ValueError(f"out must be a folder, got the file {str(out)!r}")
    odd = [path.name for path in sorted(out.iterdir()) if path.name not in FILES] if out.is_dir() else []
    if odd:
        raise ValueError(f"out must be new, empty or a folder of `plan`, got something else in {str(out)!r}: "
                         f"{odd[0]!r}")
    durations_of = None if bundle is None else ModelDurations(bundle)
    table = read_jobs(jobs, step_s=step_s, resources=resource, capacity=capacity, durations_of=durations_of,
                      least_runs=least_runs)
    if replan_at is None:
        table.check_begin()
    rest = None if replan_at is None else rest_of_day(table.instance, table.state_at(replan_at))
    task = PlanTask(jobs, table.instance if rest is None else rest.instance, rest, tuple(planner), against, settings,
                    held_out, n_runs)
    planned = plan_day(task, out)
    with stage("log"):
        log_plan(open_store(load_settings(StoreSettings, store=store)), task, planned)


@plain_errors
def admit(
    trace: Annotated[Path, typer.Argument(
        callback=is_there, help="Trace file or folder: jobs with their cores and run times.")],
    reader: Annotated[str, typer.Option(help=READER_HELP)] = "parquet",
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    allocation: Annotated[list[str] | None, typer.Option(
        help="Cores of a job: {allocations}; may be repeated. [default: best-fit]")] = None,
    backfill: Annotated[bool, typer.Option(
        "--backfill", help="Also each allocation with conservative backfilling.")] = False,
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

    Deadlines are drawn from slacks, since logs have none. The first allocation is the baseline.
    """
    from sojourn.flows.admission.runs import AdmitConfig
    from sojourn.flows.settings.store import load_settings
    from sojourn.flows.workers.job import check_before_work

    settings = load_settings(
        AdmitConfig, config, trace=trace, reader=reader, horizon_s=horizon_s,
        column_map=tuple(column_map) if column_map else None, map_file=map_file, trace_timezone=timezone,
        allocations=allocation, is_backfilled=backfill or None, slacks=slack, sigma=sigma, mean=mean, cores=cores,
        core_limit=core_limit, n_days=n_days, n_draws=n_draws, seed=seed, power=power,
        is_power_repeated=repeat_power or None, idle_w=idle_w, busy_w=busy_w, predict=predict, quantiles=quantile,
        store=store, out=out, page=page, n_workers=n_workers)
    check_before_work(settings)
    from sojourn.flows.admission.admit import run_admit, run_predicted
    from sojourn.flows.retrain.ingest import with_kept_trace

    (run_predicted if settings.predict else run_admit)(with_kept_trace(settings))
