"""Requests dealt out to partitions, with what the shared pass knows of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from sojourn.features.partitions.owner_groups import OwnerGroups
from sojourn.features.partitions.owner_replay import NEW, ROW, SHARED
from sojourn.features.partitions.request_chunk import RequestChunk
from sojourn.features.partitions.shared_history import SharedHistory

REQUESTS_PER_PARTITION = 250_000


def partition_count(n_requests: int) -> int:
    """How many partitions a trace of so many requests has: it depends on nothing else, so that it is always the same.

    >>> partition_count(1_000), partition_count(1_000_000)
    (2, 4)
    """
    return max(2, -(-n_requests // REQUESTS_PER_PARTITION))


def partition_tables(chunks: Iterable[RequestChunk], groups: OwnerGroups, shared: SharedHistory,
                     n_partitions: int) -> Iterator[tuple[int, pa.Table]]:
    """Of each chunk, partition and table of its requests there; `owner_replay` takes all tables of one partition.

    groups: must have seen all chunks. shared: goes on with each chunk; `finish` it afterwards.
    """
    keys = shared.definition.keys
    owners = [key.name for key in keys if key.kind == "owner"]
    categories = [name for key in keys if key.kind == "category" for name in key.feature_names()]
    n_before = 0
    for chunk in chunks:
        features, is_new = shared.replay(chunk)
        table = chunk.table
        columns = {ROW: np.arange(n_before, n_before + len(chunk)), "decided_s": chunk.decided_s,
                   "arrival_s": chunk.arrival_s, "end_s": chunk.end_s, "is_event": chunk.is_event,
                   "idx_request": chunk.idx_request}
        columns |= {f"{NEW}{name}": is_new[:, place] for place, name in enumerate(owners)}
        columns |= {f"{SHARED}{name}": features[:, place] for place, name in enumerate(categories)}
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values))
        n_before += len(chunk)
        part = groups.partitions(chunk.table, chunk.idx_request, n_partitions)
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange(n_partitions + 1)).tolist()
        for place in range(n_partitions):
            if bounds[place] < bounds[place + 1]:
                yield place, table.take(pa.array(order[bounds[place]:bounds[place + 1]]))
