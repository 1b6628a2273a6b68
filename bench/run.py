"""Runs an entry that is code, writes its files, and looks whether it reads the future.

    python -m bench.run METHOD [TASK ...] [--results FOLDER] [--no-check]
    python -m bench.run curves TASK ...

METHOD is a name of `bench.methods`, or a folder of results whose config.json names the code as MODULE:OBJECT. Default
tasks: all lite ones of the tracks that the method has. Each file is checked as `evaluate` does before it is kept.

"curves" makes the fixed curves of new place tasks.

The search for leaks: at a moment that is drawn within each test window the future is replaced by a made one, the method
runs again, and whatever it answered up to that moment must be the same. config.json then has the sha256 of the file. A
method can only be cleared of what the search sees: it finds mistakes, not malice, which reading the code may find.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.end_to_end import question_of, replayed, system
from bench.methods import METHODS, PlaceQuestion, PredictQuestion, QueueQuestion, fixed_totals
from bench.submission import (
    RESULTS,
    Entry,
    Starts,
    file_digest,
    read_curves,
    read_entry,
    read_placements,
    read_starts,
    write_curves,
    write_entry,
    write_placements,
    write_starts,
    write_system,
    write_totals,
)
from bench.tasks import AGES_S, HORIZONS_S, Fold, Task, load_task, made_future, task_names
from sojourn.features import Trace
from sojourn.features.creation import decision_times
from sojourn.simulator import Workload

CODE = "bench.methods:METHODS"
TOLERANCE = 1e-9


class LeakFound(ValueError):
    """An answer changed with what happened after it."""


def method_of(code: str) -> Any:
    """The object that a MODULE:OBJECT names; an OBJECT may go on with .NAME, of an attribute or a key."""
    module, _, name = code.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split(".") if name else ():
        found = found[part] if hasattr(found, "keys") else getattr(found, part)
    return found


def run(entry: Entry, task: Task, is_checked: bool = True) -> Entry:
    """Write the entry's file of a task; the entry with the task, and with its check. ValueError or LeakFound: no file.
    """
    method, path = method_of(entry.code), entry.file(task.name)
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / path.name
        if task.track == "predict":
            survival = [asked(method, task.trace, fold) for fold in task.folds]
            write_curves(fresh, task, np.concatenate(survival))
            read_curves(fresh, task)
            for k, fold in enumerate(task.folds if is_checked else ()):
                find_leak(method, task, fold, survival[k], seed=k)
        elif task.track == "place":
            asked_of = {key: PlaceQuestion(workload, task.curves(workload)) for key, workload in task.workloads.items()}
            hosts = {key: np.asarray(method.place(each), np.int64) for key, each in asked_of.items()}
            write_placements(fresh, task, hosts)
            read_placements(fresh, task)
            for key in list(hosts)[:3] if is_checked else ():
                find_place_leak(method, asked_of[key], hosts[key])
        elif task.track == "end":  # it hears of nothing before it happens: there is no leak to search for
            decided = {key: replayed(method.begin(question_of(task, workload)), workload, task.cut_s)
                       for key, workload in task.workloads.items()}
            write_placements(fresh, task, {key: each.host for key, each in decided.items()},
                             {key: each.each_us for key, each in decided.items()})
            read_placements(fresh, task)
        else:
            question = QueueQuestion(task.jobs, task.before, task.known, task.cut_s)
            starts = method.schedule(question)
            write_starts(fresh, task, starts)
            read_starts(fresh, task)
            if is_checked:
                find_queue_leak(method, question, starts)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(fresh, path)
    if task.track == "end":
        write_system(entry, task.name, system())
    checks = {name: digest for name, digest in entry.checks.items() if name != task.name}
    if is_checked and not entry.knows_future:
        checks[task.name] = file_digest(path)
    return replace(entry, tasks=tuple(sorted({*entry.tasks, task.name})), checks=checks)


def asked(method: Any, trace: Trace, fold: Fold) -> np.ndarray:
    """A method's curves, float64 (n_requests, n_ages, n_horizons), in [0, 1] and not rising but for rounding."""
    survival = np.asarray(method.predict(PredictQuestion(trace, fold)), np.float64)
    wanted = (len(fold.request_ids), len(AGES_S), len(HORIZONS_S))
    if survival.shape != wanted:
        raise ValueError(f"predict must give survival of shape {wanted}, got {survival.shape}")
    return survival


def find_leak(method: Any, task: Task, fold: Fold, survival: np.ndarray, seed: int) -> None:
    """LeakFound if a made future changes an answer of before it."""
    trace = task.trace
    place = task.ids.get_indexer(fold.request_ids)
    decided_s, start_s = decision_times(trace)[place], trace.start_s()[place]
    moments_s = np.stack([decided_s if age_s == 0 else start_s + age_s for age_s in AGES_S], axis=1)
    share = np.random.default_rng([int(task.rules["seed"]), seed]).uniform(0.25, 0.75)
    at_s = int(np.quantile(decided_s, share, method="lower"))
    again = asked(method, made_future(trace, at_s, seed), fold)
    differs = (np.abs(again - survival) > TOLERANCE).any(axis=2) & (moments_s <= at_s)
    if differs.any():
        row, column = (int(k) for k in np.argwhere(differs)[0])
        raise LeakFound(f"{task.name}: an answer must not change with what happens later, got another one for request "
                        f"{fold.request_ids[row]} at age {AGES_S[column]} s if all after second {at_s} is made up "
                        f"({int(differs.sum()):,} answers of {int((moments_s <= at_s).sum()):,})")


def find_queue_leak(method: Any, question: QueueQuestion, starts: Starts, seed: int = 0) -> None:
    """LeakFound if other run times after a moment, or other later jobs, change a start or an interval of before it."""
    jobs = question.jobs
    for share in (0.25, 0.6):
        at_s = int(jobs.submission_s[int(len(jobs) * share)])
        again = method.schedule(made_question(question, starts.start_s, at_s, seed))
        differs = np.minimum(starts.start_s, at_s + 1) != np.minimum(again.start_s, at_s + 1)
        if starts.eta_s is not None and again.eta_s is not None:
            differs |= (jobs.submission_s <= at_s) & (starts.eta_s != again.eta_s).any(axis=1)
        if differs.any():
            name = jobs.request_ids[int(np.argmax(differs))]
            raise LeakFound(f"an answer must not change with what happens later, got another start or interval for job "
                            f"{name} if all after second {at_s} is made up ({int(differs.sum()):,} jobs)")


def made_question(question: QueueQuestion, start_s: np.ndarray, at_s: int, seed: int) -> QueueQuestion:
    """With other run times of jobs that end after `at_s` in a schedule, and with jobs that are submitted later
    exchanged for each other, but for the times of their submission."""
    jobs, known, rng = question.jobs, question.known, np.random.default_rng(seed)
    least_s = np.where(start_s <= at_s, at_s - start_s + 1, 1)
    run_s = np.where(start_s + jobs.run_s > at_s, least_s + rng.permutation(jobs.run_s), jobs.run_s)
    later = np.flatnonzero(jobs.submission_s > at_s)
    moved = later[rng.permutation(len(later))]
    size, owner, limit_s = jobs.size.copy(), np.asarray(jobs.owner).copy(), jobs.limit_s.copy()
    size[later], owner[later], limit_s[later] = size[moved], owner[moved], limit_s[moved]
    attributes = [*known.roles.columns(), *known.resources]
    place = pd.Index(known.requests["request_id"]).get_indexer(jobs.request_ids)
    requests = known.requests.copy()
    requests.loc[place[later], attributes] = requests.loc[place[moved], attributes].to_numpy()
    requests = requests.astype({name: known.requests[name].dtype for name in attributes})
    made = replace(jobs, run_s=np.minimum(run_s, limit_s), limit_s=limit_s, size=size, owner=owner, recorded_end_s=None)
    return replace(question, jobs=made, known=replace(known, requests=requests))


def find_place_leak(method: Any, question: PlaceQuestion, host: np.ndarray, seed: int = 0) -> None:
    """LeakFound if other ends after a moment change the host of a request that arrived before it. Curves stay."""
    workload = question.workload
    for share in (0.3, 0.6, 0.9):
        at_s = int(workload.placed_s[int(share * len(host))])
        again = method.place(replace(question, workload=made_ends(workload, at_s, seed)))
        differs = (np.asarray(again) != host) & (workload.placed_s <= at_s)
        if differs.any():
            name = workload.trace.requests["request_id"].iloc[int(np.argmax(differs))]
            raise LeakFound(f"an answer must not change with what happens later, got another host for request {name} "
                            f"if all ends after second {at_s} are made up ({int(differs.sum()):,} requests)")


def made_ends(workload: Workload, at_s: int, seed: int, n_tries: int = 50) -> Workload:
    """The workload with other ends after `at_s`, and the same binding resource: a task gives it to every policy."""
    rng = np.random.default_rng(seed)
    for _ in range(n_tries):
        left_s = np.maximum(workload.placed_s, at_s) - workload.start_s + rng.permutation(workload.total_s)
        total_s = np.where(workload.departure_s > at_s, left_s, workload.total_s)
        end_s = pd.Series(workload.start_s + total_s, workload.trace.requests.index, dtype="Int64")
        departure = end_s.mask(end_s > workload.trace.horizon_s)
        trace = replace(workload.trace, requests=workload.trace.requests.assign(departure_s=departure))
        made = replace(workload, trace=trace, total_s=total_s)
        if made.resources == workload.resources:
            return made
    raise ValueError(f"a made future must keep the binding resource {workload.resources[0]}, got {n_tries} that do not")


def new_entry(folder: Path) -> Entry:
    """The entry of a folder, or for a method of `bench.methods` a new one."""
    name = folder.name
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, or a folder with config.json, got {name!r}")
    method: Any = METHODS[name]
    return Entry(folder, name, method.title, method.authors, "closed", f"{CODE}.{name}",
                 getattr(method, "knows_future", False), (), {})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and write; 1 if a task is refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method")
    parser.add_argument("task", nargs="*")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--no-check", action="store_true", help="do not look for leaks")
    options = parser.parse_args(arguments)
    if options.method == "curves":
        for task in map(load_task, options.task):
            write_totals(task.curves_file, *fixed_totals(task))
            print(f"{task.curves_file}: curves_sha256 = {file_digest(task.curves_file)}")
        return 0
    folder = options.results / options.method
    entry = read_entry(folder, is_new=True) if (folder / "config.json").is_file() else new_entry(folder)
    method = method_of(entry.code)
    tracks = [track for track, name in (("predict", "predict"), ("queue", "schedule"), ("place", "place"),
                                     ("end", "begin"))
              if hasattr(method, name)]
    names = options.task or [name for name in task_names() if name.endswith("-lite")
                             and name.partition("-")[0] in tracks]
    n_refused = 0
    for name in names:
        began = time.process_time()
        try:
            entry = run(entry, load_task(name), not options.no_check and not entry.knows_future)
        except ValueError as error:
            n_refused += 1
            print(f"refused: {error}", file=sys.stderr)
            continue
        write_entry(entry)
        print(f"{entry.method:16}{name:28}{time.process_time() - began:7.1f} s of CPU  "
              f"{'no leak found' if name in entry.checks else 'not searched for leaks'}", flush=True)
    return int(n_refused > 0)


if __name__ == "__main__":
    sys.exit(main())
