"""The figures of a replay, when each request held room on which host, and the record of migrations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd

from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.loop import (
    DEFRAGMENTED,
    DRAIN,
    DRAINED,
    FAIL,
    FAILED,
    MIGRATION_LOG,
    NOT_PLACED,
    OPEN,
    REOPEN,
    REPAIR,
    UPDATED,
    World,
)
from sojourn.simulator.rectification import MigrationGroup, PoolView, RefillRecord, Worth
from sojourn.simulator.workloads import Demand, Workload


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of one replay, over the time from the end of the warm-up to the horizon.

    empty_hosts_pct: time-weighted mean share of hosts that hold nothing and are open; higher is
        better.
    packing_density_pct: core-seconds allocated as a share of those of the hosts in use; higher is
        better.
    utilisation_pct: allocated share of the whole cluster's capacity, per resource, time-weighted.
    n_requests: requests that arrived after the warm-up. n_rejected, rejected_pct: those of them
        that fit on no host; lower is better. Empty hosts are comparable only if few are rejected.
    rejections: their reasons, most frequent first. "cpu_cores" = on every host too little of it was
        free, "cpu_cores+mem_gib" = too little of each of the two, "fragmentation" = each resource
        was free on some host but never all on one, "filter" = a host had room but the policy
        excluded it, "constraint" = a rule of the workload excluded it. If requests wait for room,
        the rejected ones are those that never got a host.
    mean_wait_s: of the requests that arrived after the warm-up and were placed, seconds; lower is
        better.
    n_planned_migrations, n_migrations: live migrations planned and begun; lower is better. The
        others ended, or could stay, before their turn. (One planned in the warm-up may begin after
        it.) migrated_gib: memory copied by the migrations that began.
    n_rescheduled, n_lost: requests that started again elsewhere after a host's failure, or that it
        ended; lower is better.
    n_updated: hosts that waves of maintenance have updated by the horizon; higher is better.
    voided_core_h: core-hours that failures voided, to be done again; lower is better.
    n_rescores: hosts whose predicted exit was recomputed; lower is cheaper.
    n_events: arrivals and departures processed, warm-up included.
    """

    empty_hosts_pct: float
    packing_density_pct: float
    utilisation_pct: Mapping[str, float]
    n_requests: int
    n_rejected: int
    rejected_pct: float
    rejections: Mapping[str, int]
    mean_wait_s: float
    n_planned_migrations: int
    n_migrations: int
    migrated_gib: float
    n_rescheduled: int
    n_lost: int
    n_updated: int
    voided_core_h: float
    n_rescores: int
    n_events: int


def fewest_hosts(steps: Demand, capacity: np.ndarray) -> np.ndarray:
    """Fewest hosts that total demand needs at each step, int64 (n_steps,): a lower bound for any policy.

    The maximum over the resources; if hosts differ, the largest in each resource count first. Demand
    above the capacity of all hosts needs all of them.

    capacity: int64 (n_hosts, n_resources).

    >>> steps = Demand(np.array([0, 10]), np.array([[9, 1], [0, 0]]))
    >>> fewest_hosts(steps, np.array([[8, 8], [8, 8], [4, 8]])).tolist()
    [2, 0]
    """
    hosts = np.zeros(len(steps.time_s), np.int64)
    for d in range(capacity.shape[1]):
        largest_first = np.cumsum(np.sort(capacity[:, d])[::-1])
        needed = np.where(steps.amount[:, d] > 0, np.searchsorted(largest_first, steps.amount[:, d]) + 1, 0)
        hosts = np.maximum(hosts, np.minimum(needed, len(capacity)))
    return hosts


def integral_at(time_s: np.ndarray, level: np.ndarray, mark_s: np.ndarray) -> np.ndarray:
    """Integral from 0 to each mark of a step function that is 0 before its first step; int64 (n_marks,).

    >>> integral_at(np.array([0, 10]), np.array([2, 5]), np.array([10, 12])).tolist()
    [20, 30]
    """
    if len(time_s) == 0:
        return np.zeros(len(mark_s), np.int64)
    whole = np.append(0, np.cumsum(level[:-1] * np.diff(time_s)))
    k = np.searchsorted(time_s, mark_s, side="right") - 1
    value = whole[np.maximum(k, 0)] + level[np.maximum(k, 0)] * (mark_s - time_s[np.maximum(k, 0)])
    return np.where(k < 0, 0, value).astype(np.int64)


def reason_names(reason: np.ndarray, resources: tuple[str, ...]) -> dict[str, int]:
    """Counts of rejection codes by name, most frequent first, then by name.

    >>> reason_names(np.array([1, 3, 3, 0, -1]), ("cpu_cores", "mem_gib"))
    {'cpu_cores+mem_gib': 2, 'cpu_cores': 1, 'filter': 1, 'fragmentation': 1}
    """
    special = {0: "fragmentation", -1: "filter", -2: "constraint"}
    codes, counts = np.unique(reason, return_counts=True)
    named = {
        special.get(int(code), "+".join(name for d, name in enumerate(resources) if int(code) >> d & 1)): int(count)
        for code, count in zip(codes, counts, strict=True)
    }
    return dict(sorted(named.items(), key=lambda item: (-item[1], item[0])))


NOBODY = -1
"""The row of stays by which a failed or drained host counts as occupied."""


class Stays:
    """When each request held room on each host, over all migrations and restarts.

    A failed or drained host counts as occupied until it is open again, since no request can use it.
    """

    def __init__(self, log: np.ndarray, requests: np.ndarray, duration_s: int, host_events: np.ndarray | None = None, *,
                 from_s: int = 0, until_s: int | None = None) -> None:
        """log: MIGRATION_LOG, all of it so far. requests: HELD by row. host_events: HOST_EVENTS of the replay.
        from_s: requests that ended by then are left out. until_s: the time that the replay has reached, and the
        end of the host events that count; None = its end.
        """
        ends_s = requests["ends_s"] if until_s is None else np.minimum(requests["ends_s"], until_s)
        rows = np.flatnonzero((requests["first_host"] != NOT_PLACED) & (ends_s > from_s))
        since_s = (requests["arrival_s"] + requests["wait_s"])[rows]
        begun = np.stack([rows, requests["first_host"][rows], since_s, ends_s[rows]], axis=1)
        log = log[np.isin(log["row"], rows)]
        is_moved = np.isin(rows, log["row"])
        moved = {row: [[row, host, since, to]] for row, host, since, to in begun[is_moved].tolist()}
        for row, source, target, at_s, planner, _ in log.tolist():
            _follow(moved[row], source, target, at_s, at_s if planner == FAILED else at_s + duration_s,
                    int(ends_s[row]))
        further = [stay for stays in moved.values() for stay in stays]
        closed = [] if host_events is None else _closed(host_events, until_s)
        whole = np.concatenate([begun[~is_moved], np.array([*further, *closed], np.int64).reshape(-1, 4)])
        whole = whole[np.lexsort((whole[:, 2], whole[:, 1]))]
        self._row, self._host, self._from_s, self._to_s = whole.T.copy()

    def of(self, host: int, but: Sequence[int] = ()) -> np.ndarray:
        """Begin and end of stays on a host, int64 (n, 2), by begin, without the requests `but`."""
        of_host = slice(*np.searchsorted(self._host, [host, host + 1]))
        stays = np.stack([self._from_s[of_host], self._to_s[of_host]], axis=1)
        return np.asarray(stays[~np.isin(self._row[of_host], list(but))])

    def all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Host, begin and end of all stays, by host and then by begin; int64 (n,)."""
        return self._host, self._from_s, self._to_s

    def last_s(self, rows: Sequence[int]) -> int:
        """When the last of these requests ended, or a failure ended it for good."""
        return int(self._to_s[np.isin(self._row, list(rows))].max())


def gaps(stays: np.ndarray, from_s: int, to_s: int) -> list[tuple[int, int]]:
    """The gaps between stays from from_s to to_s; stays: begin and end by begin, int64 (n, 2)."""
    stays = stays[(stays[:, 1] > from_s) & (stays[:, 0] < to_s)]
    ends = np.maximum.accumulate(np.append(from_s, stays[:, 1]))
    begins = np.append(stays[:, 0], max(to_s, from_s))
    return [(int(end), int(begin)) for end, begin in zip(ends, begins, strict=True) if begin > end]


def _follow(stays: list[list[int]], source: int, target: int, at_s: int, left_s: int, end_s: int) -> None:
    """Bring one request's stays (row, host, from, to) up to date with an entry of the log.

    left_s: when it has left the source. If its host fails while it migrates, the request continues on
    the other host.
    """
    for stay in stays:
        if stay[1] == source and stay[3] > at_s:
            stay[3] = min(end_s, left_s)
    open_stays = [stay for stay in stays if stay[1] == target and stay[3] > at_s]
    for stay in open_stays:
        stay[3] = end_s
    if target != NOT_PLACED and not open_stays:
        stays.append([stays[0][0], target, at_s, end_s])


def _closed(host_events: np.ndarray, until_s: int | None) -> list[tuple[int, int, int, int]]:
    """Failures and drains as stays of NOBODY; those not over by until_s end then, or never if it is None."""
    spells: list[tuple[int, int, int, int]] = []
    open_s: dict[int, int] = {}
    n_closing: dict[int, int] = {}
    for time_s, what, host in host_events.tolist():
        if until_s is not None and time_s > until_s:
            break
        if what in (FAIL, DRAIN):
            n_closing[host] = n_closing.get(host, 0) + 1
            open_s.setdefault(host, time_s)
        elif what in (REPAIR, REOPEN):
            n_closing[host] -= 1
            if n_closing[host] == 0:
                spells.append((NOBODY, host, open_s.pop(host), time_s))
    end_s = np.iinfo(np.int64).max if until_s is None else until_s
    return [*spells, *((NOBODY, host, from_s, end_s) for host, from_s in open_s.items())]


NOT_BEGUN = -1
NO_GROUP = -1
"""The group of a migration that no rectifier planned."""
PLANNERS: Mapping[int, str] = MappingProxyType({DEFRAGMENTED: "defragmentation", UPDATED: "maintenance",
                                                DRAINED: "drain"})
"""Who planned the other migrations, by why the host was closed."""
_KINDS = {**dict.fromkeys(("planned_s", "group", "row", "source", "target"), np.int64),
          **dict.fromkeys(("n_together", "remaining_s", "chance", "chance_without", "likely_s", "expected_h"),
                          np.float64), "begun_s": np.int64, "planner": np.int64}


class MigrationRecord:
    """All migrations that began, as the loop logs them, and those that a rectifier planned, with their worth.

    refills: the refills of the pool's hosts so far. rectifier: its name, or None. host_events:
    HOST_EVENTS of the replay.
    """

    def __init__(self, rectifier: str | None, host_events: np.ndarray, duration_s: int) -> None:
        self.refills = RefillRecord()
        self.rectifier = rectifier
        self._host_events, self._duration_s = host_events, duration_s
        self._log = [np.zeros(0, MIGRATION_LOG)]
        self._planned: list[dict[str, float]] = []
        self._of_row: dict[int, dict[str, float]] = {}  # the last plan
        self._n_groups = 0

    def take_over(self, world: World) -> None:
        """Move the loop's log entries from its world to this record."""
        counts = world.counts[0]
        entries = world.migration_log[:counts["n_logged"]].copy()
        counts["n_logged"] = 0
        for row, begun_s in entries[entries["planner"] == OPEN][["row", "at_s"]].tolist():
            self._of_row[row]["begun_s"] = begun_s
        self._log.append(entries)

    def add(self, now_s: int, view: PoolView, rows: np.ndarray, groups: Sequence[MigrationGroup],
            worths: Sequence[Worth]) -> None:
        """Add a rectifier's migrations, planned now; earlier ones that have not begun never will. rows: the row
        of each of the view's requests."""
        self._of_row = {}
        for group, worth in zip(groups, worths, strict=True):
            left_s = view.only(np.array(group.requests)).remaining_s()
            for position, target, remaining_s in zip(group.requests, group.targets, left_s.tolist(), strict=True):
                row = int(rows[position])
                self._of_row[row] = {
                    "planned_s": now_s, "group": self._n_groups, "row": row, "source": group.source,
                    "target": target, "n_together": len(group), "remaining_s": remaining_s, "chance": worth.chance,
                    "chance_without": worth.chance_without, "likely_s": worth.likely_s, "expected_h": worth.gain_h,
                    "begun_s": NOT_BEGUN, "planner": OPEN}
                self._planned.append(self._of_row[row])
            self._n_groups += 1

    def n_rectified(self, from_s: int) -> int:
        """How many of the rectifier's migrations have begun since then."""
        log = self.log()
        return int(((log["planner"] == OPEN) & (log["at_s"] >= from_s)).sum())

    def log(self) -> np.ndarray:
        """All entries so far, MIGRATION_LOG, in order of time."""
        self._log = [np.concatenate(self._log)]
        return self._log[0]

    def stays(self, requests: np.ndarray, *, from_s: int = 0, until_s: int | None = None) -> Stays:
        """Stays by all entries so far; see `Stays`. requests: HELD by row."""
        return Stays(self.log(), requests, self._duration_s, self._host_events, from_s=from_s, until_s=until_s)

    def table(self, workload: Workload, requests: np.ndarray) -> pd.DataFrame:
        """One row a migration, the first planned first; see `Result.migrations`. requests: HELD by row, at the
        replay's end; not read without a rectifier."""
        migrations = pd.concat([pd.DataFrame(self._planned, columns=list(_KINDS)).astype(_KINDS), self._others()])
        migrations = migrations.sort_values("planned_s", kind="stable", ignore_index=True)
        empty_s, freed_h = self._results(migrations, requests, workload.trace.horizon_s)
        hosts = workload.hosts["host_id"]
        begun_s = migrations["begun_s"].to_numpy()
        names = {**PLANNERS, OPEN: str(self.rectifier)}
        return pd.DataFrame({
            "planner": [names[planner] for planner in migrations["planner"].tolist()],
            "planned_s": migrations["planned_s"], "group": migrations["group"],
            "request_id": workload.request_ids[migrations["row"].to_numpy()],
            "from_host": hosts.to_numpy()[migrations["source"]], "to_host": hosts.to_numpy()[migrations["target"]],
            **{name: migrations[name] for name in ("n_together", "remaining_s", "chance", "chance_without", "likely_s",
                                              "expected_h")},
            "begun_s": np.where(begun_s == NOT_BEGUN, np.nan, begun_s), "empty_s": empty_s, "freed_h": freed_h})

    def _others(self) -> pd.DataFrame:
        """Migrations that began and were not planned by a rectifier."""
        log = self.log()
        log = log[(log["planner"] != OPEN) & (log["planner"] != FAILED)]
        columns = {"planned_s": log["planned_s"], "group": np.full(len(log), NO_GROUP), "row": log["row"],
                 "source": log["from_host"], "target": log["to_host"], "begun_s": log["at_s"],
                 "planner": log["planner"]}
        return pd.DataFrame(columns, columns=list(_KINDS)).astype(_KINDS)

    def _results(self, migrations: pd.DataFrame, requests: np.ndarray, horizon_s: int) -> tuple[np.ndarray, np.ndarray]:
        """When the source of each migration was first empty, and the host-hours that its group freed; NaN if never
        or if no rectifier planned it."""
        empty_s, freed_h = np.full(len(migrations), np.nan), np.full(len(migrations), np.nan)
        begun = migrations[(migrations["group"] != NO_GROUP) & (migrations["begun_s"] != NOT_BEGUN)]
        stays = self.stays(requests) if len(begun) else None
        for _, group in begun.groupby("group"):
            assert stays is not None
            until_s = min(int(group["planned_s"].iloc[0]) + DAY_S, horizon_s)
            empty_s[group.index], freed_h[group.index] = _freed(group, stays, self._duration_s, until_s)
        return empty_s, freed_h


def _freed(group: pd.DataFrame, stays: Stays, duration_s: int, until_s: int) -> tuple[float, float]:
    """When the host that a group's migrations left was first empty, NaN if not by until_s; and host-hours freed."""
    begun_s, done_s = int(group["begun_s"].min()), int(group["begun_s"].max()) + duration_s
    rows, source = group["row"].tolist(), int(group["source"].iloc[0])
    last_end_s = stays.last_s(rows)
    spans = gaps(stays.of(source), done_s, until_s)
    gained_s = sum(max(min(to_s, last_end_s) - from_s, 0) for from_s, to_s in spans)
    for target in dict.fromkeys(group["target"].tolist()):
        without = gaps(stays.of(target, rows), begun_s, until_s)
        gained_s -= sum(to_s - from_s for from_s, to_s in without) - sum(
            to_s - from_s for from_s, to_s in gaps(stays.of(target), begun_s, until_s))
    return (float(spans[0][0]) if spans else np.nan), gained_s / 3_600
