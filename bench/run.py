"""Runs an entry that is code, writes its files, and looks whether it reads the future.

    python -m bench.run METHOD [TASK ...] [--results FOLDER] [--no-check]
    python -m bench.run curves TASK ...

METHOD is a name of `bench.methods`, or a folder of results whose config.json names the code as MODULE:OBJECT. Default
tasks: all lite ones of the tracks that the method has. Each file is checked as `evaluate` does before it is kept.

"curves" makes the fixed curves of new place tasks.

The search for leaks runs in a process of its own, with an object of its own, so that nothing of the first run is there.
At three moments of each test window (the first that is asked of, one soon after, one drawn) the future is replaced by a
made one, the method runs again, and whatever it answered up to that moment must be the same. Nor may it open the task's
files. config.json then has the sha256 of the file. A method can only be cleared of what the search sees: it finds
mistakes, not malice, which reading the code may find.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.end_to_end import Decided, question_of, replayed, system
from bench.evaluate import checked_scores
from bench.methods import METHODS, PlaceQuestion, PredictQuestion, QueueQuestion, fixed_totals
from bench.submission import (
    RESULTS,
    Entry,
    Starts,
    file_digest,
    read_decisions,
    read_entry,
    read_placements,
    read_starts,
    write_curves,
    write_decisions,
    write_entry,
    write_placements,
    write_starts,
    write_system,
    write_totals,
)
from bench.tasks import AGES_S, HORIZONS_S, TASKS, Fold, Task, load_task, made_future, task_names
from sojourn.features import Trace
from sojourn.features.creation import decision_times
from sojourn.simulator import Workload

CODE = "bench.methods:METHODS"
TOLERANCE = 1e-9
SOON = 0.02
"""The share of a window's answers after which its second moment of the search is."""
METHOD_OF_TRACK = {"predict": "predict", "queue": "schedule", "place": "place", "end": "begin"}


class LeakFound(ValueError):
    """An answer changed with what happened after it."""


class MethodFailed(ValueError):
    """The entry's own code raised; its error is the cause."""


def method_of(code: str) -> Any:
    """The object that a MODULE:OBJECT names; an OBJECT may go on with .NAME, of an attribute or a key."""
    module, _, name = code.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split(".") if name else ():
            found = found[part] if hasattr(found, "keys") else getattr(found, part)
    except Exception as error:
        raise MethodFailed(f"code must be MODULE:OBJECT that Python can import here, got {code!r}: "
                           f"{type(error).__name__}: {error}") from error
    return found


def run(entry: Entry, task: Task, is_checked: bool = True) -> Entry:
    """Write the entry's file of a task; the entry with the task, and with its check.

    ValueError, MethodFailed or LeakFound: what it answered is in TASK.refused.csv.gz, if it could be written.
    """
    method, path = method_of(entry.code), entry.file(task.name)
    fresh = path.with_name(f"{task.name}.refused.csv.gz")
    answers = answers_of(method, task)
    write_answers(fresh, task, answers)
    if task.track == "predict":
        checked_scores(entry, task, fresh, n_draws=0)
    else:
        {"queue": read_starts, "place": read_placements, "end": read_decisions}[task.track](fresh, task)
    if is_checked and task.track != "end":  # an end method hears of nothing before it happens
        search(entry.code, task, answers)
    fresh.replace(path)
    if task.track == "end":
        write_system(entry, task.name, system())
    checks = {name: digest for name, digest in entry.checks.items() if name != task.name}
    if is_checked and not entry.knows_future:
        checks[task.name] = file_digest(path)
    return replace(entry, tasks=tuple(sorted({*entry.tasks, task.name})), checks=checks)


def answers_of(method: Any, task: Task) -> Any:
    """Of each fold the curves, of each load and arrangement the hosts or `Decided`, or the starts."""
    if task.track == "predict":
        return [asked(method, task.trace, fold) for fold in task.folds]
    if task.track == "queue":
        return scheduled(method, _queue_question(task))
    if task.track == "place":
        return {key: placed(method, question) for key, question in _place_questions(task).items()}
    return {key: _own(lambda workload: replayed(method.begin(question_of(task, workload)), workload, task.cut_s),
                      workload) for key, workload in task.workloads.items()}


def write_answers(path: Path, task: Task, answers: Any) -> None:
    """The file of a task."""
    if task.track == "predict":
        write_curves(path, task, np.concatenate(answers))
    elif task.track == "queue":
        write_starts(path, task, answers)
    elif task.track == "place":
        write_placements(path, task, answers)
    else:
        decided: Mapping[tuple[float, int], Decided] = answers
        write_decisions(path, task, {key: each.host for key, each in decided.items()},
                        {key: each.each_us for key, each in decided.items()})


def _own(call: Any, question: Any) -> Any:
    """What the entry's own code answers; MethodFailed if it raises."""
    try:
        return call(question)
    except LeakFound:
        raise
    except Exception as error:
        raise MethodFailed(f"the entry's own code must answer, got {type(error).__name__}: {error}") from error


def _numbers(found: Any, what: str, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    try:
        values: np.ndarray = np.asarray(found, dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be numbers, got {error}") from None
    if values.shape != shape:
        raise ValueError(f"{what} must have the shape {shape}, got {values.shape}")
    return values


def asked(method: Any, trace: Trace, fold: Fold) -> np.ndarray:
    """A method's curves, float64 (n_requests, n_ages, n_horizons), in [0, 1] and not rising but for rounding."""
    survival = _numbers(_own(method.predict, PredictQuestion(trace, fold)), "what predict gives",
                        (len(fold.request_ids), len(AGES_S), len(HORIZONS_S)), np.float64)
    bad = np.argwhere(~((survival >= -TOLERANCE) & (survival <= 1.0 + TOLERANCE)))
    if len(bad):
        row, age, horizon = bad[0].tolist()
        raise ValueError(f"what predict gives must be from 0 to 1, got {survival[row, age, horizon]} for request "
                         f"{fold.request_ids[row]} at age {AGES_S[age]} s after {HORIZONS_S[horizon]} s more")
    return survival


def scheduled(method: Any, question: QueueQuestion) -> Starts:
    """A method's starts, int64 (n,), and intervals, int64 (n, 2), if it states them."""
    found, n = _own(method.schedule, question), len(question.jobs)
    if not isinstance(found, Starts):
        raise ValueError(f"what schedule gives must be Starts, got {type(found).__name__}")
    return Starts(_numbers(found.start_s, "start_s of schedule", (n,), np.int64),
                  None if found.eta_s is None else _numbers(found.eta_s, "eta_s of schedule", (n, 2), np.int64))


def placed(method: Any, question: PlaceQuestion) -> np.ndarray:
    """A method's hosts, int64 (n,)."""
    return _numbers(_own(method.place, question), "what place gives", (len(question.workload.trace),), np.int64)


def _queue_question(task: Task) -> QueueQuestion:
    return QueueQuestion(task.jobs, task.before, task.known, task.cut_s)


def _place_questions(task: Task, step: int = 1) -> dict[tuple[float, int], PlaceQuestion]:
    """Of each `step`-th load and arrangement."""
    return {key: PlaceQuestion(task.workloads[key], task.curves(task.workloads[key]))
            for key in list(task.workloads)[::step]}


def search(code: str, task: Task, answers: Any) -> None:
    """LeakFound if a method whose object is made anew, in a new process, answers otherwise once the future is made up,
    or opens the task's files there."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            bare = replace(task)  # without the trace and workloads that it has read, which the process reads itself
            pool.submit(_searched, code, bare, answers).result()
        except BrokenProcessPool as error:
            raise ValueError(f"the process of the search for leaks must answer, got {error}") from None


def _searched(code: str, task: Task, answers: Any) -> None:
    question: Any = (_queue_question(task) if task.track == "queue" else
                     _place_questions(task, int(task.rules["n_arrangements"]) + 1)  # another arrangement of each load
                     if task.track == "place" else task.folds)
    opened = watch_files(task)
    method = method_of(code)
    try:
        if task.track == "predict":
            for k, fold in enumerate(question):
                find_leak(method, task, fold, answers[k], seed=k)
        elif task.track == "queue":
            find_queue_leak(method, question, answers)
        else:
            for key, each in question.items():
                find_place_leak(method, each, answers[key])
    finally:
        if opened:  # whatever it made of the error
            raise LeakFound(opened[0])


def watch_files(task: Task) -> list[str]:
    """From now on LeakFound, in this process, if a task or the task's trace is opened by Python; what was said of it.
    """
    names, said = {Path(file["path"]).name for file in task.source.get("files", ())}, list[str]()

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = Path(os.fsdecode(arguments[0]))
            if path.name in names or (path.suffix == ".toml" and path.absolute().parent == TASKS):
                said.append(f"a method must read nothing of the task but its question, got one that opens {path.name}")
                raise LeakFound(said[-1])

    sys.addaudithook(look)
    return said


def find_leak(method: Any, task: Task, fold: Fold, survival: np.ndarray, seed: int) -> None:
    """LeakFound if a made future changes an answer of before it."""
    trace = task.trace
    place = task.ids.get_indexer(fold.request_ids)
    decided_s, start_s = decision_times(trace)[place], trace.start_s()[place]
    moments_s = np.stack([decided_s if age_s == 0 else start_s + age_s for age_s in AGES_S], axis=1)
    drawn = np.random.default_rng([int(task.rules["seed"]), seed]).uniform(0.25, 0.75)
    for share in (0.0, SOON, drawn):
        at_s = int(np.quantile(decided_s, share, method="lower"))
        again = asked(method, made_future(trace, at_s, seed), fold)
        differs = (np.abs(again - survival) > TOLERANCE).any(axis=2) & (moments_s <= at_s)
        if differs.any():
            row, column = (int(k) for k in np.argwhere(differs)[0])
            raise LeakFound("an answer must not change with what happens later, got another one for "
                            f"request {fold.request_ids[row]} at age {AGES_S[column]} s if all after second {at_s} is "
                            f"made up ({int(differs.sum()):,} answers of {int((moments_s <= at_s).sum()):,})")


def find_queue_leak(method: Any, question: QueueQuestion, starts: Starts, seed: int = 0) -> None:
    """LeakFound if other run times after a moment, or other later jobs, change a start or an interval of before it."""
    jobs = question.jobs
    drawn = np.random.default_rng([len(jobs), seed]).uniform((0.1, 0.4), (0.4, 0.8)).tolist()
    for share in (SOON, *drawn):
        at_s = int(jobs.submission_s[int(len(jobs) * share)])
        again = scheduled(method, made_question(question, starts.start_s, at_s, seed))
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
    for share in (SOON, *np.random.default_rng([len(host), seed]).uniform((0.1, 0.5), (0.5, 0.9)).tolist()):
        at_s = int(workload.placed_s[int(share * len(host))])
        again = placed(method, replace(question, workload=made_ends(workload, at_s, seed)))
        differs = (again != host) & (workload.placed_s <= at_s)
        if differs.any():
            name = workload.trace.requests["request_id"].iloc[int(np.argmax(differs))]
            raise LeakFound(f"an answer must not change with what happens later, got another host for request {name} "
                            f"if all ends after second {at_s} are made up ({int(differs.sum()):,} requests)")


def made_ends(workload: Workload, at_s: int, seed: int) -> Workload:
    """The workload with other ends after `at_s`. The order of the resources stays: a task gives it to every policy."""
    rng = np.random.default_rng(seed)
    left_s = np.maximum(workload.placed_s, at_s) - workload.start_s + rng.permutation(workload.total_s)
    total_s = np.where(workload.departure_s > at_s, left_s, workload.total_s)
    end_s = pd.Series(workload.start_s + total_s, workload.trace.requests.index, dtype="Int64")
    departure = end_s.mask(end_s > workload.trace.horizon_s)
    trace = replace(workload.trace, requests=workload.trace.requests.assign(departure_s=departure))
    made = replace(workload, trace=trace, total_s=total_s)
    order = [made.resources.index(name) for name in workload.resources]
    kept = {"resources": workload.resources, "need": workload.need, "capacity": workload.capacity,
            "demand": replace(made.demand, amount=made.demand.amount[:, order])}
    for name, value in kept.items():
        object.__setattr__(made, name, value)
    return made


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
    config = folder / "config.json"
    try:
        made = None if config.is_file() else new_entry(folder)
        with _alone(folder):
            if made is not None and not config.is_file():
                write_entry(made)  # so what a run leaves that is killed is an entry without tasks, which stops no board
            return _run_tasks(read_entry(folder, is_new=True), options.task, not options.no_check)
    except ValueError as error:
        print(_refusal(options.method, error), file=sys.stderr)
        return 1


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Another run of the entry waits: both would write its files and its config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)


def _run_tasks(entry: Entry, asked_for: Sequence[str], is_checked: bool) -> int:
    """1 if a task is refused; asked_for: default all lite tasks of its tracks. ValueError if there is no such code."""
    method = method_of(entry.code)
    tracks = [track for track, name in METHOD_OF_TRACK.items() if hasattr(method, name)]
    names = asked_for or [name for name in task_names() if name.endswith("-lite")
                          and name.partition("-")[0] in tracks]
    n_refused = 0
    for name in names:
        began = time.process_time()
        try:
            task = load_task(name)
            if task.track not in tracks:
                raise ValueError(f"a method of this track must have {METHOD_OF_TRACK[task.track]}, got none")
            entry = run(entry, task, is_checked and not entry.knows_future)
        except ValueError as error:
            n_refused += 1
            print(_refusal(f"{entry.method}, {name}", error), file=sys.stderr)
            continue
        write_entry(entry)
        print(f"{entry.method:16}{name:28}{time.process_time() - began:7.1f} s of CPU  "
              f"{'no leak found' if name in entry.checks else 'not searched for leaks'}", flush=True)
    return int(n_refused > 0)


def _refusal(what: str, error: ValueError) -> str:
    """One line; of an error in the entry's code its traceback besides."""
    line = f"refused: {what}: {error}"
    if not isinstance(error, MethodFailed):
        return line
    own = "".join(traceback.format_exception(error.__cause__)).rstrip()
    return f"{line}\nThis is the traceback of the entry's code:\n{own}"


if __name__ == "__main__":
    sys.exit(main())
