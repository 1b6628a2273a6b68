"""Queues on logs of the Parallel Workloads Archive: published figures beside ours, and what run times are worth.

    python -m studies queues golden LOG ...
    python -m studies queues later LOG ... [--family NAME] [--chance P ...] [--out FILE.csv]
    python -m studies queues speed LOG ...

golden: the whole log, EASY. later: a family is learnt on the earlier half of the jobs, and the later half is replayed,
begun empty, its first week not counted; history as recorded. speed: jobs per second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.readers import read_trace
from sojourn.flows.placement.predictors import Learning, fitted_tables, parse_predictor, queue_source
from sojourn.flows.retrain.train import windows
from sojourn.simulator import Oracle
from sojourn.simulator.queueing import (
    QueueJobs,
    QueueRules,
    RunTimes,
    compare_queues,
    last_two,
    queue_jobs,
    queue_measures,
    replay_queue,
    requested,
)

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
RULES = (QueueRules(), QueueRules(backfill_order="sjf"), QueueRules("wfp3", "saf"),
         QueueRules("fcfs", "sjf", "depth:100"), QueueRules(backfilling="conservative"))
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


def later_half(log: Path, family: str, chances: Sequence[float]) -> tuple[QueueJobs, dict[str, RunTimes]]:
    """The jobs of the later half, and every source of their run times."""
    trace = read_trace("swf", log)[0]
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = windows(rows, LATER_SHARE, 0.15)
    known = Learning(trace, "", encoder, rows, split, 0)
    everything = queue_jobs(trace)
    jobs = everything.take(everything.submission_s >= split.test_from_s)
    sources: dict[str, RunTimes] = {"requested": requested(jobs), "last-two": last_two(everything)}
    ids, table, _ = fitted_tables(parse_predictor(family), known, 1)
    ages_s = [int(age) for age in table.held_uptimes() if age > 0]
    median = queue_source(jobs, ids, table, 0.5)
    sources |= {f"{family} median": median, f"{family} mean": queue_source(jobs, ids, table),
                f"{family} median, by age": queue_source(jobs, ids, table, 0.5, ages_s),
                f"{family} mean, by age": queue_source(jobs, ids, table, None, ages_s)}
    for chance in chances:
        sources[f"{family} median, P >= {chance:g}"] = (median, queue_source(jobs, ids, table, chance))
    return jobs, sources | {"oracle": Oracle(jobs)}


def later(logs: Sequence[Path], family: str, chances: Sequence[float], out: Path | None) -> None:
    """Prints a table for each log and rules."""
    tables = []
    for log in logs:
        jobs, sources = later_half(log, family, chances)
        table = compare_queues(jobs, RULES, sources)
        tables.append(table.assign(log=log.name.split(".swf")[0]))
        print(f"\n{log.name}: {len(jobs):,} jobs, {dict(jobs.counts)}")
        for rule, own in table.groupby(["order", "backfill_order", "backfilling"], sort=False):
            print(f"{rule}\n{own[list(SHOWN)].round(3).to_string(index=False)}", flush=True)
        if out is not None:
            pd.concat(tables).to_csv(out, index=False)


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
    parser.add_argument("part", choices=("golden", "later", "speed"))
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--family", default="hazard")
    parser.add_argument("--chance", type=float, nargs="*", default=[0.5, 0.7, 0.9])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.part == "later":
        later(asked.logs, asked.family, asked.chance, asked.out)
    else:
        {"golden": golden, "speed": speed}[asked.part](asked.logs)


if __name__ == "__main__":
    main()
