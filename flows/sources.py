"""Turns lifetime models into what the simulator asks for: curves of predicted total lifetimes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from sojourn.flows.held_answers import held_answers
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
    survival = partial(table.survival, uptime_s=0.0) if isinstance(table, HazardTable) else None
    return held_answers(len(table), table.held_uptimes(), table.remaining, survival)
