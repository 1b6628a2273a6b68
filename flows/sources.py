"""Turns lifetime models into what the simulator asks for: curves of predicted total lifetimes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.simulator import Curves


class TableSource:
    """A LifetimeSource from a curve table: held exits at the table's own sampling uptimes.

    A hazard curve answers in closed form at any uptime; its held exits are asked again at each edge and at
    each interval's geometric middle. A held total is raised to the next uptime where it would be outlived.
    """

    def __init__(self, table: CurveTable, request_ids: pd.Series) -> None:
        """request_ids: the request that each row of the table belongs to, shape (n,)."""
        if len(table) != len(request_ids):
            raise ValueError(f"request_ids must have {len(table)} elements, got {len(request_ids)}")
        self._table = table
        self._row_of = pd.Series(np.arange(len(request_ids)), index=request_ids.to_numpy())

    def curves(self, requests: pd.DataFrame) -> Curves:
        """The curves of requests, by `request_id`; ValueError for one that the table has no row of."""
        rows = self._row_of.reindex(requests["request_id"].to_numpy())
        if rows.isna().any():
            missing = requests["request_id"].to_numpy()[rows.isna().to_numpy()][0]
            raise ValueError(f"every request must have a prediction, got none for {missing!r}")
        return held_curves(self._table.take(rows.to_numpy(np.int64)))


def held_curves(table: CurveTable) -> Curves:
    """Predicted totals in whole seconds, held from one sampling uptime to the next.

    With expected overhangs where all answers of a row are of one distribution: a point model's are not, since its score
    changes with the age.
    """
    uptimes = table.held_uptimes()
    n, m = len(table), len(uptimes)
    totals, overhangs = np.empty((n, m), np.int64), np.empty((n, m), np.int64)
    has_overhang = isinstance(table, HazardTable)
    for column, uptime_s in enumerate(uptimes.tolist()):
        left_s = np.maximum(table.remaining(float(uptime_s)), 1.0)
        totals[:, column] = uptime_s + left_s.astype(np.int64)
        if has_overhang:
            overhangs[:, column] = np.rint(table.survival(float(uptime_s), 0.0) * left_s)
    totals[:, :-1] = np.maximum(totals[:, :-1], uptimes[1:])
    overhangs = np.minimum.accumulate(overhangs, axis=1)  # answers of whole seconds may rise by one
    return Curves(np.arange(n + 1) * m, np.tile(uptimes, n), totals.reshape(-1),
                  overhang_s=overhangs.reshape(-1) if has_overhang else None)
