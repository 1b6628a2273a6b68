"""The stage `build_features`: feature rows and the owner history at the trace's end, as Parquet.

A trace in parts is built by partition: requests are divided into files, a worker builds the rows of
each, and the histories are merged; then some whole owners are loaded."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from prefect import task

from sojourn.features.creation import FeatureRows, build_rows, default_encoder
from sojourn.features.later_file import test_from_s
from sojourn.features.partitions import (
    OwnerGroups,
    RequestChunk,
    SharedHistory,
    TraceParts,
    chunks_of,
    is_in_parts,
    merged_history,
    owner_arrays,
    owner_replay,
    partition_count,
    partition_tables,
)
from sojourn.features.trace import Trace
from sojourn.flows.console import Report, console, stage
from sojourn.flows.retrain.ingest import Ingested
from sojourn.flows.store.caches import CHECKSUMS, are_whole, check_same_code, source_hash, write_checksums
from sojourn.flows.workers.dask import NewWorker, local_workers, run_grouped
from sojourn.models.bundle_writer import packed_arrays
from sojourn.publishing import sync_tree, whole_file
from sojourn.serving.bundle import read_arrays
from sojourn.serving.inputs import Encoder, HistoryState

ROOMS = ("features", "models", "serving", "flows/retrain/features.py")
"""The code that makes feature rows."""
_LABELS = ("decided_s", "arrival_s", "lifetime_s", "is_event", "idx_request")
Chunks = Callable[[tuple[str, ...]], Iterator[RequestChunk]]
"""Returns all requests in the order of decision, with the given columns, at each call."""
ROW = "row"
HISTORY = "history.npz"
MAX_REQUESTS = 1_000_000
"""The default number of requests that are loaded of a trace in parts."""


def feature_code() -> str:
    """sha256 hex of the code that decides feature rows, with the libraries' versions."""
    return source_hash(*ROOMS)


def made_rows(trace: Trace, encoder: Encoder,
              report: Callable[[int, int], None] | None = None) -> tuple[FeatureRows, HistoryState]:
    """The rows of a trace's requests, and the owner history at its end."""
    state = HistoryState(encoder.history)
    return build_rows(trace, encoder, state, report), state


def write_rows(rows: FeatureRows, file: Path, row: np.ndarray | None = None) -> None:
    """Write feature rows as one Parquet file; a reader sees the whole file or none.

    row: int64 (n,), the place of each in the whole trace, for the rows of a partition.
    """
    columns: dict[str, np.ndarray] = {f"x:{name}": rows.features[:, idx] for idx, name in enumerate(rows.names)}
    columns |= {f"key:{name}": codes for name, codes in zip(rows.key_names, rows.keys, strict=True)}
    columns |= {name: getattr(rows, name) for name in _LABELS}
    columns |= {} if row is None else {"row": row}
    table = pd.DataFrame(columns)
    table.attrs["begin_s"] = rows.begin_s
    with whole_file(file) as temporary:
        table.to_parquet(temporary, index=False)


def read_rows(file: Path) -> FeatureRows:
    """Feature rows that `write_rows` wrote; ValueError for another file."""
    table = pd.read_parquet(file)
    columns = [str(name) for name in table]
    names = tuple(name[2:] for name in columns if name.startswith("x:"))
    keys = tuple(name[4:] for name in columns if name.startswith("key:"))
    if not names or any(label not in table for label in _LABELS) or "begin_s" not in table.attrs:
        raise ValueError(f"{file} must hold feature rows, got the columns {json.dumps(columns[:8])}")
    return FeatureRows(
        np.ascontiguousarray(table[[f"x:{name}" for name in names]].to_numpy(np.float64)), names,
        tuple(table[f"key:{name}"].to_numpy(np.int64) for name in keys), keys,
        *(table[label].to_numpy() for label in _LABELS), begin_s=int(table.attrs["begin_s"]),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition's work: read requests from `source`, write rows to `target`, owners beside it.

    begin_s: of the trace. code: `feature_code` of the process that gave the work.
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


def build_partitions(chunks: Chunks, n_requests: int, begin_s: int, encoder: Encoder, owners: tuple[str, ...],
                     folder: Path, workers: Sequence[NewWorker],
                     report: Callable[[int, int], None] | None = None) -> tuple[list[Path], HistoryState]:
    """The files of all partitions' rows in `folder`, and the owner history at the trace's end.

    This process holds a chunk, the running work, and the owners' names. RuntimeError if a partition
    cannot be built: its workers died, or have other code.
    """
    work, shared = _divided(chunks, n_requests, begin_s, encoder, owners, folder)
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
    check_same_code(feature_code(), partition.code)
    replayed = owner_replay(pd.read_parquet(partition.source), partition.encoder, partition.begin_s)
    write_rows(replayed.rows, partition.target, replayed.row)
    with whole_file(partition.history) as temporary:
        temporary.write_bytes(packed_arrays(owner_arrays(replayed)))


def joined_rows(files: Sequence[Path]) -> FeatureRows:
    """The rows of all partitions, in the order of decision."""
    rows = [read_rows(file) for file in files]
    row = np.concatenate([pd.read_parquet(file, columns=[ROW])[ROW].to_numpy() for file in files])
    return FeatureRows.joined(rows, np.argsort(row, kind="stable"))


def _divided(chunks: Chunks, n_requests: int, begin_s: int, encoder: Encoder, owners: tuple[str, ...],
             folder: Path) -> tuple[list[Partition], SharedHistory]:
    """The requests of each partition as a file, and the pass over all of them."""
    groups, shared = OwnerGroups(owners), SharedHistory(encoder)
    for chunk in chunks(owners) if len(owners) > 1 else ():
        groups.add(chunk.table)
    code, work = feature_code(), {}
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


@dataclass(frozen=True, slots=True)
class Sample:
    """The part of a trace for training and judging.

    n_requests: of the whole trace. n_sampled: of the sample. files: the rows of all partitions; the
    first `n_files` are the sample.
    """

    n_requests: int
    n_sampled: int
    files: tuple[Path, ...]
    n_files: int

    def text(self) -> str:
        """One sentence for output and model card."""
        return (f"Trained and judged on {self.n_sampled:,} of {self.n_requests:,} requests: all requests of some "
                f"owners, drawn by a hash of the owner ({self.n_files} of {len(self.files)} partitions). The history "
                "is of all requests.")


def sampled_features(store: Path, ingested: Ingested, report: Report | None, dask: str | None,
                     n_max: int) -> tuple[Trace, Encoder, FeatureRows, HistoryState, Sample]:
    """The features of up to `n_max` requests, at least one partition; the rows of all partitions stay in the store."""
    parts = TraceParts.load(ingested.folder)
    encoder = default_encoder(parts.head)
    folder = store / "features" / f"{ingested.name}-{ingested.data_hash[:12]}-{feature_code()[:8]}"
    if not _is_whole(folder):
        if folder.exists():
            console.print(f"[yellow]![/] cached features {folder.name} are damaged and built anew", soft_wrap=True)
        _build(parts, encoder, folder, dask, report)
    files = tuple(_partitions(folder))
    counts = [pq.ParquetFile(file).metadata.num_rows for file in files]
    n_files = max(1, int(np.searchsorted(np.cumsum(counts), n_max, side="right")))
    sample = Sample(parts.n_requests, sum(counts[:n_files]), files, n_files)
    rows = joined_rows(files[:n_files])
    idx = np.sort(rows.idx_request)
    rows = replace(rows, idx_request=np.searchsorted(idx, rows.idx_request))
    history = HistoryState.from_arrays(encoder.history, read_arrays((folder / HISTORY).read_bytes()))
    return parts.take(idx), encoder, rows, history, sample


def _build(parts: TraceParts, encoder: Encoder, folder: Path, dask: str | None, report: Report | None) -> None:
    """Build the rows of all partitions into a new folder; it appears whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temp, workers_of(dask) as workers:
        fresh = Path(temp).resolve() / "rows"
        fresh.mkdir()
        files, history = build_partitions(parts.chunks, parts.n_requests, parts.head.begin_s, encoder,
                                          parts.head.roles.owners, fresh, workers, report)
        for file in fresh.glob("*.npz"):
            file.unlink()
        (fresh / HISTORY).write_bytes(packed_arrays(history.to_arrays()))
        write_checksums(fresh / CHECKSUMS, [*files, fresh / HISTORY])
        sync_tree(fresh)
        if folder.exists():
            folder.rename(Path(temp) / "damaged")
        fresh.rename(folder)


@contextmanager
def workers_of(dask: str | None) -> Iterator[Sequence[NewWorker]]:
    """The workers of the scheduler at this address; without an address, this process."""
    if dask is None:
        yield local_workers(1)
        return
    from sojourn.flows.workers.dask import dask_workers

    with dask_workers(dask) as workers:
        yield workers


def _partitions(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def _is_whole(folder: Path) -> bool:
    listing = folder / CHECKSUMS
    return listing.exists() and are_whole(listing, [*_partitions(folder), folder / HISTORY])


@dataclass(frozen=True, slots=True)
class Features:
    """A trace, its encoder, its feature rows, and the owner history at the trace's end.

    sample: of a trace too large for memory: trace and rows are of some owners, the history of all.
    """

    trace: Trace
    encoder: Encoder
    rows: FeatureRows
    history: HistoryState
    sample: Sample | None = None


@task(name="build_features")
def build_features(store: Path, ingested: Ingested, dask: str | None = None,
                   max_requests: int = MAX_REQUESTS) -> Features:
    """The features of a trace in the store. dask: address of the scheduler whose workers build.

    max_requests: the most requests of a trace in parts, of whole owners.
    """
    with stage("build_features") as report:
        if not is_in_parts(ingested.folder):
            return stored_features(store, ingested, report, dask)
        features = Features(*sampled_features(store, ingested, report, dask, max_requests))
    if features.sample is not None:
        console.print(features.sample.text())
    return features


def stored_features(store: Path, ingested: Ingested, report: Report | None = None,
                    dask: str | None = None) -> Features:
    """The features from the store or built now: the same to the bit, with a cluster or without.

    Those of a trace of two files are built in this process.
    """
    trace = Trace.load(ingested.folder)
    encoder = default_encoder(trace)
    file = store / "features" / f"{ingested.name}-{ingested.data_hash[:12]}-{feature_code()[:8]}.parquet"
    history_file = file.with_suffix(".history.npz")
    cached = _cached(file, history_file, encoder)
    if cached is not None:
        rows, state = cached
    else:
        rows, state = (made_rows(trace, encoder, report) if dask is None or test_from_s(trace.meta) is not None
                       else _made_by_workers(trace, encoder, file, dask, report))
        write_rows(rows, file)
        with whole_file(history_file) as temporary:
            temporary.write_bytes(packed_arrays(state.to_arrays()))
        write_checksums(file.with_suffix(".json"), [file, history_file])
    return Features(trace, encoder, rows, state)


def _made_by_workers(trace: Trace, encoder: Encoder, file: Path, dask: str,
                     report: Report | None) -> tuple[FeatureRows, HistoryState]:
    from sojourn.flows.workers.dask import dask_workers

    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{file.stem}.", dir=file.parent) as folder, dask_workers(dask) as workers:
        files, state = build_partitions(partial(chunks_of, trace), len(trace), trace.begin_s, encoder,
                                        trace.roles.owners, Path(folder).resolve(), workers, report)
        return joined_rows(files), state


def _cached(file: Path, history_file: Path, encoder: Encoder) -> tuple[FeatureRows, HistoryState] | None:
    """The rows and history of an earlier run; None if there are none or they are damaged."""
    listing = file.with_suffix(".json")
    if not listing.exists():
        return None
    try:
        if not are_whole(listing, [file, history_file]):
            raise ValueError(f"{file.name} or its history is not what was written")
        state = HistoryState.from_arrays(encoder.history, read_arrays(history_file.read_bytes()))
        return read_rows(file), state
    except (ValueError, KeyError, OSError) as error:
        console.print(f"[yellow]![/] cached features are damaged and built anew: {error}", soft_wrap=True)
        return None
