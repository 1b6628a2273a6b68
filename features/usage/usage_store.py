"""A folder of usage series: Parquet files by a hash of the request, read one at a time as grids or profiles."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.features.usage.gridding import Series, Take, gridded, median_intervals_s
from sojourn.features.usage.spool_folder import spool_folder
from sojourn.features.usage.stored_files import (
    MARK,
    REQUESTS,
    check_only_ours,
    part_name,
    read_header,
    read_stored,
    write_header,
)
from sojourn.features.usage.usage_block import UsageBlock, UsageRequests
from sojourn.features.usage.usage_grid import UsageGrid
from sojourn.features.usage.usage_profiles import UsageProfiles, joined, series_profiles
from sojourn.features.usage.usage_stream import UsageStream
from sojourn.publishing import publish_folder
from sojourn.serving.usage import DayClock

N_PARTS = 16
MAX_CELLS = 1 << 25
"""Most cells of a grid of `grids`: 128 MiB; a file with more is given in several grids."""
MAX_CELLS_AT_ONCE = 1 << 31
"""Most cells of the one grid of `grid`: 8 GiB."""
_RAW = np.dtype([("request", "<i4"), ("time_s", "<i8"), ("cpu", "<f4"), ("mem", "<f4")])


@dataclass(frozen=True, slots=True)
class UsageStore:
    """Usage series on disk; `store_usage` writes the folder, `open` reads its header and its requests.

    requests: all requests of the trace, those without a series included. part: int32 (n,), the file of each, -1 = it
    has no series. interval_s: float64 (n,), median time between its samples. start_s, end_s: of the first and the last
    sample. clock: local time of day. header: the report and the source, as in `usage.json`.
    """

    folder: Path
    requests: UsageRequests
    part: np.ndarray
    interval_s: np.ndarray
    start_s: int
    end_s: int
    clock: DayClock
    header: Mapping[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> UsageStore:
        """The store in `folder`; FileNotFoundError where it or its table of requests is missing.

        ValueError where it is of another format, or where a file is not the one that was stored. The files of samples
        are checked when they are read.
        """
        source = Path(folder)
        header = read_header(source)
        table = read_stored(source, REQUESTS, header)
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
        requests = UsageRequests(columns["request_id"], columns["cpu_cores"], columns["mem_gib"])
        return cls(source, requests, columns["part"], columns["interval_s"], header["start_s"], header["end_s"],
                   DayClock(header["start_unix_s"], header["timezone"]), header)

    def grids(self, step_s: int = 300, *, start_s: int | None = None, end_s: int | None = None, take: Take = "mean",
              bridge_steps: int = 0) -> Iterator[UsageGrid]:
        """Grids of the requests with a series, file by file; the rules of a step are those of `gridded`.

        start_s, end_s: the window start_s <= t < end_s on the trace's clock; by default all samples, from the multiple
        of step_s at or before the first. All grids have the same steps. A grid has at most `MAX_CELLS` cells, so a file
        with more gives several. Refused: steps that are more than that for one request.
        """
        begin_s, n_steps = self._steps(step_s, start_s, end_s)
        if n_steps > MAX_CELLS:
            raise ValueError(f"step_s must give at most {MAX_CELLS:,} steps, got {n_steps:,} of {step_s} s between "
                             f"{begin_s} and {begin_s + n_steps * step_s} s; is a stamp far from the others?")
        n_rows = MAX_CELLS // n_steps
        for part in range(self.header["n_parts"]):
            idx = np.flatnonzero(self.part == part)
            if not len(idx):
                continue
            series = self._series(part, idx)
            for lo in range(0, len(idx), n_rows):
                yield self._grid(series.rows(lo, min(lo + n_rows, len(idx))), idx[lo:lo + n_rows], begin_s, step_s,
                                 n_steps, take, bridge_steps)

    def grid(self, request_ids: Iterable[int | str] | None = None, step_s: int = 300, *, start_s: int | None = None,
             end_s: int | None = None, take: Take = "mean", bridge_steps: int = 0) -> UsageGrid:
        """The requests named, in that order, as one grid; None = all that have a series, in the trace's order.

        A request named without a series has a row of NaN. Refused: an id that is not in the trace, or twice; more cells
        than `MAX_CELLS_AT_ONCE`.
        """
        begin_s, n_steps = self._steps(step_s, start_s, end_s)
        idx = np.flatnonzero(self.part >= 0) if request_ids is None else self._rows(request_ids)
        if len(idx) * n_steps > MAX_CELLS_AT_ONCE:
            raise ValueError(f"a grid must have at most {MAX_CELLS_AT_ONCE:,} cells, got {len(idx):,} requests x "
                             f"{n_steps:,} steps; use grids, or a longer step_s")
        cpu = np.full((len(idx), n_steps), np.nan, np.float32)
        mem = np.full_like(cpu, np.nan) if self.header["has_mem"] else None
        for part in np.unique(self.part[idx]):
            here = np.flatnonzero(self.part[idx] == part)
            if part < 0:
                continue
            grid = self._grid(self._series(int(part), idx[here]), idx[here], begin_s, step_s, n_steps, take,
                              bridge_steps)
            cpu[here] = grid.cpu
            if mem is not None and grid.mem is not None:
                mem[here] = grid.mem
        chosen = self.requests.select(idx)
        return UsageGrid(chosen.request_ids, cpu, mem, chosen.cpu_cores, chosen.mem_gib, begin_s, step_s, self.clock,
                         self.interval_s[idx])

    def profiles(self, n_slots: int = 96, *, from_s: int | None = None, to_s: int | None = None,
                 resource: str = "cpu", slot_quantile: float | None = None) -> UsageProfiles:
        """Profiles of all requests with a series from their samples, file by file; see `UsageProfiles`.

        from_s, to_s: the window from_s <= t < to_s. resource: "cpu" or "mem". slot_quantile: also this quantile of
        each slot.
        """
        parts = []
        for part in range(self.header["n_parts"]):
            idx = np.flatnonzero(self.part == part)
            if len(idx):
                parts.append(series_profiles(self.requests.select(idx), self._series(part, idx), self.clock, n_slots,
                                             from_s, to_s, resource, slot_quantile))
        return joined(parts)

    def _steps(self, step_s: int, start_s: int | None, end_s: int | None) -> tuple[int, int]:
        if step_s < 1:
            raise ValueError(f"step_s must be at least 1, got {step_s!r}")
        begin_s = self.start_s // step_s * step_s if start_s is None else start_s
        stop_s = self.end_s + 1 if end_s is None else end_s
        if stop_s <= begin_s:
            raise ValueError(f"end_s must be after start_s {begin_s}, got {stop_s!r}")
        return begin_s, -(-(stop_s - begin_s) // step_s)

    def _rows(self, request_ids: Iterable[int | str]) -> np.ndarray:
        if isinstance(request_ids, int | str):
            raise ValueError(f"request_ids must be a list of ids, got {request_ids!r}")
        of = {name: row for row, name in enumerate(self.requests.request_ids.tolist())}
        names = list(request_ids)
        missing = [name for name in names if name not in of]
        if missing:
            raise ValueError(f"request_ids must be in the trace, got {missing[0]!r}")
        if len(set(names)) < len(names):
            raise ValueError("request_ids must be unique, got one twice")
        return np.array([of[name] for name in names], np.int64)

    def _series(self, part: int, idx: np.ndarray) -> Series:
        """The samples of the requests in the rows `idx`, all of the file `part`, numbered in that order."""
        table = read_stored(self.folder, part_name(part), self.header)
        request = table.column("request").to_numpy()
        time_s, cpu = (table.column(name).to_numpy() for name in ("time_s", "cpu"))
        mem = table.column("mem").to_numpy() if self.header["has_mem"] else None
        place = np.full(len(self.requests), -1, np.int64)
        place[idx] = np.arange(len(idx))
        row = place[request]
        if (row < 0).any() or (np.diff(idx) < 0).any():
            order = np.argsort(row, kind="stable")
            order = order[row[order] >= 0]
            row, time_s, cpu = row[order], time_s[order], cpu[order]
            mem = None if mem is None else mem[order]
        return Series(row, time_s, cpu, mem, self.interval_s[idx])

    def _grid(self, series: Series, idx: np.ndarray, start_s: int, step_s: int, n_steps: int, take: Take,
              bridge_steps: int) -> UsageGrid:
        chosen = self.requests.select(idx)
        cpu = gridded(series, series.cpu, start_s, step_s, n_steps, take, bridge_steps)
        mem = None if series.mem is None else gridded(series, series.mem, start_s, step_s, n_steps, take, bridge_steps)
        return UsageGrid(chosen.request_ids, cpu, mem, chosen.cpu_cores, chosen.mem_gib, start_s, step_s, self.clock,
                         self.interval_s[idx])


def store_usage(stream: UsageStream, folder: str | Path, *, n_parts: int = N_PARTS,
                progress: Callable[[int, int], None] | None = None) -> UsageStore:
    """Write the samples of a stream as a store, whole or not at all; replaces an older store.

    A file holds the requests of one value of crc32(id) modulo n_parts, ordered by request and time, so memory is that
    of the largest file: give more parts where a file would have above 10 M samples. Of several samples of a request at
    one time the first stays, the others are refused (`SAME_TIME`); samples out of order are sorted and counted
    (`UNORDERED`). progress: called with (done, total) samples where the total is known.

    What a killed process left beside the folder is removed first.

    Refused with ValueError: n_parts not in 1 .. 4096, a stream without one sample, a folder with anything else in it,
    also beside an older store (before a sample is read).
    """
    if not 1 <= n_parts <= 4096:
        raise ValueError(f"n_parts must be between 1 and 4096, got {n_parts!r}")
    target = Path(folder)
    check_only_ours(target)
    with spool_folder(target) as fresh:
        start_s, end_s, has_mem = _spooled(stream, fresh, n_parts, progress)
        requests = stream.requests()
        part, interval_s = np.full(len(requests), -1, np.int32), np.full(len(requests), np.nan)
        n_same = n_unordered = 0
        shown: list[str] = []
        for k in range(n_parts):
            raw = _spool(fresh, k)
            if not raw.is_file():
                continue
            rows = np.fromfile(raw, _RAW)
            raw.unlink()
            rows, is_again, back = _ordered(rows)
            n_unordered += back
            n_same += int(is_again.sum())
            shown += [f"{requests.request_ids[row['request']]},{row['time_s']},{row['cpu']:.9g}"
                      for row in rows[is_again][:5]]
            rows = rows[~is_again]
            members = np.unique(rows["request"])
            part[members] = k
            place = np.searchsorted(members, rows["request"])
            interval_s[members] = median_intervals_s(place, rows["time_s"], len(members))
            names = [name for name in _RAW.names or () if name != "mem" or has_mem]
            pq.write_table(pa.table({name: np.ascontiguousarray(rows[name]) for name in names}), fresh / part_name(k))
        stream.settle(n_same, shown, n_unordered)
        report = stream.report()
        pq.write_table(pa.table({
            "request_id": pa.array(requests.request_ids.tolist()), "cpu_cores": requests.cpu_cores,
            "mem_gib": requests.mem_gib, "part": part, "interval_s": interval_s}), fresh / REQUESTS)
        header = {"n_parts": n_parts, "has_mem": has_mem, "start_s": start_s,
                  "end_s": end_s, "start_unix_s": stream.clock.start_unix_s, "timezone": stream.clock.timezone,
                  "source": stream.source, "report": report.read.summary(), "n_series": report.n_series,
                  "n_without_series": len(report.without_series), "n_without_request": len(report.without_request)}
        write_header(fresh, header)
        check_only_ours(target)
        publish_folder(fresh, target, MARK)
    return UsageStore.open(target)


def part_of(request_id: int | str, n_parts: int) -> int:
    """The file of a request: the same for the same id and number of files, in every process.

    >>> part_of("vm-1", 16), part_of(1, 16)
    (10, 7)
    """
    return zlib.crc32(str(request_id).encode()) % n_parts


def _spooled(stream: UsageStream, fresh: Path, n_parts: int,
             progress: Callable[[int, int], None] | None) -> tuple[int, int, bool]:
    """Write the blocks as raw records, a file a part; first and last time, and whether there is memory."""
    part = np.zeros(0, np.int32)
    start_s, end_s, has_mem, n_done = None, 0, False, 0
    for block in stream.blocks():
        if len(part) < len(stream.table):
            fresh_ids = stream.requests().request_ids[len(part):].tolist()
            part = np.append(part, np.array([part_of(name, n_parts) for name in fresh_ids], np.int32))
        start_s = int(block.time_s.min()) if start_s is None else min(start_s, int(block.time_s.min()))
        end_s = max(end_s, int(block.time_s.max()))
        has_mem |= block.mem is not None
        _write(block, part[block.idx_request], fresh)
        n_done += len(block)
        if progress is not None and stream.n_rows:
            progress(n_done, stream.n_rows)
    if start_s is None:
        raise stream.nothing_kept()
    return start_s, end_s, has_mem


def _write(block: UsageBlock, part: np.ndarray, fresh: Path) -> None:
    rows = np.empty(len(block), _RAW)
    rows["request"], rows["time_s"], rows["cpu"] = block.idx_request, block.time_s, block.cpu
    rows["mem"] = np.nan if block.mem is None else block.mem
    order = np.argsort(part.astype(np.int16), kind="stable")  # 16 bits: numpy sorts them by counting
    rows, part = rows[order], part[order]
    begins = np.flatnonzero(np.diff(part, prepend=-1))
    for lo, hi in zip(begins, np.append(begins[1:], len(part)), strict=True):
        with _spool(fresh, int(part[lo])).open("ab") as file:
            file.write(rows[lo:hi].tobytes())  # tofile would not say that the disk is full


def _ordered(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows by request and time, those of one time in the order of the file; which come again; how many were back."""
    rows = rows[np.argsort(rows["request"], kind="stable")]
    is_same = np.diff(rows["request"], prepend=-1) == 0
    step = np.diff(rows["time_s"], prepend=0)
    n_back = int((is_same & (step < 0)).sum())
    if n_back:
        rows = rows[np.lexsort((rows["time_s"], rows["request"]))]
        is_same = np.diff(rows["request"], prepend=-1) == 0
        step = np.diff(rows["time_s"], prepend=0)
    return rows, is_same & (step == 0), n_back


def _spool(fresh: Path, part: int) -> Path:
    return fresh / f"part-{part:04d}.raw"

