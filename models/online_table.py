"""Curves as a predictor that recalibrates itself would have given them: each row by what had ended before it."""

from __future__ import annotations

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable
from sojourn.serving.live import Recalibration

_DECIDED, _ENDED = range(2)


def online_table(table: HazardTable, rows: Examples, decided_s: np.ndarray) -> HazardTable:
    """The rows' curves, recalibrated online (`serving.live.Recalibration`) from the first row on.

    table: of the rows, by a model that has not seen them. decided_s: int64 (n,), the second at which each was
    predicted; at one second, predictions come before ends. A row that was censored counts until then, and no further.
    """
    factors, place = online_factors(table, rows, decided_s)
    return table.recalibrated(factors, place)


def online_factors(table: HazardTable, rows: Examples, decided_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The factors in the order in which they were learnt, float64 (m, N_AGES, N_BANDS), and each row's place there."""
    n = len(rows)
    own = Recalibration()
    factors, place = [own.factors], np.zeros(n, np.int64)
    start_s = rows.arrival_s.astype(np.int64)
    end_s = start_s + rows.lifetime_s.astype(np.int64)
    times_s = np.concatenate([decided_s, end_s])
    kinds = np.repeat([_DECIDED, _ENDED], n)
    order = np.lexsort((kinds, times_s))
    starts, entries, is_event = start_s.tolist(), rows.entry_s.tolist(), rows.is_event.tolist()

    def numbers_of(row: int) -> np.ndarray:
        return np.array((table.edges[min(row, len(table.edges) - 1)], table.rates[row]))

    for at, now_s in zip(order.tolist(), times_s[order].tolist(), strict=True):
        if at < n:
            own.follow(at, starts[at], entries[at])
            place[at] = len(factors) - 1
            continue
        row = at - n
        own.ended(row, now_s, numbers_of(row), is_end=is_event[row])
        if own.is_due:
            own.count(now_s, numbers_of)
            factors.append(own.factors)
    return np.array(factors), place
