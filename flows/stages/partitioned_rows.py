"""Feature rows built by partition: requests dealt out to files, a worker for each, the histories put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from sojourn.features.creation import FeatureRows
from sojourn.features.partitions import (
    OwnerGroups,
    RequestChunk,
    SharedHistory,
    merged_history,
    owner_arrays,
    owner_replay,
    partition_count,
    partition_tables,
)
from sojourn.flows.outside.workers import NewWorker, run_grouped
from sojourn.flows.stages.feature_rows import read_rows, write_rows
from sojourn.flows.store.code_version import check_same_code, source_hash
from sojourn.models.bundle_writer import packed_arrays
from sojourn.publishing import whole_file
from sojourn.serving.bundle import read_arrays
from sojourn.serving.inputs import Encoder, HistoryState

Chunks = Callable[[tuple[str, ...]], Iterator[RequestChunk]]
"""All requests in the order of decision, with these columns, as often as they are asked for."""
ROW = "row"
ROOMS = ("features", "serving", "models", "flows/stages/partitioned_rows.py",
         "flows/stages/feature_rows.py")
"""What decides the rows of a partition."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition's work: requests are read from `source`, rows written to `target`, owners beside it.

    begin_s: of the trace. code: `partition_code` where the work was given out.
    """

    source: Path
    target: Path
    encoder: Encoder
    begin_s: int
    code: str

    @property
    def history(self) -> Path:
        """The file of the partition's owners."""
        return self.target.with_suffix(".history.npz")


def partition_code() -> str:
    """sha256 hex of the code that decides a partition's rows, with the libraries' versions."""
    return source_hash(*ROOMS)


def build_partitions(chunks: Chunks, n_requests: int, begin_s: int, encoder: Encoder, owners: tuple[str, ...],
                     folder: Path, workers: Sequence[NewWorker],
                     report: Callable[[int, int], None] | None = None) -> tuple[list[Path], HistoryState]:
    """The files of all partitions' rows in `folder`, and the owner history at the trace's end.

    What this process holds is a chunk, what runs, and the owners' names. RuntimeError where a partition cannot be
    built: its workers died, or have other code.
    """
    work, shared = _dealt(chunks, n_requests, begin_s, encoder, owners, folder)
    failed: list[str] = []
    for done, (partition, outcome) in enumerate(run_grouped([[each] for each in work], build_partition, workers), 1):
        if report is not None:
            report(done, len(work))
        partition.source.unlink(missing_ok=True)
        if isinstance(outcome, Exception):
            failed.append(f"{partition.target.name}: {type(outcome).__name__}: {outcome}")
    if failed:
        raise RuntimeError(f"features of {len(failed)} of {len(work)} partitions could not be built: {failed[0]}")
    history = merged_history(encoder.history, shared.state, [read_arrays(each.history.read_bytes()) for each in work])
    return [each.target for each in work], history


def build_partition(partition: Partition) -> None:
    """Build the rows of one partition; a reader sees its files whole or not at all."""
    check_same_code(partition_code(), partition.code)
    made = owner_replay(pd.read_parquet(partition.source), partition.encoder, partition.begin_s)
    write_rows(made.rows, partition.target, made.row)
    with whole_file(partition.history) as temporary:
        temporary.write_bytes(packed_arrays(owner_arrays(made)))


def joined_rows(files: Sequence[Path]) -> FeatureRows:
    """The rows of all partitions, in the order of decision."""
    rows = [read_rows(file) for file in files]
    row = np.concatenate([pd.read_parquet(file, columns=[ROW])[ROW].to_numpy() for file in files])
    return FeatureRows.joined(rows, np.argsort(row, kind="stable"))


def _dealt(chunks: Chunks, n_requests: int, begin_s: int, encoder: Encoder, owners: tuple[str, ...],
           folder: Path) -> tuple[list[Partition], SharedHistory]:
    """The requests of each partition as a file, and the pass over all of them."""
    groups, shared = OwnerGroups(owners), SharedHistory(encoder)
    for chunk in chunks(owners) if len(owners) > 1 else ():
        groups.add(chunk.table)
    code, work = partition_code(), {}
    with ExitStack() as stack:
        writers: dict[int, pq.ParquetWriter] = {}
        for place, table in partition_tables(chunks(encoder.columns()), groups, shared, partition_count(n_requests)):
            if place not in writers:
                name = f"{place:05d}.parquet"
                work[place] = Partition(folder / f"in-{name}", folder / name, encoder, begin_s, code)
                writers[place] = stack.enter_context(pq.ParquetWriter(work[place].source, table.schema))
            writers[place].write_table(table)
    shared.finish()
    return [work[place] for place in sorted(work)], shared
