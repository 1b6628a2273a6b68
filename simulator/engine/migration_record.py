"""The migrations that a rectifier planned in a replay: what each was expected to free, and what it freed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sojourn.simulator.engine.stays import Stays, gaps
from sojourn.simulator.rectification import DAY_S, MigrationGroup, PoolView, RefillRecord, Worth
from sojourn.simulator.workloads import Workload

NOT_BEGUN = -1


class MigrationRecord:
    """Migrations as they are planned, and when each began. refills: what the pool has shown so far."""

    def __init__(self) -> None:
        self.refills = RefillRecord()
        self._planned: list[dict[str, float]] = []
        self._begun: list[tuple[int, int, int]] = []
        self._n_groups = self._n_noted = 0

    def note_begun(self, plan: np.ndarray) -> None:
        """Take over when those that were added last began. plan: theirs, in the order in which they were added."""
        for own, begun_s in zip(self._planned[self._n_noted:], plan["begun_s"].tolist(), strict=True):
            own["begun_s"] = begun_s
            if begun_s != NOT_BEGUN:
                self._begun.append((int(own["row"]), int(own["target"]), begun_s))
        self._n_noted = len(self._planned)

    def add(self, now_s: int, view: PoolView, rows: np.ndarray, groups: Sequence[MigrationGroup],
            worths: Sequence[Worth]) -> None:
        """Migrations planned now. rows: of the view's requests."""
        for group, own in zip(groups, worths, strict=True):
            left_s = view.only(np.array(group.requests)).remaining_s()
            for position, target, remaining_s in zip(group.requests, group.targets, left_s.tolist(), strict=True):
                self._planned.append({
                    "planned_s": now_s, "group": self._n_groups, "row": int(rows[position]), "source": group.source,
                    "target": target, "n_together": len(group), "remaining_s": remaining_s, "chance": own.chance,
                    "chance_without": own.chance_without, "likely_s": own.likely_s, "expected_h": own.gain_h,
                    "begun_s": NOT_BEGUN})
            self._n_groups += 1

    def begun(self) -> np.ndarray:
        """Row, target and begin of each migration of which it was noted that it began, int64 (n, 3)."""
        return np.array(self._begun, np.int64).reshape(-1, 3)

    def table(self, workload: Workload, requests: np.ndarray, duration_s: int) -> pd.DataFrame:
        """One row a migration, the first planned first; see `Result.migrations`. requests: the loop's, at its end."""
        whole = dict.fromkeys(("planned_s", "group", "row", "source", "target", "n_together", "remaining_s"), np.int64)
        kinds = {**whole, **dict.fromkeys(("chance", "chance_without", "likely_s", "expected_h"), np.float64),
                 "begun_s": np.int64}
        found = pd.DataFrame(self._planned, columns=list(kinds)).astype(kinds)
        empty_s, freed_h = _results(found, requests, duration_s, workload.trace.horizon_s)
        hosts = workload.hosts["host_id"]
        begun_s = found["begun_s"].to_numpy()
        return pd.DataFrame({
            "planned_s": found["planned_s"], "group": found["group"],
            "request_id": workload.request_ids[found["row"].to_numpy()],
            "from_host": hosts.to_numpy()[found["source"]], "to_host": hosts.to_numpy()[found["target"]],
            **{name: found[name] for name in ("n_together", "remaining_s", "chance", "chance_without", "likely_s",
                                              "expected_h")},
            "begun_s": np.where(begun_s == NOT_BEGUN, np.nan, begun_s), "empty_s": empty_s, "freed_h": freed_h})


def _results(found: pd.DataFrame, requests: np.ndarray, duration_s: int,
             horizon_s: int) -> tuple[np.ndarray, np.ndarray]:
    """When the source of each migration was first empty, and the host-hours that its group freed; NaN where none."""
    empty_s, freed_h = np.full(len(found), np.nan), np.full(len(found), np.nan)
    is_begun = found["begun_s"] != NOT_BEGUN
    stays = Stays(found.loc[is_begun, ["row", "target", "begun_s"]].to_numpy(np.int64), requests, duration_s)
    for _, group in found.groupby("group"):
        begun = group[group["begun_s"] != NOT_BEGUN]
        if len(begun) == 0:
            continue
        until_s = min(int(begun["planned_s"].iloc[0]) + DAY_S, horizon_s)
        done_s = int(begun["begun_s"].max()) + duration_s
        rows, source = begun["row"].tolist(), int(begun["source"].iloc[0])
        held_to_s = max(int(requests["ends_s"][row]) for row in rows)
        spans = gaps(stays.of(source), done_s, until_s)
        gained_s = sum(max(min(to_s, held_to_s) - from_s, 0) for from_s, to_s in spans)
        for target in dict.fromkeys(begun["target"].tolist()):
            without = gaps(stays.of(target, rows), int(begun["begun_s"].min()), until_s)
            gained_s -= sum(to_s - from_s for from_s, to_s in without) - sum(
                to_s - from_s for from_s, to_s in gaps(stays.of(target), int(begun["begun_s"].min()), until_s))
        empty_s[begun.index] = spans[0][0] if spans else np.nan
        freed_h[begun.index] = gained_s / 3_600
    return empty_s, freed_h
