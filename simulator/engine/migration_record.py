"""The migrations that a rectifier planned in a replay: what each was expected to free, and what it freed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sojourn.simulator.loop import NOT_PLACED
from sojourn.simulator.rectification import DAY_S, MigrationGroup, PoolView, Worth
from sojourn.simulator.workloads import Workload

NOT_BEGUN = -1


class MigrationRecord:
    """Migrations as they are planned, and when each began."""

    def __init__(self) -> None:
        self._planned: list[dict[str, float]] = []
        self._n_groups = self._n_noted = 0

    def note_begun(self, plan: np.ndarray) -> None:
        """Take over when those that were added last began. plan: theirs, in the order in which they were added."""
        for own, begun_s in zip(self._planned[self._n_noted:], plan["begun_s"].tolist(), strict=True):
            own["begun_s"] = begun_s
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
    stays = _Stays(found[found["begun_s"] != NOT_BEGUN], requests, duration_s)
    for _, group in found.groupby("group"):
        begun = group[group["begun_s"] != NOT_BEGUN]
        if len(begun) == 0:
            continue
        until_s = min(int(begun["planned_s"].iloc[0]) + DAY_S, horizon_s)
        done_s = int(begun["begun_s"].max()) + duration_s
        rows, source = begun["row"].tolist(), int(begun["source"].iloc[0])
        held_to_s = max(int(requests["ends_s"][row]) for row in rows)
        gaps = _gaps(stays.of(source), done_s, until_s)
        gained_s = sum(max(min(to_s, held_to_s) - from_s, 0) for from_s, to_s in gaps)
        for target in dict.fromkeys(begun["target"].tolist()):
            without = _gaps(stays.of(target, rows), int(begun["begun_s"].min()), until_s)
            gained_s -= sum(to_s - from_s for from_s, to_s in without) - sum(
                to_s - from_s for from_s, to_s in _gaps(stays.of(target), int(begun["begun_s"].min()), until_s))
        empty_s[begun.index] = gaps[0][0] if gaps else np.nan
        freed_h[begun.index] = gained_s / 3_600
    return empty_s, freed_h


class _Stays:
    """From when to when each request held room on which host, migrations in between."""

    def __init__(self, begun: pd.DataFrame, requests: np.ndarray, duration_s: int) -> None:
        rows = np.flatnonzero(requests["first_host"] != NOT_PLACED)
        from_s = (requests["arrival_s"] + requests["wait_s"])[rows]
        host, to_s = requests["first_host"][rows].copy(), requests["ends_s"][rows].copy()
        further = np.zeros((len(begun), 4), np.int64)
        last = {int(row): int(np.searchsorted(rows, row)) for row in set(begun["row"])}
        for k, (row, target, begun_s) in enumerate(zip(begun["row"], begun["target"], begun["begun_s"], strict=True)):
            ends_s, at = int(requests["ends_s"][row]), last[int(row)]
            if at < len(rows):
                to_s[at] = min(ends_s, begun_s + duration_s)
            else:
                further[at - len(rows), 3] = min(ends_s, begun_s + duration_s)
            further[k] = row, target, begun_s, ends_s
            last[int(row)] = len(rows) + k
        self._row = np.append(rows, further[:, 0])
        host = np.append(host, further[:, 1])
        order = np.argsort(host, kind="stable")
        self._host, self._row = host[order], self._row[order]
        self._from_s = np.append(from_s, further[:, 2])[order]
        self._to_s = np.append(to_s, further[:, 3])[order]

    def of(self, host: int, but: Sequence[int] = ()) -> np.ndarray:
        """Stays on a host, int64 (n, 2), from and to, by the first; but: without those of these requests."""
        own = slice(*np.searchsorted(self._host, [host, host + 1]))
        stays = np.stack([self._from_s[own], self._to_s[own]], axis=1)[~np.isin(self._row[own], list(but))]
        return np.asarray(stays[np.argsort(stays[:, 0], kind="stable")])


def _gaps(stays: np.ndarray, from_s: int, to_s: int) -> list[tuple[int, int]]:
    """The spans of a time in which no stay holds; stays by their begin."""
    stays = stays[(stays[:, 1] > from_s) & (stays[:, 0] < to_s)]
    ends = np.maximum.accumulate(np.append(from_s, stays[:, 1]))
    begins = np.append(stays[:, 0], max(to_s, from_s))
    return [(int(end), int(begin)) for end, begin in zip(ends, begins, strict=True) if begin > end]
