"""Logged curves as one table, whichever versions answered: measures ask it like any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from sojourn.models.curve_table import CurveTable, HazardTable, OnceTable, PointTable
from sojourn.serving.decisions import LoggedModel


@dataclass(frozen=True, slots=True)
class _LoggedKind:
    """n_numbers: how many numbers the log holds of a curve. table: the curves from them, float64 (n, n_numbers)."""

    n_numbers: Callable[[LoggedModel], int]
    table: Callable[[LoggedModel, np.ndarray], CurveTable]


def _hazard_table(model: LoggedModel, curves: np.ndarray) -> CurveTable:
    edges = np.array(model.edges)
    return HazardTable.from_hazards(edges, curves * np.diff(edges), model.tail_s, np.array(model.grid))


def _limit_table(model: LoggedModel, curves: np.ndarray) -> CurveTable:
    rates, uppers_s = np.hsplit(curves, 2)
    edges = np.column_stack([np.zeros(len(curves)), uppers_s])
    return HazardTable.from_hazards(edges, rates * np.diff(edges, axis=1), model.tail_s, np.array(model.grid))


def _n_limit(model: LoggedModel) -> int:
    return 2 * (len(model.edges) - 1 + len(model.shares) - 1)


def _uptime_table(model: LoggedModel, curves: np.ndarray) -> CurveTable:
    return PointTable(np.array(model.thresholds), curves, model.smearing, np.array(model.residuals))


def _once_table(model: LoggedModel, curves: np.ndarray) -> CurveTable:
    return OnceTable(curves[:, 0], model.smearing, np.array(model.residuals))


_LOGGED_KINDS: Mapping[str, _LoggedKind] = MappingProxyType({
    "hazard": _LoggedKind(lambda model: len(model.edges) - 1, _hazard_table),
    "hazard-limit": _LoggedKind(_n_limit, _limit_table),
    "uptime": _LoggedKind(lambda model: len(model.thresholds) + 1, _uptime_table),
    "once": _LoggedKind(lambda model: 1, _once_table),
})
"""Name in schema.json -> kind, as in `serving.curves.KINDS`."""


def logged_table(model: LoggedModel, curves: np.ndarray) -> CurveTable:
    """The curves that a version served, from what the log holds of them, float64 (n, k); ValueError for another k."""
    kind = _LOGGED_KINDS.get(model.kind)
    n_own = None if kind is None else kind.n_numbers(model)
    if kind is None or curves.shape[1] != n_own:
        raise ValueError(f"curves of version {model.version} must have {n_own} numbers, got {curves.shape[1]}")
    return kind.table(model, curves)


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
