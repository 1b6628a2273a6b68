"""The migrations of a replay: who planned each, and what a rectifier's were expected to free and freed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pandas as pd

from sojourn.simulator.engine.stays import Stays, gaps
from sojourn.simulator.loop import DEFRAGMENTED, DRAINED, FAILED, MIGRATION_LOG, OPEN, UPDATED, World
from sojourn.simulator.rectification import DAY_S, MigrationGroup, PoolView, RefillRecord, Worth
from sojourn.simulator.workloads import Workload

NOT_BEGUN = -1
NO_GROUP = -1
"""The group of what no rectifier planned."""
PLANNERS: Mapping[int, str] = MappingProxyType({DEFRAGMENTED: "defragmentation", UPDATED: "maintenance",
                                                DRAINED: "drain"})
"""Who planned what no rectifier did, by what the host was closed for."""
_KINDS = {**dict.fromkeys(("planned_s", "group", "row", "source", "target"), np.int64),
          **dict.fromkeys(("n_together", "remaining_s", "chance", "chance_without", "likely_s", "expected_h"),
                          np.float64), "begun_s": np.int64, "planner": np.int64}


class MigrationRecord:
    """All migrations that began, as the loop logs them, and those that a rectifier planned, with their worth.

    refills: what the pool has shown so far. rectifier: its name, or None. host_events: HOST_EVENTS of the replay.
    """

    def __init__(self, rectifier: str | None, host_events: np.ndarray, duration_s: int) -> None:
        self.refills = RefillRecord()
        self.rectifier = rectifier
        self._host_events, self._duration_s = host_events, duration_s
        self._log = [np.zeros(0, MIGRATION_LOG)]
        self._planned: list[dict[str, float]] = []
        self._of_row: dict[int, dict[str, float]] = {}  # what was planned last
        self._n_groups = 0

    def take_over(self, world: World) -> None:
        """Take what the loop has logged out of its world."""
        counts = world.counts[0]
        entries = world.migration_log[:counts["n_logged"]].copy()
        counts["n_logged"] = 0
        for row, begun_s in entries[entries["planner"] == OPEN][["row", "at_s"]].tolist():
            self._of_row[row]["begun_s"] = begun_s
        self._log.append(entries)

    def add(self, now_s: int, view: PoolView, rows: np.ndarray, groups: Sequence[MigrationGroup],
            worths: Sequence[Worth]) -> None:
        """A rectifier's migrations planned now; those before that have not begun never will. rows: of the view's
        requests."""
        self._of_row = {}
        for group, own in zip(groups, worths, strict=True):
            left_s = view.only(np.array(group.requests)).remaining_s()
            for position, target, remaining_s in zip(group.requests, group.targets, left_s.tolist(), strict=True):
                row = int(rows[position])
                self._of_row[row] = {
                    "planned_s": now_s, "group": self._n_groups, "row": row, "source": group.source,
                    "target": target, "n_together": len(group), "remaining_s": remaining_s, "chance": own.chance,
                    "chance_without": own.chance_without, "likely_s": own.likely_s, "expected_h": own.gain_h,
                    "begun_s": NOT_BEGUN, "planner": OPEN}
                self._planned.append(self._of_row[row])
            self._n_groups += 1

    def log(self) -> np.ndarray:
        """All that was taken over, MIGRATION_LOG, in order of time."""
        self._log = [np.concatenate(self._log)]
        return self._log[0]

    def stays(self, requests: np.ndarray, *, from_s: int = 0, until_s: int | None = None) -> Stays:
        """Stays by all that was taken over; see `Stays`. requests: the loop's, or the first of them."""
        return Stays(self.log(), requests, self._duration_s, self._host_events, from_s=from_s, until_s=until_s)

    def table(self, workload: Workload, requests: np.ndarray) -> pd.DataFrame:
        """One row a migration, the first planned first; see `Result.migrations`. requests: the loop's, at its end."""
        found = pd.concat([pd.DataFrame(self._planned, columns=list(_KINDS)).astype(_KINDS), self._others()])
        found = found.sort_values("planned_s", kind="stable", ignore_index=True)
        empty_s, freed_h = self._results(found, requests, workload.trace.horizon_s)
        hosts = workload.hosts["host_id"]
        begun_s = found["begun_s"].to_numpy()
        names = {**PLANNERS, OPEN: str(self.rectifier)}
        return pd.DataFrame({
            "planner": [names[planner] for planner in found["planner"].tolist()],
            "planned_s": found["planned_s"], "group": found["group"],
            "request_id": workload.request_ids[found["row"].to_numpy()],
            "from_host": hosts.to_numpy()[found["source"]], "to_host": hosts.to_numpy()[found["target"]],
            **{name: found[name] for name in ("n_together", "remaining_s", "chance", "chance_without", "likely_s",
                                              "expected_h")},
            "begun_s": np.where(begun_s == NOT_BEGUN, np.nan, begun_s), "empty_s": empty_s, "freed_h": freed_h})

    def _others(self) -> pd.DataFrame:
        """Migrations that began and were not planned by a rectifier."""
        log = self.log()
        log = log[(log["planner"] != OPEN) & (log["planner"] != FAILED)]
        known = {"planned_s": log["planned_s"], "group": np.full(len(log), NO_GROUP), "row": log["row"],
                 "source": log["from_host"], "target": log["to_host"], "begun_s": log["at_s"],
                 "planner": log["planner"]}
        return pd.DataFrame(known, columns=list(_KINDS)).astype(_KINDS)

    def _results(self, found: pd.DataFrame, requests: np.ndarray, horizon_s: int) -> tuple[np.ndarray, np.ndarray]:
        """When the source of each migration was first empty, and the host-hours that its group freed; NaN where none,
        and for what no rectifier planned."""
        empty_s, freed_h = np.full(len(found), np.nan), np.full(len(found), np.nan)
        begun = found[(found["group"] != NO_GROUP) & (found["begun_s"] != NOT_BEGUN)]
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
    held_to_s = stays.last_s(rows)
    spans = gaps(stays.of(source), done_s, until_s)
    gained_s = sum(max(min(to_s, held_to_s) - from_s, 0) for from_s, to_s in spans)
    for target in dict.fromkeys(group["target"].tolist()):
        without = gaps(stays.of(target, rows), begun_s, until_s)
        gained_s -= sum(to_s - from_s for from_s, to_s in without) - sum(
            to_s - from_s for from_s, to_s in gaps(stays.of(target), begun_s, until_s))
    return (float(spans[0][0]) if spans else np.nan), gained_s / 3_600
