"""The `build_features` stage: feature rows with owner history, cached as one Parquet file."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prefect import task

from sojourn.features.creation import FeatureRows, default_encoder
from sojourn.features.later_file import test_from_s
from sojourn.features.partitions import chunks_of, is_in_parts
from sojourn.features.trace import Trace
from sojourn.flows.progress import Report, console, stage
from sojourn.flows.stages.feature_rows import feature_code, made_rows, read_rows, write_rows
from sojourn.flows.stages.ingest import Ingested
from sojourn.flows.stages.partitioned_rows import build_partitions, joined_rows
from sojourn.flows.stages.sampled_features import Sample, sampled_features
from sojourn.flows.store.checksums import are_whole, write_checksums
from sojourn.models.bundle_writer import packed_arrays
from sojourn.publishing import whole_file
from sojourn.serving.bundle import read_arrays
from sojourn.serving.inputs import Encoder, HistoryState

MAX_REQUESTS = 1_000_000
"""Of a trace in parts, so many requests are held at a time by default."""


@dataclass(frozen=True, slots=True)
class Features:
    """A trace, its encoder, its feature rows, and the owner history as it stands at the trace's end.

    sample: where the trace is too large to be held whole; trace and rows are then of some owners, the history of all.
    """

    trace: Trace
    encoder: Encoder
    rows: FeatureRows
    history: HistoryState
    sample: Sample | None = None


@task(name="build_features")
def build_features(store: Path, ingested: Ingested, dask: str | None = None,
                   max_requests: int = MAX_REQUESTS) -> Features:
    """The features of a trace that the store holds. dask: address of the scheduler whose workers build them.

    max_requests: of a trace in parts, this many at most, whole owners.
    """
    with stage("build_features") as report:
        if not is_in_parts(ingested.folder):
            return stored_features(store, ingested, report, dask)
        features = Features(*sampled_features(store, ingested, report, dask, max_requests))
    if features.sample is not None:
        console.print(features.sample.text(), soft_wrap=True)
    return features


def stored_features(store: Path, ingested: Ingested, report: Report | None = None,
                    dask: str | None = None) -> Features:
    """What `build_features` gives, out of the store or built now: the same to the bit, with a cluster or without.

    Of a trace of two files they are built in this process.
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
    from sojourn.flows.outside.dask_workers import dask_workers

    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{file.stem}.", dir=file.parent) as folder, dask_workers(dask) as workers:
        files, state = build_partitions(partial(chunks_of, trace), len(trace), trace.begin_s, encoder,
                                        trace.roles.owners, Path(folder).resolve(), workers, report)
        return joined_rows(files), state


def _cached(file: Path, history_file: Path, encoder: Encoder) -> tuple[FeatureRows, HistoryState] | None:
    """The rows and history of an earlier run; None where there are none or they are damaged: they are built anew."""
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
