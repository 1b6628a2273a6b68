"""The feature rows of a workload's requests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.features.creation import FeatureRows
from sojourn.features.split import Examples, known_at
from sojourn.features.trace import Trace
from sojourn.flows.placement.simulation import positions_of
from sojourn.simulator import Workload


@dataclass(frozen=True, slots=True)
class AskedRows:
    """Feature rows that a workload's requests ask with, each once: parts of a job and copies share theirs.

    rows: k of them, in the trace's order. request_ids: (n,). idx: int64 (n,), the row of each request.
    """

    rows: Examples
    request_ids: pd.Series
    idx: np.ndarray


def asked_rows(workload: Workload, trace: Trace, rows: FeatureRows) -> AskedRows:
    """The feature rows of a workload's requests.

    Rows are the trace's, with all the history that came before. A recipe's copy has the row of its original: a
    history replayed over the copies would see each request's own near-copies end before it.
    """
    asked = workload.trace.requests["request_id"]
    idx = positions_of(asked, trace.requests["request_id"].iloc[rows.idx_request])
    is_found = idx >= 0
    everything = known_at(rows, np.ones(len(rows), bool), None, is_late_entry=False)
    distinct, of_request = np.unique(idx[is_found], return_inverse=True)
    return AskedRows(everything.take(distinct), asked[is_found], of_request)
