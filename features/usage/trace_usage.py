"""Usage in a trace: our folder, a synthetic trace, or a `Trace` in memory as one grid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger
from sojourn.features.synthetic import synthesize
from sojourn.features.synthetic_usage import with_usage
from sojourn.features.trace import Trace
from sojourn.features.usage._columns import BLOCK_ROWS, numbers, parquet_columns, parquet_names, request_rows
from sojourn.features.usage.usage_grid import Series, Take, UsageGrid, gridded, median_intervals_s
from sojourn.features.usage.usage_stream import MAX_CPU, RawSamples, RequestTable, UsageReader, UsageStream
from sojourn.serving.usage import DayClock


def stream_of(trace: Trace, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of a trace in memory; ValueError if it has no usage."""
    usage = trace.usage
    if usage is None:
        raise ValueError("trace must carry usage, got none")
    name = str(trace.meta.get("source", "trace"))

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for lo in range(0, len(usage), BLOCK_ROWS):
            part = usage.iloc[lo:lo + BLOCK_ROWS]
            codes, values = pd.factorize(part["request_id"])
            rows = table.rows(values.tolist())[codes]
            mem = part["mem_frac"].to_numpy(np.float64) if "mem_frac" in part else None
            yield RawSamples("usage", lo + 1, part["request_id"].to_numpy(), rows, part["time_s"].to_numpy(np.float64),
                             part["cpu_frac"].to_numpy(np.float64), mem)

    return UsageStream(name, DayClock(0, timezone), read, _table(trace), max_cpu, len(usage))


def grid_of(trace: Trace, step_s: int = 300, *, start_s: int | None = None, end_s: int | None = None,
            timezone: str = "UTC", take: Take = "mean", bridge_steps: int = 0) -> UsageGrid:
    """The usage of a trace in memory as one grid, of the requests with a series in the trace's order.

    Samples follow the rules of `UsageStream`, and steps those of `gridded`; of several samples of a request at one time
    the first counts. start_s, end_s: the window start_s <= t < end_s; by default all samples.

    ValueError for a trace without usage, or without accepted samples, and end_s not after start_s.

    >>> table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [600], "cpu_cores": [2.0],
    ...                       "mem_gib": [8.0]})
    >>> usage = pd.DataFrame({"request_id": [1, 1], "time_s": [300, 0], "cpu_frac": [0.5, 0.25]})
    >>> grid = grid_of(Trace(table, horizon_s=600, usage=usage))
    >>> grid.cpu.tolist(), grid.time_s().tolist()
    ([[0.25, 0.5]], [0, 300])
    """
    stream = stream_of(trace, timezone=timezone)
    blocks = list(stream.blocks())
    if not blocks:
        raise stream.nothing_kept()
    if step_s < 1:
        raise ValueError(f"step_s must be at least 1, got {step_s!r}")
    request, time_s, cpu = (np.concatenate([getattr(block, name) for block in blocks])
                            for name in ("idx_request", "time_s", "cpu"))
    memory = [block.mem for block in blocks if block.mem is not None]
    mem = np.concatenate(memory) if memory else None
    order = np.lexsort((time_s, request))
    is_first = (np.diff(request[order], prepend=-1) != 0) | (np.diff(time_s[order], prepend=0) != 0)
    order = order[is_first]
    ids, row = np.unique(request[order], return_inverse=True)
    series = Series(row, time_s[order], cpu[order], None if mem is None else mem[order],
                    median_intervals_s(row, time_s[order], len(ids)))
    begin_s = int(time_s.min()) // step_s * step_s if start_s is None else start_s
    stop_s = int(time_s.max()) + 1 if end_s is None else end_s
    if stop_s <= begin_s:
        raise ValueError(f"end_s must be after start_s {begin_s}, got {stop_s!r}")
    n_steps = -(-(stop_s - begin_s) // step_s)
    requests = stream.requests().select(ids)
    return UsageGrid(
        requests.request_ids, gridded(series, series.cpu, begin_s, step_s, n_steps, take, bridge_steps),
        None if series.mem is None else gridded(series, series.mem, begin_s, step_s, n_steps, take, bridge_steps),
        requests.cpu_cores, requests.mem_gib, begin_s, step_s, stream.clock, series.interval_s)


def stream_parquet(path: str | Path, *, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of a folder of `Trace.save` with `usage.parquet`, which is streamed.

    Raises FileNotFoundError if the folder is no trace or has no usage, ValueError if it breaks a rule of Trace.
    """
    source = Path(path)
    file = source / "usage.parquet"
    if not file.is_file():
        hint = "; the reader `table` reads a file of one's own" if source.is_file() else ""
        raise FileNotFoundError(f"trace folder must hold usage.parquet, got {str(source)!r}{hint}")
    trace = Trace.load(source, with_usage=False)
    has_mem = "mem_frac" in parquet_names(file)
    names = ("request_id", "time_s", "cpu_frac", *(["mem_frac"] if has_mem else []))

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for first_row, columns in parquet_columns(file, names):
            ids, rows = request_rows(columns["request_id"], table)
            yield RawSamples(file.name, first_row, ids, rows, numbers(columns["time_s"]), numbers(columns["cpu_frac"]),
                             numbers(columns["mem_frac"]) if has_mem else None)

    return UsageStream(str(trace.meta.get("source", source.name)), DayClock(0, timezone), read, _table(trace),
                       max_cpu)


def stream_synthetic(path: str | Path | None = None, *, n_requests: int = 20_000, n_usage: int = 200, seed: int = 0,
                     days: float = 28.0, timezone: str = "UTC", max_cpu: float = MAX_CPU) -> UsageStream:
    """Samples of a synthetic trace, for its `n_usage` requests observed longest; path is not read.

    The table has only those requests, so each has a series.
    """
    trace, truth = with_usage(synthesize(n_requests, seed=seed, days=days), n_usage, seed=seed)
    is_kept = trace.requests["request_id"].isin(truth["request_id"]).to_numpy()
    return stream_of(trace.select(is_kept), timezone=timezone, max_cpu=max_cpu)


PARQUET = UsageReader(stream_parquet, path="folder written by `Trace.save`, with `usage.parquet`",
                      cpu="the request's cores; mem: of its memory", stamp="as its source")
SYNTHETIC = UsageReader(stream_synthetic, path="none: made up", cpu="the request's cores")


def _table(trace: Trace) -> RequestTable:
    table = RequestTable()
    requests = trace.requests
    table.add(requests["request_id"].tolist(), requests["cpu_cores"].tolist(), requests["mem_gib"].tolist())
    return table
