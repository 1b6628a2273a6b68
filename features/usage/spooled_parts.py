"""From samples to the files of a store in two steps, each of which can be done apart: by file read, by part written."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sojourn.features.usage.gridding import median_intervals_s
from sojourn.features.usage.stored_files import part_name
from sojourn.features.usage.usage_block import UsageBlock
from sojourn.features.usage.usage_stream import FileCounts, UsageStream

_RAW = np.dtype([("request", "<i4"), ("time_s", "<i8"), ("cpu", "<f4"), ("mem", "<f4")])
_N_SHOWN = 5


@dataclass(frozen=True, slots=True)
class UsageSource:
    """How a stream is opened again in another process.

    opening: a module's function such as `read_usage`. args, options: what it is given; all of it hashable.
    """

    opening: Callable[..., UsageStream]
    args: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def open(self) -> UsageStream:
        """The stream; raises what opening it raises."""
        return self.opening(*self.args, **dict(self.options))


@dataclass(frozen=True, slots=True)
class Spooled:
    """What was spooled: first and last time, whether there is memory; start_s is None where no sample was kept.

    tag: in the names of its files. It differs each time: what a worker left that was killed is not read.
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
    """One part of a store: what was spooled for it, in the order of the files, becomes its Parquet file.

    tags: of each file. rows: int32 of each file, the row of each of its requests in the store; None where they are the
    store's own.
    """

    fresh: Path
    part: int
    tags: tuple[str, ...]
    rows: tuple[np.ndarray, ...] | None
    has_mem: bool


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """members: int64, rows of the requests in the part. interval_s: float64, median time between samples of each.

    n_same: samples at the time of another one of their request, which are left out; shown: the first of them as
    (request, time_s, cpu). n_back: samples that stood before the one above.
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
    """Write the blocks of a stream as raw records, a file a part."""
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
    """Spool one file of a source; raises what reading it raises."""
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
            raw.write(rows[lo:hi].tobytes())  # tofile would not say that the disk is full


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


def _spool(fresh: Path, part: int, tag: str) -> Path:
    return fresh / f"part-{part:04d}-{tag}.raw"
