"""Requests that follow each other in the order of decision, as many as are looked at in one go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sojourn.features.creation import decision_times
from sojourn.features.trace import Trace

N_AT_ONCE = 250_000


@dataclass(frozen=True, slots=True)
class RequestChunk:
    """Requests of known start, in the order of decision.

    table: the columns that an encoder reads, with pandas' metadata. decided_s, arrival_s, end_s: int64 (n,); end_s is
    the horizon where `is_event` is False. idx_request: int64 (n,), the place in the trace.
    """

    table: pa.Table
    decided_s: np.ndarray
    arrival_s: np.ndarray
    end_s: np.ndarray
    is_event: np.ndarray
    idx_request: np.ndarray

    def __len__(self) -> int:
        return len(self.decided_s)


def chunks_of(trace: Trace, columns: tuple[str, ...], n_at_once: int = N_AT_ONCE) -> Iterator[RequestChunk]:
    """The requests of a trace in chunks of up to `n_at_once`, in the order in which `build_rows` replays them.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [5, 6], "departure_s": [9, None],
    ...                       "cpu_cores": [2.0, 4.0], "mem_gib": [8.0, 8.0]})
    >>> [(chunk.decided_s.tolist(), chunk.end_s.tolist()) for chunk in chunks_of(Trace(table, 10), ("cpu_cores",), 1)]
    [([5], [9]), ([6], [10])]
    """
    idx_request = np.flatnonzero(trace.is_start_known())
    decided_s = decision_times(trace)
    order = idx_request[np.argsort(decided_s[idx_request], kind="stable")]
    start_s, end_s, is_event = trace.start_s(), trace.end_s(), trace.is_event()
    table = pa.Table.from_pandas(trace.requests[list(columns)], preserve_index=False)
    for first in range(0, len(order), n_at_once):
        idx = order[first:first + n_at_once]
        yield RequestChunk(table.take(pa.array(idx)), decided_s[idx], start_s[idx], end_s[idx], is_event[idx], idx)
