"""The feature rows of a workload's requests."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows
from sojourn.features.split import Examples, known_at
from sojourn.features.trace import Trace
from sojourn.flows.placement.simulation import positions_of
from sojourn.simulator import Workload


def asked_rows(workload: Workload, trace: Trace, rows: FeatureRows) -> tuple[Examples, pd.Series]:
    """The feature rows of a workload's requests, and the request that each belongs to.

    Rows are the trace's, with all the history that came before. A recipe's copy has the row of its original: a
    history replayed over the copies would see each request's own near-copies end before it.
    """
    asked = workload.trace.requests["request_id"]
    idx = positions_of(asked, trace.requests["request_id"].iloc[rows.idx_request])
    is_found = idx >= 0
    everything = known_at(rows, np.ones(len(rows), bool), None, is_late_entry=False)
    return everything.take(idx[is_found]), asked[is_found]
