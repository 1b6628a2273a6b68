"""The curves of a bundle's model for rows of a trace, as a predictor would give them.

A bundle with habits (`models.lifetime.online`) or recalibration goes on learning. Its curve of a
row is mixed with the habits of the moment of the row's decision, by what had ended and what ran
then, and by the losses of both until then; recalibration multiplies its hazards by the factors of
that moment. So it needs the rows of the whole trace, in the order of decision.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeGuard

import numpy as np

from sojourn.features.creation import FeatureRows
from sojourn.features.split import known_at
from sojourn.models.bundle_writer import raw_scores, table_of
from sojourn.models.curve_table import CurveTable, HazardTable, hazards_of, online_factors
from sojourn.models.lifetime import Axis, EventLog, Events, Intervals, Replayed, Weighing, mixed
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import Bundle
from sojourn.serving.curves.habit_kernels import BlendRules, HabitRules
from sojourn.serving.inputs import LIMIT
from sojourn.serving.live import LiveHabits

_N_AT_ONCE = 50_000


class ServedCurves:
    """A bundle's curves of the rows of one trace.

    rows: all of the trace, by the bundle's encoder, in the order of decision. learns_from_s: the losses of rows decided
    from then on weigh the model against the habits; the model must not have seen them. goes_on: habits and weights
    begin with those of the bundle, since the trace does not hold what the bundle has learnt from; else they begin
    without counts, and the weights at one half. Recalibration learns of rows decided from learns_from_s on, with
    factors of 1 before its first ends. Without both none of the three is read.
    """

    def __init__(self, bundle: Bundle, rows: FeatureRows, learns_from_s: int = 0, *, goes_on: bool = False) -> None:
        self.bundle, self.schema, self.rows = bundle, bundle.schema, rows
        self.forest = CurveBuilder(bundle.schema, bundle.model).forest
        self._start = None if bundle.habits is None else LiveHabits(bundle.schema, bundle.habits, will_answer=False)
        self._goes_on, self._learns_from_s = goes_on, learns_from_s

    def at(self, idx: np.ndarray) -> CurveTable:
        """The curves of the rows at these positions, int64 or bool."""
        places = np.arange(len(self.rows))[idx]
        table = self._unfactored(places)
        return table.recalibrated(self._factors[0], self._factors[1][places]) if self._is_recalibrated(table) else table

    def _is_recalibrated(self, table: CurveTable) -> TypeGuard[HazardTable]:
        return self.bundle.recalibrates and isinstance(table, HazardTable)

    @cached_property
    def _factors(self) -> tuple[np.ndarray, np.ndarray]:
        """Of all rows, see `online_factors`."""
        later = known_at(self.rows, self.rows.decided_s >= self._learns_from_s, None)
        table, place = self._unfactored(later.idx_row), np.zeros(len(self.rows), np.int64)
        assert isinstance(table, HazardTable)
        factors, place[later.idx_row] = online_factors(table, later, self.rows.decided_s[later.idx_row])
        return factors, place

    def _unfactored(self, places: np.ndarray) -> CurveTable:
        """The curves of these rows before recalibration."""
        if self._start is None:
            return table_of(self.schema, self.forest, self._features(places))
        axis, found = self._axis, self._replayed
        known, weights = (part[places].astype(np.float64) for part in (found.hazards, found.weights))
        if not self._start.is_blended:
            weights[:] = 0.0
        everything = known_at(self.rows, np.ones(len(self.rows), bool), None, is_late_entry=False)
        return axis.table(mixed(self._hazards(places), known, weights, axis), everything.take(places))

    def with_rows(self, rows: FeatureRows) -> ServedCurves:
        """The same of other rows of that trace."""
        return ServedCurves(self.bundle, rows, self._learns_from_s, goes_on=self._goes_on)

    def _features(self, places: np.ndarray) -> np.ndarray:
        return self.schema.encoder.with_row(self.rows.features[places], [codes[places] for codes in self.rows.keys])

    def _hazards(self, places: np.ndarray) -> np.ndarray:
        """The model's cumulative hazards of these rows, float64 (m, J + K)."""
        offsets = np.array(self.schema.numbers.offsets)
        parts = [hazards_of(raw_scores(self.schema, self.forest, self._features(part)), offsets)
                 for part in np.array_split(places, max(len(places) // _N_AT_ONCE, 1))]
        return np.concatenate(parts)

    @cached_property
    def _axis(self) -> Axis:
        numbers = self.schema.numbers
        edges, offsets, grid, shares = (np.array(part) for part in (numbers.edges, numbers.offsets, numbers.grid,
                                                                    numbers.shares))
        intervals = Intervals(edges, offsets, numbers.tail_s, grid, shares)
        return Axis(intervals, self.schema.encoder.feature_names().index(LIMIT) if len(numbers.shares) else -1)

    @cached_property
    def _replayed(self) -> Replayed:
        """What the habits give each row at its decision."""
        start = self._start
        assert start is not None
        names = self.schema.encoder.feature_names()
        events = Events.of_log(EventLog.of(self.rows, self.schema.encoder.history),
                               names.index(LIMIT) if LIMIT in names else -1, has_limit_level=start.has_limit_level,
                               known=start.nodes() if self._goes_on else ())
        later = np.flatnonzero(self.rows.decided_s >= self._learns_from_s) if start.is_blended else np.empty(0, int)
        weighing = None if len(later) == 0 else Weighing(
            BlendRules(*start.blend.rules.tolist()), self._hazards(later).astype(np.float32), np.ones(len(later), bool))
        return events.replayed(self._axis, HabitRules(*start.habits.rules.tolist()), np.ones(len(self.rows), bool),
                               weighing, start.counted() if self._goes_on else None)
