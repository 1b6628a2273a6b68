"""A folder of usage series: Parquet files by a hash of the request, read one at a time as grids or profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.features.usage.gridding import Series, Take, gridded
from sojourn.features.usage.spool_folder import spool_folder
from sojourn.features.usage.spooled_parts import (
    FileWork,
    PartWork,
    Spooled,
    UsageSource,
    WrittenPart,
    remove_spools,
    spool,
    spool_file,
    write_part,
)
from sojourn.features.usage.stored_files import (
    MARK,
    REQUESTS,
    check_only_ours,
    part_name,
    read_header,
    read_stored,
    write_header,
)
from sojourn.features.usage.usage_block import UsageRequests
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


@dataclass(frozen=True, slots=True)
class SharedReading:
    """Reading shared out. source: opens the stream anew in another process, at a path that it can see.

    share: what a task (a module's function, an item) gives for each item, in their order; raises what the first raised.
    """

    source: UsageSource
    share: Callable[[Callable[[Any], Any], Sequence[Any]], Sequence[Any]]


def store_usage(stream: UsageStream, folder: str | Path, *, n_parts: int = N_PARTS,
                progress: Callable[[int, int], None] | None = None, shared: SharedReading | None = None) -> UsageStore:
    """Write the samples of a stream as a store, whole or not at all; replaces an older store.

    A file holds the requests of one value of crc32(id) modulo n_parts, ordered by request and time, so memory is that
    of the largest file: give more parts where a file would have above 10 M samples. Of several samples of a request at
    one time the first stays, the others are refused (`SAME_TIME`); samples out of order are sorted and counted
    (`UNORDERED`). progress: called with (done, total) samples where the total is known. shared: each file that is read,
    then each that is written, is shared out; bytes and report are the same.

    What a killed process left beside the folder is removed first.

    Refused with ValueError: n_parts not in 1 .. 4096, a stream without one sample, a folder with anything else in it,
    also beside an older store (before a sample is read).
    """
    if not 1 <= n_parts <= 4096:
        raise ValueError(f"n_parts must be between 1 and 4096, got {n_parts!r}")
    target = Path(folder)
    check_only_ours(target)
    with spool_folder(target) as fresh:
        spooled, rows = (([spool(stream, fresh, n_parts, progress)], None) if shared is None
                         else _spooled_files(stream, shared.source, shared.share, fresh, n_parts))
        begins = [each.start_s for each in spooled if each.start_s is not None]
        if not begins:
            raise stream.nothing_kept()
        has_mem = any(each.has_mem for each in spooled)
        requests, tags = stream.requests(), tuple(each.tag for each in spooled)
        work = [PartWork(fresh.resolve(), part, tags, rows, has_mem) for part in range(n_parts)]
        written: Sequence[WrittenPart] = (list(map(write_part, work)) if shared is None
                                          else shared.share(write_part, work))
        remove_spools(fresh)
        part, interval_s = np.full(len(requests), -1, np.int32), np.full(len(requests), np.nan)
        for each in written:
            part[each.members], interval_s[each.members] = each.part, each.interval_s
        shown = [f"{requests.request_ids[row]},{time_s},{cpu:.9g}"
                 for each in written for row, time_s, cpu in each.shown]
        stream.settle(sum(each.n_same for each in written), shown, sum(each.n_back for each in written))
        report = stream.report()
        pq.write_table(pa.table({
            "request_id": pa.array(requests.request_ids.tolist()), "cpu_cores": requests.cpu_cores,
            "mem_gib": requests.mem_gib, "part": part, "interval_s": interval_s}), fresh / REQUESTS)
        header = {"n_parts": n_parts, "has_mem": has_mem, "start_s": min(begins),
                  "end_s": max(each.end_s for each in spooled), "start_unix_s": stream.clock.start_unix_s,
                  "timezone": stream.clock.timezone,
                  "source": stream.source, "report": report.read.summary(), "n_series": report.n_series,
                  "n_without_series": len(report.without_series), "n_without_request": len(report.without_request)}
        write_header(fresh, header)
        check_only_ours(target)
        publish_folder(fresh, target, MARK)
    return UsageStore.open(target)


def _spooled_files(stream: UsageStream, source: UsageSource,
                   share: Callable[[Callable[[Any], Any], Sequence[Any]], Sequence[Any]], fresh: Path,
                   n_parts: int) -> tuple[list[Spooled], tuple[np.ndarray, ...] | None]:
    """What was spooled of each file, and the rows of its requests in the store, if files name requests."""
    work = [FileWork(source, file, fresh.resolve(), n_parts) for file in range(stream.n_files)]
    found = share(spool_file, work)
    rows = stream.add([counts for _, counts in found])
    return [spooled for spooled, _ in found], tuple(rows) if stream.table.is_growing else None
