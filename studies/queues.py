"""Queues on logs of the Parallel Workloads Archive: published figures beside ours, and what run times are worth.

    python -m studies queues golden LOG ...
    python -m studies queues later LOG ... [--family NAME] [--chance P ...] [--history recorded] [--out FILE.csv]
    python -m studies queues arranged LOG ... [--family NAME] [--arrangements N]
    python -m studies queues speed LOG ...
    python -m studies queues eta LOG ... [--family NAME] [--moments N] [--draws M]

golden: the whole log, EASY. later: a family is learnt on the earlier half of the jobs, and the later half is replayed,
begun empty, its first week not counted. History is simulated: what predicts learns of an end when the replay ends the
job; or as recorded, with more ways to ask a curve. --processors: of a log that does not say it.
arranged: the later half with its weeks shuffled within quarters, N times: means over these, with 95 % t-intervals.
speed: jobs per second. eta: when the jobs that wait at N
moments of that later half will start, against when they start in its replay by the limits; figures are of the last two
thirds of the moments, or of the first ("past").
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.readers import read_trace
from sojourn.flows.placement.predictors import (
    Learning,
    LiveRunTimes,
    fitted_tables,
    learnt_bundle,
    parse_predictor,
    queue_source,
)
from sojourn.flows.placement.workloads import positions_of
from sojourn.flows.retrain.train import windows
from sojourn.models.curve_table import CurveTable, drawn_left
from sojourn.simulator import Oracle
from sojourn.simulator.queueing import (
    QUANTILES,
    LastTwo,
    QueueJobs,
    QueueNow,
    QueueRules,
    RunTimes,
    Schedule,
    compare_queues,
    counted,
    last_two,
    queue_at,
    queue_jobs,
    queue_measures,
    replay_queue,
    requested,
    start_times,
)
from sojourn.simulator.queueing.measures import WEEK_S
from studies.dvla_tables import interval

GOLDEN = {
    "SDSC-BLUE": ((36.58, 7_907), (19.61, 5_916), (32.11, 7_608), (13.32, 5_300)),
    "HPC2N": ((90.77, 11_524), (85.50, 10_907), (78.22, 11_653), (64.01, 10_541)),
    "LLNL-Thunder": ((4.97, 339), (2.21, 190), (4.31, 331), (1.75, 172)),
    "NASA-iPSC": ((1.01, 4), (1.01, 4), (1.01, 4), (1.01, 4)),
}
"""Mean bounded slowdown and mean wait (s) of an independent prototype: requested fcfs, sjf; oracle fcfs, sjf."""
NONE = ((float("nan"), float("nan")),) * 4
"""Of other logs."""
LATER_SHARE = 0.5
ETA_RULES = (QueueRules(), QueueRules(backfill_order="sjf"))
ALIKE = {f"curves, alike {alike:g}, {together:g}": (alike, together) for alike, together in (
    (0.0, 0.0), (0.9, 0.0), (0.7, 0.2), (0.9, 0.1), (0.9, 0.2), (0.9, 0.3), (0.99, 0.2))}
"""Correlations of one owner's jobs, and of all jobs."""
N_RECENT, MINUTE_S = 100, 60
BOUND_S = 6 * 3_600
RULES = (QueueRules(), QueueRules(backfill_order="sjf"), QueueRules("wfp3", "saf"),
         QueueRules("wfp3", "saf", overtaken_s=BOUND_S), QueueRules("fcfs", "sjf", "depth:100"),
         QueueRules(backfilling="conservative"))
SHOWN = ("source", "mean_slowdown", "slowdown_ratio", "slowdown_ratio_low", "slowdown_ratio_high", "mean_wait_s",
         "p95_wait_s", "max_wait_s", "utilisation_pct", "broken_pct")


def golden(logs: Sequence[Path]) -> None:
    """Prints a table in Markdown: published / measured."""
    print("| log | jobs | load | requested, fcfs | requested, sjf | oracle, fcfs | oracle, sjf |\n" + "|---" * 7 + "|")
    for log in logs:
        jobs = queue_jobs(read_trace("swf", log)[0], limits="raised")
        published = next((row for name, row in GOLDEN.items() if name.lower() in log.name.lower()), NONE)
        span_s = (jobs.submission_s + jobs.run_s).max() - jobs.submission_s[0]
        load = (jobs.run_s * jobs.size).sum() / (span_s * jobs.n_processors)
        cells = []
        pairs = [(source, order) for source in (requested(jobs), Oracle(jobs)) for order in ("fcfs", "sjf")]
        for (source, order), (slowdown, wait_s) in zip(pairs, published, strict=True):
            found = queue_measures(replay_queue(jobs, QueueRules(backfill_order=order), source))
            cells.append(f"{slowdown:.2f} / {found['mean_slowdown']:.2f}, {wait_s:,.0f} / {found['mean_wait_s']:,.0f}")
        name = f"{log.name.split('.swf')[0]}, P {jobs.n_processors:,}"
        print(f"| {name} | {len(jobs):,} | {load:.3f} | {' | '.join(cells)} |", flush=True)


def halves(log: Path, n_processors: int | None = None) -> tuple[Learning, QueueJobs, QueueJobs]:
    """What a family is learnt from, all jobs, and those of the later half."""
    trace = read_trace("swf", log)[0]
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = windows(rows, LATER_SHARE, 0.15)
    everything = queue_jobs(trace, n_processors=n_processors)
    return (Learning(trace, "", encoder, rows, split, 0), everything,
            everything.take(everything.submission_s >= split.test_from_s))


def learnt_on_earlier(log: Path, family: str,
                      n_processors: int | None = None) -> tuple[QueueJobs, QueueJobs, pd.Series, CurveTable]:
    """All jobs, those of the later half, and a family's curves, learnt on the earlier half, with their ids."""
    known, everything, jobs = halves(log, n_processors)
    ids, table, _ = fitted_tables(parse_predictor(family), known, 1)
    return everything, jobs, ids, table


def in_the_loop(log: Path, family: str, n_processors: int | None,
                folder: Path) -> tuple[QueueJobs, dict[str, RunTimes]]:
    """The jobs of the later half, and sources that learn from the replay itself."""
    known, everything, jobs = halves(log, n_processors)
    bundle = learnt_bundle(folder / log.name, parse_predictor(family), known, 2)
    requests, before = known.trace.requests, everything.take(everything.submission_s < known.split.test_from_s)
    return jobs, {"requested": requested(jobs), "last-two": LastTwo(before),
                  f"{family} median": LiveRunTimes(bundle, requests, 0.5),
                  f"{family} mean": LiveRunTimes(bundle, requests), "oracle": Oracle(jobs)}


def as_recorded(log: Path, family: str, n_processors: int | None,
                chances: Sequence[float]) -> tuple[QueueJobs, dict[str, RunTimes]]:
    """The jobs of the later half, and every source of their run times, with the log's own history."""
    everything, jobs, ids, table = learnt_on_earlier(log, family, n_processors)
    sources: dict[str, RunTimes] = {"requested": requested(jobs), "last-two": last_two(everything)}
    ages_s = [int(age) for age in table.held_uptimes() if age > 0]
    median = queue_source(jobs, ids, table, 0.5)
    sources |= {f"{family} median": median, f"{family} mean": queue_source(jobs, ids, table),
                f"{family} median, by age": queue_source(jobs, ids, table, 0.5, ages_s),
                f"{family} mean, by age": queue_source(jobs, ids, table, None, ages_s)}
    for chance in chances:
        sources[f"{family} median, P >= {chance:g}"] = (median, queue_source(jobs, ids, table, chance))
    return jobs, sources | {"oracle": Oracle(jobs)}


def later(logs: Sequence[Path], asked: argparse.Namespace, folder: Path) -> None:
    """Prints a table for each log and rules."""
    tables, out = [], asked.out
    for log in logs:
        jobs, sources = (as_recorded(log, asked.family, asked.processors, asked.chance) if asked.history == "recorded"
                         else in_the_loop(log, asked.family, asked.processors, folder))
        table = compare_queues(jobs, RULES, sources)
        tables.append(table.assign(log=log.name.split(".swf")[0]))
        print(f"\n{log.name}: {len(jobs):,} jobs, {dict(jobs.counts)}")
        by = ["order", "backfill_order", "backfilling", "guard_s", "overtaken_s"]
        for rule, own in table.groupby(by, sort=False, dropna=False):
            print(f"{rule}\n{own[list(SHOWN)].round(3).to_string(index=False)}", flush=True)
        if out is not None:
            pd.concat(tables).to_csv(out, index=False)


def shuffled(jobs: QueueJobs, seed: int) -> QueueJobs:
    """The jobs with their weeks of submission in another order within each quarter of 13 weeks. The last week, which
    may be a part of one, keeps its place."""
    week = (jobs.submission_s - jobs.submission_s[0]) // WEEK_S
    n_whole = int(week[-1])
    place = np.arange(n_whole + 1)
    rng = np.random.default_rng(seed)
    for quarter in np.split(place[:n_whole], range(13, n_whole, 13)):
        quarter[:] = rng.permutation(quarter)
    moved_s = (place[week] - week) * WEEK_S
    order = np.argsort(jobs.submission_s + moved_s, kind="stable")
    own: dict[str, Any] = {name: np.asarray(getattr(jobs, name))[order] for name in (
        "run_s", "limit_s", "size", "owner", "priority", "queue")}
    return replace(jobs, submission_s=(jobs.submission_s + moved_s)[order], request_ids=jobs.request_ids[order],
                   recorded_end_s=(np.asarray(jobs.recorded_end_s) + moved_s)[order], **own)


def arranged(logs: Sequence[Path], asked: argparse.Namespace, folder: Path) -> None:
    """Prints a row for each log, order and source: against EASY by limits in the same arrangement."""
    for log in logs:
        jobs, sources = in_the_loop(log, asked.family, asked.processors, folder)
        found: dict[tuple[QueueRules, str], list[tuple[float, ...]]] = {}
        for seed in range(asked.arrangements):
            own = shuffled(jobs, seed)
            sources |= {"requested": requested(own), "oracle": Oracle(own)}
            first: dict[str, float] = {}
            for rules in (QueueRules(), QueueRules(backfill_order="sjf"), QueueRules("wfp3", "saf"),
                          QueueRules("wfp3", "saf", overtaken_s=BOUND_S),
                          QueueRules("sjf", "sjf", overtaken_s=BOUND_S)):
                for name in ("requested", "last-two", f"{asked.family} median", "oracle"):
                    figures = queue_measures(replay_queue(own, rules, sources[name]), WEEK_S)
                    first = first or figures
                    found.setdefault((rules, name), []).append((
                        figures["mean_slowdown"] / first["mean_slowdown"],
                        (first["mean_wait_s"] - figures["mean_wait_s"]) / 3_600,
                        figures["max_wait_s"] / first["max_wait_s"]))
        print(f"\n{log.name}: {asked.arrangements} arrangements. Slowdown over EASY's by limits (lower = better), "
              "hours of waiting saved (higher = better), longest wait over EASY's (lower = better)")
        for (rules, name), values in found.items():
            columns = [interval(column) for column in np.array(values).T]
            bound = "" if rules.overtaken_s is None else "bound"
            print(f"{rules.order:5}{rules.backfill_order:5}{bound:6}{name:16}"
                  + "".join(f"{text:>26}" for text in columns),
                  flush=True)


def recent_waits(schedule: Schedule, now: QueueNow, rows: np.ndarray) -> np.ndarray:
    """The simplest rival: quantiles of the waits of the last N_RECENT jobs of a job's size that started and had waited,
    less what it has waited; (n_waiting, 3)."""
    waits_s, of_class = schedule.wait_s, np.digitize(schedule.jobs.size, [2, 9, 65])
    started = np.flatnonzero((schedule.start_s <= now.now_s) & (waits_s > 0))
    started = started[np.argsort(schedule.start_s[started], kind="stable")]
    last = {k: waits_s[started[of_class[started] == k][-N_RECENT:]] for k in np.unique(of_class[rows]).tolist()}
    found = []
    for row in rows[now.waits].tolist():
        recent_s, waited_s = last[int(of_class[row])], now.now_s - schedule.jobs.submission_s[row]
        longer = recent_s[recent_s > waited_s] - waited_s
        found.append(np.quantile(longer if len(longer) else [3_600.0], QUANTILES))
    return np.array(found)


def eta(logs: Sequence[Path], family: str, n_moments: int, n_draws: int, n_processors: int | None) -> None:
    """Prints a table for each log and order of backfilling."""
    for log in logs:
        _, jobs, ids, table = learnt_on_earlier(log, family, n_processors)
        curves, owner = table.take(positions_of(pd.Series(jobs.request_ids), ids)), np.asarray(jobs.owner)
        for rules in ETA_RULES:
            schedule = replay_queue(jobs, rules, requested(jobs))
            waiting = np.flatnonzero((schedule.wait_s > 0) & counted(jobs, WEEK_S))
            moments = np.unique(jobs.submission_s[waiting[np.linspace(0, len(waiting) - 1, n_moments).astype(int)]])
            parts: list[pd.DataFrame] = []
            for now_s in moments.tolist():
                now, rows = queue_at(schedule, now_s)
                quantile = partial(curves.take(rows).quantile, uptime_s=now.uptime_s.astype(np.float64))
                by_limits = start_times(now, rules, now.left_by_limit_s[None])[0]
                own = rows[now.waits]
                frame = {"now_s": now_s, "is_new": jobs.submission_s[own] == now_s,
                         "waited_s": schedule.start_s[own] - now_s, **{f"limits_{k}": by_limits for k in range(3)}}
                drawn = {name: np.quantile(start_times(now, rules, drawn_left(
                    quantile, n_draws, owner[rows], alike=alike, together=together)), QUANTILES, axis=0).T
                    for name, (alike, together) in ALIKE.items()}
                for name, values in (drawn | {"recent waits": recent_waits(schedule, now, rows)}).items():
                    frame |= {f"{name}_{k}": values[:, k] for k in range(3)}
                parts.append(pd.DataFrame(frame))
            print(f"\n{log.name} {rules}: {len(parts)} moments")
            print_eta(pd.concat(parts, ignore_index=True), moments[len(moments) // 3])


def print_eta(found: pd.DataFrame, test_from_s: int) -> None:
    """Prints coverage of 80 % intervals, median error of the log of waits and median width: of jobs at their
    submission, of all jobs, and of moments, each a mean or a median of its jobs, so that no long queue counts for
    many."""
    waited, now_s = found["waited_s"].to_numpy(), found["now_s"].to_numpy()
    is_test, is_new = now_s > test_from_s, found["is_new"].to_numpy()
    for name in ["limits", "recent waits", *ALIKE]:
        low, middle, high = found[[f"{name}_{k}" for k in range(3)]].to_numpy(np.float64).T
        each = pd.DataFrame({"covers": (low <= waited) & (waited <= high), "width_h": (high - low) / 3_600,
                             "error": np.abs(np.log((middle + MINUTE_S) / (waited + MINUTE_S)))})
        of_moments = each.groupby(now_s).agg({"covers": "mean", "width_h": "median", "error": "median"})
        is_late = of_moments.index > test_from_s
        for label, rows in (("new", each[is_test & is_new]), ("moments", of_moments[is_late]), ("all", each[is_test]),
                            ("past: new", each[~is_test & is_new]), ("past: moments", of_moments[~is_late])):
            print(f"  {name:<26}{label:<14}{len(rows):>8,}  covered {100 * rows['covers'].mean():5.1f} %  error "
                  f"{rows['error'].median():.3f}  width {rows['width_h'].median():>7,.1f} h", flush=True)


def speed(logs: Sequence[Path]) -> None:
    """Prints jobs per second of the second replay of each: the first may compile."""
    for log in logs:
        jobs = queue_jobs(read_trace("swf", log)[0], limits="raised")
        for rules in RULES:
            label = f"{rules.order}+{rules.backfill_order} {rules.backfilling}"
            for name, source in (("requested", requested(jobs)), ("oracle", Oracle(jobs))):
                replay_queue(jobs, rules, source)
                begun = time.perf_counter()
                replay_queue(jobs, rules, source)
                took_s = time.perf_counter() - begun
                print(f"{log.name:36}{label:28}{name:12}{len(jobs) / took_s:>12,.0f} jobs/s", flush=True)


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("golden", "later", "arranged", "speed", "eta"))
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--family", default="hazard")
    parser.add_argument("--chance", type=float, nargs="*", default=[0.5, 0.7, 0.9])
    parser.add_argument("--moments", type=int, default=1_000)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--arrangements", type=int, default=6)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--history", choices=("simulated", "recorded"), default="simulated")
    parser.add_argument("--processors", type=int)
    asked = parser.parse_args()
    if asked.part in ("later", "arranged"):
        with tempfile.TemporaryDirectory() as folder:
            {"later": later, "arranged": arranged}[asked.part](asked.logs, asked, Path(folder))
    elif asked.part == "eta":
        eta(asked.logs, asked.family, asked.moments, asked.draws, asked.processors)
    else:
        {"golden": golden, "speed": speed}[asked.part](asked.logs)


if __name__ == "__main__":
    main()
