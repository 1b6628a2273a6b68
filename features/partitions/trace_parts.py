"""A trace on disk as files in the order of time, for reading in parts; and a synthetic one in this form."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.features.partitions.history import N_AT_ONCE, RequestChunk
from sojourn.features.synthetic import synthesize
from sojourn.features.trace import FORMAT_VERSION, Roles, Trace

HEADER = "trace.json"
_PART = "part-{:05d}.parquet"
REQUESTS_PER_POPULATION = 1_000_000
"""Requests of one population of owners of a large synthetic trace."""


@dataclass(frozen=True, slots=True)
class TraceParts:
    """A trace in files, in the order of time: `trace.json` and `part-00000.parquet`, ... Rows are
    in the order of arrival, unknown starts first, and predictions are at arrival: there is no
    column `submit_s`. head: the roles, horizon and meta of the trace with its first rows.
    """

    folder: Path
    n_requests: int
    head: Trace

    @classmethod
    def load(cls, folder: Path) -> TraceParts:
        """The trace in a folder of `write_synthetic_parts`; ValueError for another folder."""
        try:
            header = json.loads((folder / HEADER).read_text())
            n_requests, horizon_s, roles = header["n_requests"], header["horizon_s"], header["roles"]
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(f"{folder} must hold a trace in parts, got {type(error).__name__}: {error}") from error
        with pq.ParquetFile(part_files(folder)[0]) as file:
            first = next(file.iter_batches(1_000)).to_pandas()
        names = {key: tuple(value) for key, value in roles.items()}
        return cls(folder, int(n_requests), Trace(first, int(horizon_s), Roles(**names), meta=header["meta"]))

    def chunks(self, columns: tuple[str, ...]) -> Iterator[RequestChunk]:
        """The requests of known start, a file at a time; `idx_request` counts rows over all files."""
        n_before = 0
        for file in part_files(self.folder):
            names = list(dict.fromkeys(("arrival_s", "departure_s", *columns)))
            table = pq.read_table(file, columns=names)
            n = len(table)
            chunk = _with_known_start(table, self.head.horizon_s, n_before)
            yield RequestChunk(chunk.table.select(list(columns)), chunk.decided_s, chunk.arrival_s, chunk.end_s,
                               chunk.is_event, chunk.idx_request)
            n_before += n

    def take(self, idx: np.ndarray) -> Trace:
        """The trace of the requests at `idx`, int64, rising."""
        tables, n_before = [], 0
        for file in part_files(self.folder):
            table = pq.read_table(file)
            low, high = np.searchsorted(idx, [n_before, n_before + len(table)])
            tables.append(table.take(pa.array(idx[low:high] - n_before)))
            n_before += len(table)
        requests = pa.concat_tables(tables).to_pandas()
        return Trace(requests, self.head.horizon_s, self.head.roles, meta=self.head.meta)


def is_in_parts(folder: Path) -> bool:
    """Whether a trace's folder holds it in parts."""
    return (folder / _PART.format(0)).is_file()


def write_synthetic_parts(folder: Path, n_requests: int, seed: int,
                          progress: Callable[[int, int], None] | None = None,
                          per_population: int = REQUESTS_PER_POPULATION) -> TraceParts:
    """A synthetic trace of `n_requests`, written to a new folder in parts; the same arguments give the same bytes.

    It consists of several traces of `synthesize` of up to `per_population` requests over the same
    days, each with its owners. Memory holds one of them, or a part.
    """
    n_populations = -(-n_requests // per_population)
    folder.mkdir(parents=True)
    bounds = np.linspace(0, n_requests, n_populations + 1).astype(np.int64)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        edges, header = None, {}
        for place in range(n_populations):
            if progress is not None:
                progress(place, 2 * n_populations)
            own_seed = int(np.random.SeedSequence([seed, place]).generate_state(1)[0])
            trace = synthesize(int(bounds[place + 1] - bounds[place]), seed=own_seed)
            table = _with_unique_names(trace.requests, place, int(bounds[place]))
            if edges is None:
                edges = _edges(trace, max(1, n_requests // N_AT_ONCE))
                header = _header(trace, n_requests, seed, n_populations)
            pq.write_table(table, Path(temporary) / f"{place}.parquet", row_group_size=65_536)
        assert edges is not None
        for part, (low_s, high_s) in enumerate(zip([None, *edges], [*edges, None], strict=True)):
            if progress is not None:
                progress(n_populations + part * n_populations // (len(edges) + 1), 2 * n_populations)
            tables = [_between(Path(temporary) / f"{place}.parquet", low_s, high_s) for place in range(n_populations)]
            joined = pa.concat_tables(tables)
            arrival_s = joined["arrival_s"].fill_null(np.iinfo(np.int64).min).to_numpy()
            pq.write_table(joined.take(pa.array(np.argsort(arrival_s, kind="stable"))),
                           folder / _PART.format(part))
    (folder / HEADER).write_text(json.dumps(header, indent=2, sort_keys=True) + "\n")
    return TraceParts.load(folder)


def part_files(folder: Path) -> list[Path]:
    """The files of a trace's requests, in the order of time."""
    return sorted(folder.glob("part-*.parquet"))


def _with_known_start(table: pa.Table, horizon_s: int, n_before: int) -> RequestChunk:
    arrival = table["arrival_s"]
    is_known = arrival.is_valid().to_numpy()
    idx = np.flatnonzero(is_known)
    table_known = table.take(pa.array(idx))
    start_s = table_known["arrival_s"].to_numpy().astype(np.int64)
    departure = table_known["departure_s"]
    end_s = departure.fill_null(horizon_s).to_numpy().astype(np.int64)
    return RequestChunk(table_known, start_s, start_s, end_s, departure.is_valid().to_numpy(), idx + n_before)


def _with_unique_names(requests: pd.DataFrame, place: int, first_id: int) -> pa.Table:
    """A population's requests with unique ids and owners; names as plain text, the same type in all files."""
    table = requests.assign(request_id=requests["request_id"] + first_id)
    for name in ("subscription", "deployment", "zone", "vm_category"):
        suffix = f".{place}" if name in ("subscription", "deployment") else ""
        table[name] = table[name].cat.rename_categories([f"{each}{suffix}" for each in table[name].cat.categories]
                                                        ).astype(str)
    return pa.Table.from_pandas(table, preserve_index=False)


def _edges(trace: Trace, n_parts: int) -> list[int]:
    start_s = np.sort(trace.start_s())
    return np.unique(start_s[np.linspace(0, len(start_s), n_parts + 1).astype(np.int64)[1:-1]]).tolist()


def _between(file: Path, low_s: int | None, high_s: int | None) -> pa.Table:
    """The rows that arrive at or after `low_s` and before `high_s`; with unknown starts if `low_s` is None."""
    filters: list[list[tuple[str, str, Any]]] = [[]]
    if low_s is not None:
        filters[0].append(("arrival_s", ">=", low_s))
    if high_s is not None:
        filters[0].append(("arrival_s", "<", high_s))
    if not filters[0]:
        return pq.read_table(file)
    rows = pq.read_table(file, filters=filters)
    if low_s is not None:
        return rows
    whole = pq.ParquetFile(file)
    with whole:
        first = whole.read_row_group(0)  # unknown starts come first
    unknown = first.filter(first["arrival_s"].is_null())
    return pa.concat_tables([unknown, rows])


def _header(trace: Trace, n_requests: int, seed: int, n_populations: int) -> dict[str, Any]:
    roles = trace.roles
    return {
        "format_version": FORMAT_VERSION, "horizon_s": int(trace.horizon_s), "n_requests": n_requests,
        "roles": {"owners": roles.owners, "categories": roles.categories, "numbers": roles.numbers,
                  "resources": roles.resources},
        "meta": {**trace.meta, "seed": seed, "n_populations": n_populations},
    }  # fmt: skip
