"""Features of a trace in parts: all partitions are built and kept, and some of them loaded, which are whole owners."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from sojourn.features.creation import FeatureRows, default_encoder
from sojourn.features.partitions import TraceParts
from sojourn.features.trace import Trace
from sojourn.flows.outside.workers import NewWorker, local_workers
from sojourn.flows.progress import Report, console
from sojourn.flows.stages.feature_rows import feature_code
from sojourn.flows.stages.ingest import Ingested
from sojourn.flows.stages.partitioned_rows import build_partitions, joined_rows
from sojourn.flows.store.checksums import CHECKSUMS, are_whole, write_checksums
from sojourn.models.bundle_writer import packed_arrays
from sojourn.publishing import sync_tree
from sojourn.serving.bundle import read_arrays
from sojourn.serving.inputs import Encoder, HistoryState

HISTORY = "history.npz"


@dataclass(frozen=True, slots=True)
class Sample:
    """Which part of a trace is trained and judged on.

    n_requests: of the whole trace. n_sampled: of these, in the sample. files: the rows of all partitions; the first
    `n_files` are the sample.
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
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as made, workers_of(dask) as workers:
        fresh = Path(made).resolve() / "rows"
        fresh.mkdir()
        files, history = build_partitions(parts.chunks, parts.n_requests, parts.head.begin_s, encoder,
                                          parts.head.roles.owners, fresh, workers, report)
        for file in fresh.glob("*.npz"):
            file.unlink()
        (fresh / HISTORY).write_bytes(packed_arrays(history.to_arrays()))
        write_checksums(fresh / CHECKSUMS, [*files, fresh / HISTORY])
        sync_tree(fresh)
        if folder.exists():
            folder.rename(Path(made) / "damaged")
        fresh.rename(folder)


@contextmanager
def workers_of(dask: str | None) -> Iterator[Sequence[NewWorker]]:
    """The workers of the scheduler at this address; without one, this process."""
    if dask is None:
        yield local_workers(1)
        return
    from sojourn.flows.outside.dask_workers import dask_workers

    with dask_workers(dask) as workers:
        yield workers


def _partitions(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def _is_whole(folder: Path) -> bool:
    listing = folder / CHECKSUMS
    return listing.exists() and are_whole(listing, [*_partitions(folder), folder / HISTORY])
