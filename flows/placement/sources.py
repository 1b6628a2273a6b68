"""Turns lifetime models into what the simulator asks for: curves of predicted total lifetimes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from sojourn.flows.placement.held_answers import held_answers
from sojourn.flows.placement.refreshed_curves import Anew, refreshed_curves
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.simulator import Curves, Held


class TableSource:
    """A LifetimeSource from a curve table: held exits at the table's own sampling uptimes, built once.

    A hazard curve answers in closed form at any uptime; its held exits are asked again at each edge and at
    each interval's geometric middle. A held total is raised to the next uptime where it would be outlived.
    """

    def __init__(self, table: CurveTable, request_ids: pd.Series, anew: Sequence[Anew] = (),
                 idx: np.ndarray | None = None) -> None:
        """request_ids: (n,), the requests. anew: later curves of the table's rows. idx: int64 (n,), the row of each
        request; None = the table has one for each, in their order.
        """
        n = len(table) if idx is None else len(idx)
        if n != len(request_ids):
            raise ValueError(f"request_ids must have {n} elements, got {len(request_ids)}")
        curves = held_curves(table) if not anew else refreshed_curves(table, anew)
        self._held = Held(request_ids, curves if idx is None else curves.take(idx))

    def curves(self, requests: pd.DataFrame) -> Curves:
        """The curves of requests, by `request_id`; ValueError for one that the table has no row of."""
        try:
            return self._held.curves(requests)
        except KeyError as error:
            raise ValueError(f"every request must have a prediction: {error.args[0]}") from None


def held_curves(table: CurveTable) -> Curves:
    """Predicted totals in whole seconds, held from one sampling uptime to the next.

    With expected overhangs where all answers of a row are of one distribution: a point model's are not, since its score
    changes with the age.
    """
    survival = partial(table.survival, uptime_s=0.0) if isinstance(table, HazardTable) else None
    return held_answers(len(table), table.held_uptimes(), table.remaining, survival)
