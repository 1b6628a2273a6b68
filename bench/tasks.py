"""Tasks: what is asked of an entry, from a TOML file and a trace that the file names by its sha256.

No trace is redistributed: a task says where its file comes from, under which licence, and what its bytes are. Paths are
relative to the repository, or else to the folder in the environment variable SOJOURN_BENCH_DATA. A task with
`reader = "synthetic"` makes its trace by seed; its sha256 is that of the made columns.

`VERSION` is of the rules and of every constant here: a score is comparable only within one version.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features import Trace
from sojourn.features.creation import decision_times
from sojourn.features.readers import read_trace
from sojourn.features.synthetic import synthesize
from sojourn.flows.placement.workloads import known_by, later_workload_of, positions_of, replica
from sojourn.inflated import text_of, toml_of
from sojourn.simulator import Curves, Held, LifetimeSource, Oracle, Workload
from sojourn.simulator.queueing import QueueJobs, queue_jobs

VERSION = 3
BENCH = Path(__file__).resolve().parent
TASKS = BENCH / "tasks"
DATA = "SOJOURN_BENCH_DATA"
AGES_S = (0, 600, 3_600, 21_600)
"""Ages at which a predictor is asked: at creation, 10 min, 1 h, 6 h."""
HORIZONS_S = (10, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 172_800, 345_600,
              604_800, 1_209_600, 2_592_000)
"""Remaining times, s, at which a predicted curve is handed in: 10 s to 30 days."""
TRACKS = ("predict", "queue", "place", "end")
UPTIMES_S = (0, 60, 300, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 172_800, 345_600, 691_200, 1_382_400)
"""Uptimes from which a place task's curves give another total lifetime."""
_OUTCOMES = ("creation_s", "ended_after_s", "ended_by_s")
"""Columns of some readers that tell of a request's end beside `departure_s`."""
_KEYS: Mapping[str, frozenset[str]] = {
    "predict": frozenset({"test_shares", "n_requests", "long_s", "seed"}),
    "queue": frozenset({"test_share", "squeeze", "n_processors", "block_s", "warmup_s", "seed", "n_jobs"}),
    "place": frozenset({"test_share", "curves", "curves_sha256", "loads", "n_arrangements", "cpu_cores", "mem_gib",
                        "seed"}),
    "end": frozenset({"test_share", "loads", "n_arrangements", "cpu_cores", "mem_gib", "seed"}),
}


@dataclass(frozen=True, slots=True)
class Fold:
    """One test window of a predict task. cut_s: its begin, to which a model may be fitted; until_s: its end.

    request_ids: the requests that are asked of, in the order of their decision.
    """

    cut_s: int
    until_s: int
    request_ids: pd.Index


@dataclass(frozen=True)
class Task:
    """A task by its file. source: reader, files, licence and so on; rules: of its track, see `bench/README.md`."""

    name: str
    track: str
    about: str
    source: Mapping[str, Any]
    rules: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_lite(self) -> bool:
        """Whether it needs only what the repository has."""
        return self.name.endswith("-lite")

    @cached_property
    def trace(self) -> Trace:
        """The whole trace, without columns that tell of an end beside `departure_s`; ValueError if its bytes differ."""
        source = dict(self.source)
        if source["reader"] == "synthetic":
            trace = synthesize(source["n_requests"], seed=source["seed"], days=float(source["days"]))
            _check_digest(self.name, table_digest(trace), source["sha256"])
        else:
            paths = [_found(self.name, file["path"]) for file in source["files"]]
            for path, file in zip(paths, source["files"], strict=True):
                _check_digest(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), file["sha256"])
            path = paths[0].parent if source.get("is_folder") else paths[0]
            trace = read_trace(source["reader"], path, **source.get("options", {}))[0]
        hidden = [name for name in (*_OUTCOMES, *trace.meta.get("known_at_end", ()))
                  if name in trace.requests and name not in trace.roles.columns()]
        return replace(trace, requests=trace.requests.drop(columns=hidden), usage=None)

    @cached_property
    def ids(self) -> pd.Index:
        """Request ids of the trace, as text."""
        return pd.Index(self.trace.requests["request_id"].astype(str))

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        """Windows by decision time. Of each, `n_requests` are drawn by seed among those observed from their start."""
        trace, rules = self.trace, self.rules
        decided_s, start_s = decision_times(trace), trace.start_s()
        is_asked = trace.is_start_known() & (start_s >= trace.begin_s) & (start_s >= decided_s)
        is_asked &= trace.lifetime_s() >= 1
        in_order = np.sort(decided_s[trace.is_start_known()])
        cuts = [int(in_order[int(len(in_order) * share)]) for share in rules["test_shares"]] + [trace.horizon_s + 1]
        folds = []
        for k, (cut_s, until_s) in enumerate(pairwise(cuts)):
            idx = np.flatnonzero(is_asked & (decided_s >= cut_s) & (decided_s < until_s))
            n = min(int(rules["n_requests"]), len(idx))
            drawn = np.sort(np.random.default_rng([int(rules["seed"]), k]).permutation(len(idx))[:n])
            drawn = idx[drawn][np.argsort(decided_s[idx[drawn]], kind="stable")]
            folds.append(Fold(cut_s, until_s, self.ids[drawn]))
        return tuple(folds)

    @cached_property
    def asked(self) -> pd.DataFrame:
        """The rows of a predict task: `request_id` (text) and `age_s`, in the order of a file."""
        ids = pd.Index(np.concatenate([fold.request_ids for fold in self.folds]))
        return pd.DataFrame({"request_id": np.repeat(ids, len(AGES_S)), "age_s": np.tile(AGES_S, len(ids))})

    @cached_property
    def cut_s(self) -> int:
        """Of all but a predict task: the second from which it is replayed; a model may learn from what came before."""
        decided_s = np.sort(decision_times(self.trace))
        return int(decided_s[int(len(decided_s) * self.rules["test_share"])])

    @cached_property
    def jobs(self) -> QueueJobs:
        """The jobs of a queue task from the cut on. Arrivals are `squeeze` times as dense as recorded.

        What the log says of each job's end is not in it: history is what an entry's own schedule makes.
        """
        jobs = self._all_jobs.take(np.flatnonzero(self._all_jobs.submission_s >= self.cut_s)[:self.rules.get("n_jobs")])
        since_s = np.floor((jobs.submission_s - self.cut_s) / float(self.rules.get("squeeze", 1.0))).astype(np.int64)
        return replace(jobs, submission_s=self.cut_s + since_s, recorded_end_s=None,
                       request_ids=pd.Index(pd.Index(jobs.request_ids).astype(str)))

    @cached_property
    def before(self) -> QueueJobs:
        """The jobs that had ended by the cut, with their recorded ends; owners have the numbers of `jobs`."""
        jobs = self._all_jobs
        return jobs.take(np.flatnonzero((jobs.submission_s < self.cut_s)
                                        & (np.asarray(jobs.recorded_end_s) <= self.cut_s)))

    @cached_property
    def _all_jobs(self) -> QueueJobs:
        return queue_jobs(self.trace, n_processors=self.rules.get("n_processors"))

    @cached_property
    def known(self) -> Trace:
        """The trace as known at a queue task's cut, and of later requests what is known at their submission: their
        attributes. Their arrival is the submission, their departure missing. Ids are text."""
        trace = self.trace
        decided_s = decision_times(trace)
        is_kept = (decided_s >= self.cut_s) | (trace.start_s() < self.cut_s)
        arrival_s = np.where(decided_s >= self.cut_s, decided_s, trace.start_s())
        is_ended = trace.is_event() & (trace.end_s() <= self.cut_s) & (decided_s < self.cut_s)
        requests = trace.requests.assign(
            request_id=self.ids, arrival_s=pd.array(arrival_s, "Int64"),
            departure_s=trace.requests["departure_s"].where(is_ended, pd.NA))[is_kept]
        return Trace(requests.reset_index(drop=True), trace.horizon_s, trace.roles, trace.hosts, None, trace.meta)

    @cached_property
    def workloads(self) -> Mapping[tuple[float, int], Workload]:
        """Of a place or end task, for each load and arrangement: the later part of the trace on hosts of one shape.

        Arrangement 0 is the trace itself. In each other one arrivals are moved by up to 5 min, lifetimes by up to 2 %.
        """
        rules = self.rules
        found: dict[tuple[float, int], Workload] = {}
        for load in rules["loads"]:
            workload = later_workload_of("trace", self.trace, self.cut_s, load=load, seed=int(rules["seed"]),
                                         cpu_cores=float(rules["cpu_cores"]), mem_gib=float(rules["mem_gib"]))
            for seed in range(int(rules["n_arrangements"])):
                found[load, seed] = replica(workload, seed)
        return found

    @cached_property
    def past(self) -> Trace:
        """Of an end task: the trace as known at the cut."""
        return known_by(self.trace, self.cut_s)

    @property
    def curves_file(self) -> Path:
        """Where a place task's fixed curves are kept."""
        return BENCH / "curves" / f"{self.name}.csv.gz"

    def curves(self, workload: Workload) -> LifetimeSource:
        """The predictions of a place task, the same for every policy: fixed curves of a file, or the truth."""
        if self.rules["curves"] == "oracle":
            return Oracle(workload)
        path = self.curves_file
        text = text_of(path)
        _check_digest(str(path), hashlib.sha256(text.encode()).hexdigest(), self.rules["curves_sha256"])
        table = pd.read_csv(StringIO(text), dtype={"request_id": str})
        totals_s = table.drop(columns="request_id").to_numpy(np.int64)
        ids = workload.trace.requests["request_id"]
        at = positions_of(ids, table["request_id"])  # a part of a job that spans hosts has the job's curve
        if (at < 0).any():
            raise ValueError(f"{path} must have a row for each request, got none for {ids[at < 0].iloc[0]}")
        n, m = len(at), totals_s.shape[1]
        return Held(pd.Index(ids), Curves(np.arange(n + 1) * m, np.tile(UPTIMES_S, n), totals_s[at].reshape(-1)))


def table_digest(trace: Trace) -> str:
    """The sha256 of a trace's requests: every column as text, in order, and the horizon."""
    digest = hashlib.sha256(str(trace.horizon_s).encode())
    for name in trace.requests:
        column = trace.requests[name].astype(object)
        digest.update("\n".join([str(name), *("" if value is pd.NA or value is None else str(value)
                                              for value in column)]).encode())
    return digest.hexdigest()


def load_task(name: str, folder: Path | None = None) -> Task:
    """The task of NAME.toml in TASKS or a folder; ValueError that names the file, the key, the rule and the value.

    >>> load_task("predict-nasa-lite").track
    'predict'
    """
    path = (folder or TASKS) / f"{name}.toml"
    if not path.is_file():
        raise ValueError(f"task must be one of {', '.join(task_names(folder))}, got {name!r}")
    read = toml_of(path)
    track = read.get("track")
    if track not in TRACKS:
        raise ValueError(f"{path}: track must be one of {', '.join(TRACKS)}, got {track!r}")
    if read.get("version") != VERSION:
        raise ValueError(f"{path}: version must be {VERSION}, got {read.get('version')!r}")
    source, rules = read.get("source", {}), read.get(track, {})
    missing = [key for key in ("reader", "licence", "where") if key not in source]
    if missing:
        raise ValueError(f"{path}: source must have the key {missing[0]}, got {', '.join(source) or 'none'}")
    unknown = sorted(set(rules) - _KEYS[track])
    if unknown:
        raise ValueError(f"{path}: {track} must have keys of {', '.join(sorted(_KEYS[track]))}, got {unknown[0]!r}")
    return Task(name, track, str(read.get("about", "")), source, rules)


def task_names(folder: Path | None = None) -> list[str]:
    """Names of all tasks, sorted."""
    return sorted(path.stem for path in (folder or TASKS).glob("*.toml"))


def owner_codes(trace: Trace, idx: np.ndarray) -> list[np.ndarray]:
    """Of each owner column, coarsest first, the owners of some requests as codes int64; -1 = unknown."""
    return [pd.factorize(trace.requests[name].iloc[idx])[0] for name in trace.roles.owners]


def made_future(trace: Trace, at_s: int, seed: int) -> Trace:
    """The trace as it was until `at_s`, with another future, for the search for leaks.

    What ended by then stays. Later ends get other lifetimes (shuffled among themselves), later starts are moved (later
    ones later, so that the order stays), and attributes of requests decided later are shuffled. Ids stay, so that the
    same rows can be asked of.
    """
    rng = np.random.default_rng(seed)
    requests = trace.requests.copy()
    decided_s, start_s, end_s = decision_times(trace), trace.start_s(), trace.end_s()
    is_open = (end_s > at_s) | ~trace.is_event()
    moved_s = np.where(start_s > at_s, at_s + 1 + np.ceil((start_s - at_s - 1) * 1.37).astype(np.int64), start_s)
    since_s = np.maximum(start_s, at_s)[is_open]
    left_s = np.maximum(rng.permutation(end_s[is_open] - since_s) * 2, 1)
    new_end_s = end_s.copy()
    new_end_s[is_open] = np.maximum(moved_s[is_open], at_s) + left_s
    horizon_s = max(trace.horizon_s, int(new_end_s.max(initial=0)), int(moved_s.max(initial=0))) + 1
    requests["arrival_s"] = pd.array(moved_s, "Int64")
    requests.loc[~trace.is_start_known(), "arrival_s"] = pd.NA
    requests["departure_s"] = pd.array(new_end_s, "Int64")
    later = np.flatnonzero(decided_s > at_s)
    attributes = [*trace.roles.columns(), *trace.resources]
    requests.loc[later, attributes] = requests.loc[later[rng.permutation(len(later))], attributes].to_numpy()
    requests = requests.astype({name: trace.requests[name].dtype for name in attributes})
    return replace(trace, requests=requests, horizon_s=horizon_s)


def _found(task: str, path: str) -> Path:
    folders = [BENCH.parent, *([Path(os.environ[DATA])] if os.environ.get(DATA) else [])]
    for folder in folders:
        if (folder / path).is_file():
            return folder / path
    raise ValueError(f"{task}: file must be in one of {', '.join(map(str, folders))} (set {DATA}), got {path!r}")


def _check_digest(what: str, got: str, wanted: str) -> None:
    if got != wanted:
        raise ValueError(f"{what}: sha256 must be {wanted}, got {got}")
