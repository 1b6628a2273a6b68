"""Logged curves as one table, whichever versions answered: measures ask it like any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sojourn.models.curve_table import CurveTable, HazardTable, OnceTable, PointTable
from sojourn.serving.decisions import LoggedModel


def logged_table(model: LoggedModel, curves: np.ndarray) -> CurveTable:
    """The curves that a version served, from what the log holds of them, float64 (n, k); ValueError for another k."""
    n_own = {"hazard": len(model.edges) - 1, "uptime": len(model.thresholds) + 1, "once": 1}.get(model.kind)
    if curves.shape[1] != n_own:
        raise ValueError(f"curves of version {model.version} must have {n_own} numbers, got {curves.shape[1]}")
    residuals = np.array(model.residuals)
    if model.kind == "hazard":
        edges = np.array(model.edges)
        return HazardTable.from_hazards(edges, curves * np.diff(edges), model.tail_s, np.array(model.grid))
    if model.kind == "once":
        return OnceTable(curves[:, 0], model.smearing, residuals)
    return PointTable(np.array(model.thresholds), curves, model.smearing, residuals)


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A `CurveTable` of rows of several tables. table, row: int64 (n,), whose row each one is."""

    tables: tuple[CurveTable, ...]
    table: np.ndarray
    row: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def take(self, idx: np.ndarray) -> JoinedTable:
        return JoinedTable(self.tables, self.table[idx], self.row[idx])

    def remaining(self, uptime_s: np.ndarray | float) -> np.ndarray:
        return self._asked(lambda table, at: table.remaining(_of(uptime_s, at)))

    def quantile(self, q: float, uptime_s: np.ndarray | float) -> np.ndarray:
        return self._asked(lambda table, at: table.quantile(q, _of(uptime_s, at)))

    def survival(self, horizon_s: np.ndarray | float, uptime_s: np.ndarray | float) -> np.ndarray:
        return self._asked(lambda table, at: table.survival(_of(horizon_s, at), _of(uptime_s, at)))

    def held_uptimes(self) -> np.ndarray:
        return np.unique(np.concatenate([table.held_uptimes() for table in self.tables]))

    def _asked(self, ask: Callable[[CurveTable, np.ndarray], np.ndarray]) -> np.ndarray:
        answers = np.empty(len(self))
        for place, table in enumerate(self.tables):
            at = np.flatnonzero(self.table == place)
            if len(at):
                answers[at] = ask(table.take(self.row[at]), at)
        return answers


def _of(values: np.ndarray | float, at: np.ndarray) -> np.ndarray | float:
    return values[at] if isinstance(values, np.ndarray) and values.ndim else values
