"""The track end: an entry's own predictor and its own policy, asked one request at a time, and timed.

`replayed` is the only clock: a method hears of a request when it arrives and of an end when it has come, so it cannot
use the future, and no search for leaks is needed. What it is told before is the trace as known at the cut.

The methods below are examples: best fit and first fit without a predictor, and an exit-aware fit with one of this
package's predictors, which admits, learns of each end, and is asked again at every age.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from bench.tasks import Task
from sojourn.features import Trace
from sojourn.features.creation import build_rows, decision_times, default_encoder
from sojourn.features.split import split_by_time
from sojourn.flows.placement.predictors import Learning, learnt_bundle, parse_predictor
from sojourn.serving import Lifetime, Predictor
from sojourn.simulator import Workload

PACKAGES = ("numpy", "lightgbm", "numba", "onnxruntime", "scikit-survival")
BUCKETS_S = (1, 600, 3_600, 4 * 3_600, 16 * 3_600, 64 * 3_600)
"""How much longer a host is in use, in steps: within one, the fuller host is taken."""
VALID_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class EndQuestion:
    """What a method may learn from, before the first request. past: the trace as known at `cut_s`, its last second;
    what still runs has no end there. free: of each host and resource, int64 (n_hosts, n_resources)."""

    past: Trace
    cut_s: int
    resources: tuple[str, ...]
    free: np.ndarray


class Agent(Protocol):
    """A predictor and a policy at work on one pool."""

    def arrive(self, name: str, request: Mapping[str, Any], need: np.ndarray, now_s: int, start_s: int) -> int:
        """The host of a request, from 0; -1 = no host has room. request: its attributes. start_s: before `now_s` if it
        ran already when the pool was taken over, all at the first second."""
        ...

    def ended(self, name: str, now_s: int) -> None:
        """A request that was placed has ended."""
        ...


class EndToEnd(Protocol):
    """A method of the track end."""

    def begin(self, question: EndQuestion) -> Agent:
        """Learns from the past, which is not timed, and takes over an empty pool."""
        ...


@dataclass(frozen=True, slots=True)
class Decided:
    """host: int64 (n,), -1 = rejected. each_us: float64 (n,), the time of each `arrive`."""

    host: np.ndarray
    each_us: np.ndarray


def question_of(task: Task, workload: Workload) -> EndQuestion:
    """What a method of the task gets for one load and arrangement."""
    return EndQuestion(task.past, task.cut_s, tuple(workload.resources), workload.capacity.copy())


def replayed(agent: Agent, workload: Workload, cut_s: int) -> Decided:
    """Ask an agent of each request in turn; at one second ends are told before arrivals. Seconds are the trace's.

    ValueError if a host has no room for what it gets.
    """
    table, roles = workload.trace.requests, workload.trace.roles
    columns = [name for name in (*roles.columns(), *workload.trace.resources) if name in table]
    attributes = table[columns].astype(object).where(table[columns].notna(), None).to_dict("records")
    names, free = table["request_id"].astype(str).tolist(), workload.capacity.copy()
    running: list[tuple[int, int]] = []  # a heap of (end, row)
    host, each_us = np.full(len(names), -1, np.int64), np.zeros(len(names))
    for row, now_s in enumerate(workload.placed_s.tolist()):
        while running and running[0][0] <= now_s:
            end_s, ended = heappop(running)
            free[host[ended]] += workload.need[ended]
            agent.ended(names[ended], cut_s + end_s)
        request = {str(key): value for key, value in attributes[row].items() if value is not None}
        need, start_s = workload.need[row].copy(), cut_s + int(workload.start_s[row])
        begun = time.perf_counter_ns()
        chosen = agent.arrive(names[row], request, need, cut_s + now_s, start_s)
        each_us[row] = (time.perf_counter_ns() - begun) / 1e3
        if chosen >= 0:
            if chosen >= len(free) or (free[chosen] < workload.need[row]).any():
                raise ValueError(f"a host must have room for request {names[row]}, got host {chosen} of {len(free)}")
            free[chosen] -= workload.need[row]
            heappush(running, (int(workload.departure_s[row]), row))
            host[row] = chosen
    return Decided(host, each_us)


def system() -> dict[str, Any]:
    """The machine and the versions that decisions were timed on. No name of a host or a user.

    >>> sorted(system())
    ['cores', 'machine', 'mem_gib', 'os', 'packages', 'processor', 'python']
    """
    return {"processor": _processor(), "machine": platform.machine(), "cores": os.cpu_count(),
            "mem_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "os": f"{platform.system()} {platform.release().partition('-')[0]}", "python": sys.version.split()[0],
            "packages": {name: found for name in PACKAGES if (found := _version(name))}}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
                platform.processor())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


@dataclass(slots=True)
class _Pool:
    """Free amounts of hosts, and who is where."""

    free: np.ndarray
    whole: np.ndarray = field(init=False)
    room: np.ndarray = field(init=False)
    held: dict[str, tuple[int, np.ndarray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free, self.whole, self.room = self.free.copy(), self.free, np.maximum(self.free[0], 1)

    def fitting(self, need: np.ndarray) -> np.ndarray:
        """Hosts with room, int64 (k,)."""
        return np.flatnonzero((self.free >= need).all(axis=1))

    def fullest(self, hosts: np.ndarray, need: np.ndarray) -> int:
        """Of some hosts that with least left of the binding resource, then of the others; the lowest number of equals.
        """
        left = (self.free[hosts] - need) / self.room
        return int(hosts[np.lexsort((hosts, *left.T[::-1]))[0]])

    def take(self, name: str, host: int, need: np.ndarray) -> int:
        """Place a request; its host."""
        self.free[host] -= need
        self.held[name] = (host, need)
        return host

    def leave(self, name: str) -> int:
        """The host that a request leaves."""
        host, need = self.held.pop(name)
        self.free[host] += need
        return host


@dataclass(slots=True)
class _Plain:
    """A policy of `Plain`."""

    pool: _Pool
    rule: str

    def arrive(self, name: str, request: Mapping[str, Any], need: np.ndarray, now_s: int, start_s: int) -> int:
        """As `Agent`."""
        hosts = self.pool.fitting(need)
        if not len(hosts):
            return -1
        if self.rule == "best-fit":
            return self.pool.take(name, self.pool.fullest(hosts, need), need)
        if self.rule == "first-in-use":
            in_use = hosts[(self.pool.free[hosts] < self.pool.whole[hosts]).any(axis=1)]
            hosts = in_use if len(in_use) else hosts
        return self.pool.take(name, int(hosts[0]), need)

    def ended(self, name: str, now_s: int) -> None:
        """As `Agent`."""
        self.pool.leave(name)


@dataclass(frozen=True, slots=True)
class Plain:
    """A policy without a predictor: best-fit; first-fit; first-in-use, an empty host only if no other has room."""

    title: str
    rule: str
    authors: str = "Sojourn"

    def begin(self, question: EndQuestion) -> Agent:
        """As `EndToEnd`."""
        return _Plain(_Pool(question.free), self.rule)


@dataclass(slots=True)
class _ExitFit:
    """The host whose exit the request moves least, in steps, then the fullest. Exits are asked anew at each decision.
    """

    pool: _Pool
    predictor: Predictor
    running: list[dict[str, tuple[Lifetime, int]]]

    def arrive(self, name: str, request: Mapping[str, Any], need: np.ndarray, now_s: int, start_s: int) -> int:
        """As `Agent`."""
        hosts = self.pool.fitting(need)
        if not len(hosts):
            return -1
        life = self.predictor.admit(request, now_s, arrival_s=start_s if start_s < now_s else None)
        left_s = life.remaining(now_s - start_s)
        longer_s = np.array([left_s - self._left_s(host, now_s) for host in hosts.tolist()])
        step = np.searchsorted(BUCKETS_S, longer_s, side="right")
        host = self.pool.fullest(hosts[step == step.min()], need)
        self.running[host][name] = (life, start_s)
        return self.pool.take(name, host, need)

    def ended(self, name: str, now_s: int) -> None:
        """As `Agent`."""
        life, _ = self.running[self.pool.leave(name)].pop(name)
        self.predictor.ended(life, now_s)

    def _left_s(self, host: int, now_s: int) -> float:
        return max((life.remaining(now_s - start_s) for life, start_s in self.running[host].values()), default=0.0)


@dataclass(frozen=True, slots=True)
class ExitFit:
    """A family of this package, served live, with an exit-aware fit."""

    title: str
    family: str
    authors: str = "Sojourn"

    def begin(self, question: EndQuestion) -> Agent:
        """As `EndToEnd`."""
        predictor = Predictor.load(_LEARNT.bundle(question.past, self.family))
        return _ExitFit(_Pool(question.free), predictor, [{} for _ in question.free])


class _Learnt:
    """The bundle that was learnt last: all arrangements of a task have one past."""

    of: tuple[Trace, str] | None = None
    folder: tempfile.TemporaryDirectory[str]

    def bundle(self, past: Trace, family: str) -> Path:
        """The folder of a family's bundle, learnt from a past."""
        if self.of is None or self.of[0] is not past or self.of[1] != family:
            encoder = default_encoder(past)
            rows = build_rows(past, encoder)
            last_s = int(decision_times(past)[past.is_start_known()].max())  # a split must hold a test
            split = split_by_time(rows, 0.3, VALID_SHARE, test_from_s=last_s)
            self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            learnt_bundle(Path(self.folder.name) / "bundle", parse_predictor(family),
                          Learning(past, "", encoder, rows, split, 0), 2)
            self.of = (past, family)
        return Path(self.folder.name) / "bundle"


_LEARNT = _Learnt()


END_TO_END: Mapping[str, EndToEnd] = MappingProxyType({
    "end-best-fit": Plain("best fit, no predictor", "best-fit"),
    "end-first-fit": Plain("first fit, no predictor", "first-fit"),
    "end-first-in-use": Plain("first fit in hosts in use, no predictor", "first-in-use"),
    "end-km": ExitFit("Kaplan-Meier by owner, exit-aware fit", "km"),
    "end-hazard": ExitFit("boosted hazards, exit-aware fit", "hazard"),
})


