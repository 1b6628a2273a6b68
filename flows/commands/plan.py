"""`sojourn plan`: start times of a day's jobs that keep the peak of usage low."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import StoreFolder, is_there, plain_errors


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
    estimator: Annotated[str, typer.Option(help="Of milp and soru-peak: {estimators}.")] = "p50",
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
    from sojourn.flows.jobs.plan import FILES, PlanTask, plan_day
    from sojourn.flows.placement.job_table import read_jobs
    from sojourn.flows.placement.model_history import ModelDurations
    from sojourn.flows.settings.store import StoreSettings, load_settings
    from sojourn.simulator.planning import Limits, PlanSettings, rest_of_day
    from sojourn.simulator.planning import planner as planner_of

    for name in (*planner, against):
        planner_of(name)
    settings = PlanSettings(n_samples, alpha, estimator, Limits(
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
    plan_day(PlanTask(jobs, table.instance if rest is None else rest.instance, rest, tuple(planner), against, settings,
                      held_out, n_runs, load_settings(StoreSettings, store=store).store), out)


@plain_errors
def plan_evaluate(
    name: Annotated[str, typer.Argument(help="Which: {plan_evaluations}.")],
    trace: Annotated[Path | None, typer.Option(
        callback=is_there, help="Log of recurring jobs, for `recurring` and `short-history`. [default: none]")] = None,
    reader: Annotated[str, typer.Option(help="How to read the log.")] = "swf",
    n: Annotated[int | None, typer.Option(help="Seeds a size, or days. [default: the evaluation's own]")] = None,
    limit_s: Annotated[float, typer.Option(help="Time limit of a plan, seconds.")] = 10.0,
    flexibility_s: Annotated[int, typer.Option(help="Of recurring jobs, seconds.")] = 3_600,
    step_s: Annotated[int, typer.Option(help="Of recurring jobs, seconds.")] = 60,
    out: Annotated[Path, typer.Option(help="Folder for rows (CSV) and pictures (PNG).")] = Path("plan-evaluation"),
    store: StoreFolder = None,
) -> None:
    """Compare planners: on the synthetic days of the paper, on tight ones, or on recurring jobs of a log."""
    from sojourn.flows.evaluations.planning_run import PlanEvaluation, run_evaluation
    from sojourn.flows.settings.store import StoreSettings, load_settings

    run_evaluation(name, PlanEvaluation(trace, reader, n, limit_s, flexibility_s, step_s), out,
                   load_settings(StoreSettings, store=store).store)
