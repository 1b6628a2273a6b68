"""A folder of usage series: Parquet files by a hash of the request, read one at a time as grids or profiles.

Each file has a digest, so a damaged, edited, mixed or replaced store is refused. Writing has two steps that
can be distributed: by file read, then by part written. Unfinished parts are in a temporary folder
beside the store; the next process removes what a killed one left there.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.features.usage.usage_grid import (
    Series,
    Take,
    UsageGrid,
    UsageProfiles,
    gridded,
    joined,
    median_intervals_s,
    series_profiles,
)
from sojourn.features.usage.usage_stream import FileCounts, UsageBlock, UsageRequests, UsageStream
from sojourn.publishing import publish_folder
from sojourn.serving.usage import DayClock

MARK = "usage.json"
REQUESTS = "requests.parquet"
FORMAT_VERSION = 2


def part_name(part: int) -> str:
    """The file of the requests of one part.

    >>> part_name(3)
    'part-0003.parquet'
    """
    return f"part-{part:04d}.parquet"


def write_header(folder: Path, header: Mapping[str, Any]) -> None:
    """Write `usage.json` last: the header, and digests of all other files and of itself."""
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.glob("*.parquet"))}
    whole = {**header, "format_version": FORMAT_VERSION, "files": digests}
    (folder / MARK).write_text(json.dumps({**whole, "digest": _digest(whole)}, indent=2, sort_keys=True) + "\n")


def read_header(folder: Path) -> dict[str, Any]:
    """The header of a store; FileNotFoundError without one, ValueError if its version differs or it was changed."""
    path = folder / MARK
    if not path.is_file():
        raise FileNotFoundError(f"usage folder must hold {MARK}, got {str(folder)!r}")
    try:
        header = json.loads(path.read_text())
        version = header["format_version"]
    except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} must be a usage header, got {error}") from error
    if version != FORMAT_VERSION:
        raise ValueError(f"{path}: format_version must be {FORMAT_VERSION}, got {version!r}; store the series again")
    signed = {name: value for name, value in header.items() if name != "digest"}
    if header.get("digest") != _digest(signed):
        raise ValueError(f"{path} must be as it was written, got a changed one; store the series again")
    return header


def read_stored(folder: Path, name: str, header: Mapping[str, Any]) -> pa.Table:
    """The table in a file of a store; FileNotFoundError if it is missing, ValueError if its digest differs.

    The digest is of the bytes that are read, so a store that is replaced meanwhile is detected.
    """
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"usage folder must hold {name}, got {str(folder)!r} without it")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != header["files"].get(name):
        raise ValueError(f"{path} must be the file that was stored with its {MARK}, got another: it is damaged, or the "
                         f"store was replaced after it was opened")
    return pq.read_table(pa.BufferReader(content), use_threads=False)


def check_only_ours(folder: Path) -> None:
    """ValueError if a folder holds other files, which replacing the store would delete."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} must be a folder, got a file")
    odd = [path.name for path in sorted(folder.iterdir())
           if path.name not in (MARK, REQUESTS) and not path.match("part-????.parquet")]
    if odd:
        raise ValueError(f"{folder} must be new, empty or a folder with {MARK} and its files alone, "
                         f"got something else there: {odd[0]!r}")


def _digest(header: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


_RAW = np.dtype([("request", "<i4"), ("time_s", "<i8"), ("cpu", "<f4"), ("mem", "<f4")])
_N_SHOWN = 5


@dataclass(frozen=True, slots=True)
class UsageSource:
    """How a stream is opened again in another process.

    opening: a module's function such as `read_usage`. args, options: its arguments; all hashable.
    """

    opening: Callable[..., UsageStream]
    args: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def open(self) -> UsageStream:
        """The stream; raises the errors of `opening`."""
        return self.opening(*self.args, **dict(self.options))


@dataclass(frozen=True, slots=True)
class Spooled:
    """A spooled file: first and last time, whether there is memory; start_s is None without accepted samples.

    tag: in the names of its files; new each time, so files of a killed worker are not read.
    """

    tag: str
    start_s: int | None
    end_s: int
    has_mem: bool


@dataclass(frozen=True, slots=True)
class FileWork:
    """One file of a source: its samples go to `fresh`, by part of the store."""

    source: UsageSource
    file: int
    fresh: Path
    n_parts: int


@dataclass(frozen=True, slots=True)
class PartWork:
    """One part of a store: its spooled samples, in the order of the files, become its Parquet file.

    tags: of each file. rows: int32 for each file, the row of each of its requests in the store;
    None if they are already rows of the store.
    """

    fresh: Path
    part: int
    tags: tuple[str, ...]
    rows: tuple[np.ndarray, ...] | None
    has_mem: bool


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """members: int64, rows of the requests in the part. interval_s: float64, median time between samples of each.

    n_same: samples at the time of another one of their request, which are dropped; shown: the first
    of them as (request, time_s, cpu). n_back: samples earlier than the one before them in the file.
    """

    part: int
    members: np.ndarray
    interval_s: np.ndarray
    n_same: int
    shown: tuple[tuple[int, int, float], ...]
    n_back: int


def part_of(request_id: int | str, n_parts: int) -> int:
    """The file of a request: the same for the same id and number of files, in every process.

    >>> part_of("vm-1", 16), part_of(1, 16)
    (10, 7)
    """
    return zlib.crc32(str(request_id).encode()) % n_parts


def spool(stream: UsageStream, fresh: Path, n_parts: int,
          progress: Callable[[int, int], None] | None = None) -> Spooled:
    """Write the blocks of a stream as raw records, a file for each part."""
    part, tag = np.zeros(0, np.int32), secrets.token_hex(8)
    start_s, end_s, has_mem, n_done = None, 0, False, 0
    for block in stream.blocks():
        if len(part) < len(stream.table):
            fresh_ids = stream.table.names(len(part))
            part = np.append(part, np.array([part_of(name, n_parts) for name in fresh_ids], np.int32))
        start_s = int(block.time_s.min()) if start_s is None else min(start_s, int(block.time_s.min()))
        end_s = max(end_s, int(block.time_s.max()))
        has_mem |= block.mem is not None
        _write(block, part[block.idx_request], fresh, tag)
        n_done += len(block)
        if progress is not None and stream.n_rows:
            progress(n_done, stream.n_rows)
    return Spooled(tag, start_s, end_s, has_mem)


def spool_file(work: FileWork) -> tuple[Spooled, FileCounts]:
    """Spool one file of a source; raises the errors of reading."""
    stream = _opened(work.source, work.fresh).file(work.file)
    n_known = len(stream.table)
    return spool(stream, work.fresh, work.n_parts), stream.counts(n_known)


def write_part(work: PartWork) -> WrittenPart:
    """Write one part of a store as Parquet, ordered by request and time."""
    pieces = []
    for file, tag in enumerate(work.tags):
        raw = _spool(work.fresh, work.part, tag)
        if raw.is_file():
            piece = np.fromfile(raw, _RAW)
            if work.rows is not None:
                piece["request"] = work.rows[file][piece["request"]]
            pieces.append(piece)
    rows, is_again, n_back = _ordered(np.concatenate([*pieces, np.zeros(0, _RAW)]))
    again = rows[is_again]
    shown = tuple((int(row["request"]), int(row["time_s"]), float(row["cpu"])) for row in again[:_N_SHOWN])
    rows = rows[~is_again]
    members = np.unique(rows["request"])
    interval_s = median_intervals_s(np.searchsorted(members, rows["request"]), rows["time_s"], len(members))
    if len(rows):
        names = [name for name in _RAW.names or () if name != "mem" or work.has_mem]
        pq.write_table(pa.table({name: np.ascontiguousarray(rows[name]) for name in names}),
                       work.fresh / part_name(work.part))
    return WrittenPart(work.part, members, interval_s, len(again), shown, n_back)


def remove_spools(fresh: Path) -> None:
    """Remove all raw records."""
    for raw in fresh.glob("part-*.raw"):
        raw.unlink()


@lru_cache(maxsize=1)
def _opened(source: UsageSource, _fresh: Path) -> UsageStream:
    """The stream of a source, opened once for the files of one store: its table of requests may be large."""
    return source.open()


def _write(block: UsageBlock, part: np.ndarray, fresh: Path, tag: str) -> None:
    rows = np.empty(len(block), _RAW)
    rows["request"], rows["time_s"], rows["cpu"] = block.idx_request, block.time_s, block.cpu
    rows["mem"] = np.nan if block.mem is None else block.mem
    order = np.argsort(part.astype(np.int16), kind="stable")  # 16 bits: numpy sorts them by counting
    rows, part = rows[order], part[order]
    begins = np.flatnonzero(np.diff(part, prepend=-1))
    for lo, hi in zip(begins, np.append(begins[1:], len(part)), strict=True):
        with _spool(fresh, int(part[lo]), tag).open("ab") as raw:
            raw.write(rows[lo:hi].tobytes())  # tofile would not raise if the disk is full


def _ordered(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows by request and time, those of one time in the order of the file; which are repeated; how many were back."""
    rows = rows[np.argsort(rows["request"], kind="stable")]
    is_same = np.diff(rows["request"], prepend=-1) == 0
    step = np.diff(rows["time_s"], prepend=0)
    n_back = int((is_same & (step < 0)).sum())
    if n_back:
        rows = rows[np.lexsort((rows["time_s"], rows["request"]))]
        is_same = np.diff(rows["request"], prepend=-1) == 0
        step = np.diff(rows["time_s"], prepend=0)
    return rows, is_same & (step == 0), n_back


def _spool(fresh: Path, part: int, tag: str) -> Path:
    return fresh / f"part-{part:04d}-{tag}.raw"


N_PARTS = 16
MAX_CELLS = 1 << 25
"""The most cells of a grid of `grids`: 128 MiB; a larger file gives several grids."""
MAX_CELLS_AT_ONCE = 1 << 31
"""The most cells of the grid of `grid`: 8 GiB."""


@dataclass(frozen=True, slots=True)
class UsageStore:
    """Usage series on disk; `store_usage` writes the folder, `open` reads its header and its requests.

    requests: all requests of the trace, also those without a series. part: int32 (n,), the file of each, -1 = no
    series. interval_s: float64 (n,), median time between its samples. start_s, end_s: of the first and the last sample.
    clock: local time of day. header: the report and the source, as in `usage.json`.
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
        """The store in `folder`; FileNotFoundError if it or its table of requests is missing.

        ValueError if it has another format, or a file was changed. The files of samples are checked when they are read.
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
        of step_s at or before the first. All grids have the same steps. A grid has at most `MAX_CELLS` cells, so a
        larger file gives several. ValueError for more steps than that.
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
        """The given requests, in order, as one grid; None = all with a series, in the trace's order.

        A request without a series has a row of NaN. ValueError for an unknown or duplicate id, and
        more cells than `MAX_CELLS_AT_ONCE`.
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
        picks = self.requests.select(idx)
        return UsageGrid(picks.request_ids, cpu, mem, picks.cpu_cores, picks.mem_gib, begin_s, step_s, self.clock,
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
        """The samples of the requests at the rows `idx`, all in the file `part`, numbered in that order."""
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
        picks = self.requests.select(idx)
        cpu = gridded(series, series.cpu, start_s, step_s, n_steps, take, bridge_steps)
        mem = None if series.mem is None else gridded(series, series.mem, start_s, step_s, n_steps, take, bridge_steps)
        return UsageGrid(picks.request_ids, cpu, mem, picks.cpu_cores, picks.mem_gib, start_s, step_s, self.clock,
                         self.interval_s[idx])


@dataclass(frozen=True, slots=True)
class SharedReading:
    """Distributed reading.

    source: opens the stream in another process, at a path that it can read. share: applies a task
    (a module's function) to each item; results in order, or the first error.
    """

    source: UsageSource
    share: Callable[[Callable[[Any], Any], Sequence[Any]], Sequence[Any]]


def store_usage(stream: UsageStream, folder: str | Path, *, n_parts: int = N_PARTS,
                progress: Callable[[int, int], None] | None = None, shared: SharedReading | None = None) -> UsageStore:
    """Write the samples of a stream as a store, whole or not at all; replaces an older store.

    A file holds the requests of one value of crc32(id) modulo n_parts, ordered by request and time, so memory is that
    of the largest file: use more parts if a file would have above 10 M samples. Of several samples of a request at one
    time the first counts, the others are refused (`SAME_TIME`); samples out of order are sorted and counted
    (`UNORDERED`). progress: called with (done, total) samples if the total is known. shared: distributes reading and
    writing by file; bytes and report are the same.

    Remains of a killed process beside the folder are removed first.

    ValueError for n_parts not in 1 .. 4096, a stream without samples, or a folder with other files,
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
    """The spooled samples of each file, and the rows of its requests in the store, if files name requests."""
    work = [FileWork(source, file, fresh.resolve(), n_parts) for file in range(stream.n_files)]
    results = share(spool_file, work)
    rows = stream.add([counts for _, counts in results])
    return [spooled for spooled, _ in results], tuple(rows) if stream.table.is_growing else None


try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_N_RANDOM = 8
"""Characters that `mkdtemp` adds to a name."""


@contextmanager
def spool_folder(target: Path) -> Iterator[Path]:
    """An empty folder `.NAME.*` beside `target` of this process alone; removed if the block fails.

    The folder is locked while its process lives, and the system ends the lock with the process. So before a folder is
    created, those without a lock are removed. Without such locks, nothing is removed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_left(target)
    fresh, lock = _locked(target)
    try:
        yield fresh
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _locked(target: Path) -> tuple[Path, int | None]:
    """A folder and its lock; tried again if another process removed it in between."""
    while True:
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        if fcntl is None:
            return fresh, None
        lock = os.open(fresh, os.O_RDONLY)
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if fresh.is_dir():
                return fresh, lock
        os.close(lock)


def _remove_left(target: Path) -> None:
    if fcntl is None:
        return
    for folder in sorted(target.parent.iterdir()):
        if not _is_ours(folder, target):
            continue
        with suppress(OSError):  # removed meanwhile, or its process lives
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _is_ours(folder: Path, target: Path) -> bool:
    """Whether it has such a name and holds only parts of a store, so that folders of the user stay."""
    prefix = f".{target.name}."
    if not folder.name.startswith(prefix) or len(folder.name) != len(prefix) + _N_RANDOM:
        return False
    if folder.is_symlink() or not folder.is_dir():
        return False
    return all(path.name in (MARK, REQUESTS) or path.name.startswith("part-") for path in folder.iterdir())
