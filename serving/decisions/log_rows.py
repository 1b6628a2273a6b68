"""What is logged of decisions, ends and withdrawals, as frames; `log_reader` reads them back.

The curve's numbers are those that were served: rates of a hazard curve, raw scores of the others, as doubles. With the
model's frame they give every answer again: `remaining` to the bit, quantiles and survival to rounding.

Frames of a decision log: what one write appends, and how a file is read that a killed process left half-written.

A frame is 16 bytes (a mark, its type, the length and the CRC-32 of what follows) and compressed content: a JSON object,
then columns of 8-byte numbers whose bytes are laid out by place (all first bytes, then all second ones), which
compress better so. A frame is taken whole or not at all. Data only.

Files of a decision log: one is appended to, closed when it is large or old, and the oldest ones go.

How a decision log is kept: how often it is written, how large its files are, and for how long they stay.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sojourn.publishing import sync
from sojourn.serving.answers import Served
from sojourn.serving.errors import shown
from sojourn.serving.inputs import DAY_S, Admission

DECISION_WHOLE = ("token", "number", "arrival_s", "now_s")
"""Whole numbers of each decision, before its features and its curve."""
SHADOW_WHOLE = ("token", "number")
END_WHOLE = ("token", "number", "end_s", "began_s")
WITHDRAWAL_WHOLE = ("token", "number", "clock_s")
LOST_COUNTS = ("n_decisions", "n_ends", "n_withdrawals")
"""Of a frame of losses, beside the first and last second that lost records were of, `from_s` and `to_s`."""
_HASH_BYTES = 8
Owner = Callable[[str], str]


class Decision(NamedTuple):
    """One admission, as the predictor hands it over. answer: float64, the features behind `n_before` numbers.

    extra: values of the request's columns that only the shadow reads.
    """

    served: Served
    admission: Admission
    now_s: int
    answer: np.ndarray
    n_before: int
    unknown: tuple[str, ...]
    curve: Any
    request_id: str | None
    extra: tuple[Any, ...]


def owner_text(key: bytes | None) -> Owner:
    """How an owner is written: as it is, or the keyed hash (BLAKE2b, 16 hex digits) where there is a key.

    >>> owner_text(b"0123456789abcdef")("ann")
    'd1d74108aa3fbc44'
    """
    if key is None:
        return str
    return lambda name: hashlib.blake2b(name.encode(errors="surrogatepass"), key=key,
                                        digest_size=_HASH_BYTES).hexdigest()


def model_frame(served: Served) -> Frame:
    """What it takes to read a version's decisions without its bundle."""
    schema = served.schema
    own = schema.numbers
    document = schema.document
    return Frame(MODEL, {
        "version": served.version, "family": schema.family, "kind": schema.kind,
        "features": list(served.encoder.feature_names()), "phase_s": served.encoder.phase_s,
        "owner_keys": [key.name for key in served.encoder.history.keys if key.kind == "owner"],
        "edges": list(own.edges), "shares": list(own.shares), "grid": list(own.grid), "tail_s": own.tail_s,
        "smearing": own.smearing, "residuals": list(own.residuals), "thresholds": list(served.builder.thresholds),
        "training": document.get("training", {}), "reference": document.get("reference"),
    }, np.zeros((0, 0)))  # fmt: skip


def decision_frame(decisions: Sequence[Decision], owner: Owner) -> Frame:
    """Decisions of one version and one way of answering. owner: see `owner_text`."""
    served = decisions[0].served
    whole = np.array([(one.admission.token, one.admission.number, one.admission.arrival_s, one.now_s)
                      for one in decisions], np.int64)
    answers = np.concatenate([one.answer for one in decisions]).reshape(len(decisions), -1)
    features = answers[:, decisions[0].n_before:]
    places = [idx for idx, key in enumerate(served.encoder.history.keys) if key.kind == "owner"]
    document = {
        "version": served.version, "n_features": features.shape[1],
        "owner": [[None if (key := one.admission.keys[place]) is None else owner("/".join(key)) for place in places]
                  for one in decisions],
        "unknown": [list(one.unknown) for one in decisions],
        "id": [one.request_id for one in decisions],
    }  # fmt: skip
    return Frame(DECISIONS, document, np.hstack([whole.view(np.float64), features, curve_rows(decisions)]))


def curve_rows(decisions: Sequence[Decision]) -> np.ndarray:
    """The numbers of their curves, float64 (n, k): rates, rates and upper edges, raw scores, or one raw score."""
    first = decisions[0]
    if not first.served.schema.curves.is_varying:  # one score, no array
        return np.array([[one.curve.score] for one in decisions])
    own = first.served.schema.curves.logged(len(first.served.builder.grid))
    return np.concatenate([one.curve.numbers for one in decisions]).reshape(len(decisions), -1)[:, own]


def shadow_frame(served: Served, admissions: Sequence[Admission], rows: np.ndarray) -> Frame:
    """What a shadow answered to the same requests. rows: as `curve_rows`."""
    whole = np.array([(one.token, one.number) for one in admissions], np.int64)
    return Frame(SHADOWS, {"version": served.version}, np.hstack([whole.view(np.float64), rows]))


def end_frame(ends: Sequence[tuple[int, int, int, int]]) -> Frame:
    """Ends: token, number, the second of the end, and that in which the request began to run."""
    return Frame(ENDS, {}, np.array(ends, np.int64).view(np.float64))


def withdrawal_frame(withdrawals: Sequence[tuple[int, int, int]]) -> Frame:
    """Withdrawals: token, number, and the latest second that the predictor had been given."""
    return Frame(WITHDRAWALS, {}, np.array(withdrawals, np.int64).view(np.float64))


MARK = b"SJL1"
"""Begins every frame; the digit is the format's version."""
SESSION, MODEL, DECISIONS, SHADOWS, ENDS, WITHDRAWALS, LOSSES = range(1, 8)
"""Types of frames."""
_HEAD = struct.Struct("<4sB3xII")
_SIZE = struct.Struct("<I")
_LEVEL = 1
N_BYTES_MAX = 1 << 28
"""What a frame may hold, unpacked; a writer's are a thousandth of it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One write. document: a JSON object. numbers: float64 (n, k), n >= 0; whole numbers are kept as int64 bits."""

    kind: int
    document: Mapping[str, Any]
    numbers: np.ndarray

    def packed(self) -> bytes:
        """The bytes that stand in the file.

        >>> frame = Frame(ENDS, {"n": 2}, np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> next(frames_of(frame.packed())).numbers.tolist()
        [[1.0, 2.0], [3.0, 4.0]]
        """
        text = json.dumps(self.document, separators=(",", ":"), allow_nan=False).encode()
        rows, columns = self.numbers.shape
        block = np.ascontiguousarray(self.numbers).view(np.uint8).reshape(rows, columns, 8).transpose(1, 2, 0).tobytes()
        content = zlib.compress(_SIZE.pack(len(text)) + _SIZE.pack(rows) + _SIZE.pack(columns) + text + block, _LEVEL)
        return _HEAD.pack(MARK, self.kind, len(content), zlib.crc32(content)) + content


@dataclass(slots=True)
class Skipped:
    """What a reader left out. n_bytes: of half-written or damaged frames; n_places: how many such stretches."""

    n_bytes: int = 0
    n_places: int = 0


def frames_of(content: bytes, skipped: Skipped | None = None) -> Iterator[Frame]:
    """The whole frames of a file, in order; what is half-written or damaged is passed over and counted."""
    left_out = Skipped() if skipped is None else skipped
    at, view = 0, memoryview(content)
    while at < len(content):
        frame, end = _frame_at(view, at)
        if frame is not None:
            yield frame
            at = end
            continue
        found = content.find(MARK, at + 1)
        end = len(content) if found < 0 else found
        left_out.n_bytes += end - at
        left_out.n_places += 1
        at = end


def _frame_at(view: memoryview, at: int) -> tuple[Frame | None, int]:
    """The frame that begins at a place, and where it ends; None where there is no whole one."""
    if len(view) - at < _HEAD.size:
        return None, at
    mark, kind, size, check = _HEAD.unpack_from(view, at)
    end = at + _HEAD.size + size
    if mark != MARK or end > len(view):
        return None, at
    content = view[at + _HEAD.size:end]
    if zlib.crc32(content) != check:
        return None, at
    try:
        return _unpacked(kind, content), end
    except (ValueError, KeyError, TypeError, struct.error, zlib.error):
        return None, at


def _unpacked(kind: int, content: memoryview) -> Frame:
    stream = zlib.decompressobj()
    plain = stream.decompress(content, N_BYTES_MAX)
    if stream.unconsumed_tail or not stream.eof:
        raise ValueError(f"a frame must hold at most {N_BYTES_MAX} bytes")
    n_text, rows, columns = (_SIZE.unpack_from(plain, place * _SIZE.size)[0] for place in range(3))
    start = 3 * _SIZE.size + n_text
    document = json.loads(plain[3 * _SIZE.size:start])
    if not isinstance(document, dict) or len(plain) - start != 8 * rows * columns:
        raise ValueError("a frame must hold a JSON object and its columns")
    block = np.frombuffer(plain, np.uint8, offset=start).reshape(columns, 8, rows).transpose(2, 0, 1)
    return Frame(kind, document, np.ascontiguousarray(block).view(np.float64).reshape(rows, columns))


FILE_NAME = re.compile(r"decisions-[0-9]{13}-[0-9a-f]{16}-[0-9]{6}\.log")
"""Unix milliseconds of its beginning, the session that writes it, its place among the session's files."""
_MIB = 1 << 20


def log_files(folder: Path) -> list[Path]:
    """The files of a log, in the order of their names; empty where there is no folder. Others are not looked at."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if FILE_NAME.fullmatch(path.name))


class LogFile:
    """Appends to the latest of one session's files; for one thread at a time.

    The names of files hold the wall clock for people only: whether a file is old is asked of a clock that is never set
    back, and of files that others wrote, by when they were last written.
    """

    def __init__(self, folder: Path, settings: LogSettings) -> None:
        self._folder, self._settings = folder, settings
        self.session = secrets.token_hex(8)
        self._n_files = 0
        self._descriptor: int | None = None
        self._path = folder
        self._n_bytes, self._opened_s = 0, 0.0

    def append(self, content: Callable[[bool], bytes]) -> None:
        """Add frames to the file, given whether it is a new one; OSError where nothing of them was kept.

        A file that was removed meanwhile is not written to: another is begun.
        """
        is_new = self._is_over()
        if is_new:
            self.close()
            self._begin()
        try:
            self._write(content(is_new))
        except OSError:
            if is_new:
                self._drop()
            raise

    def close(self) -> None:
        """Flush the file to disk and end it; the next `append` begins another."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def abandon(self) -> None:
        """Leave the file to the process that this one was forked from, and go on as another session."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self.session = secrets.token_hex(8)
        self._n_files = 0

    def _is_over(self) -> bool:
        settings = self._settings
        if self._descriptor is None or self._n_bytes >= settings.file_mib * _MIB:
            return True
        if time.monotonic() - self._opened_s >= settings.file_s:
            return True
        try:
            return self._path.stat().st_ino != os.fstat(self._descriptor).st_ino
        except OSError:
            return True

    def _begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._clear()
        name = f"decisions-{max(time.time_ns(), 0) // 1_000_000:013d}-{self.session}-{self._n_files:06d}.log"
        self._path = self._folder / name
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        self._n_files += 1
        self._n_bytes, self._opened_s = 0, time.monotonic()
        sync(self._folder)

    def _drop(self) -> None:
        """Remove the file that was just begun."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._path.unlink(missing_ok=True)

    def _write(self, content: bytes) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            raise ValueError("a file must be open")
        view = memoryview(content)
        try:
            while view:
                view = view[os.write(descriptor, view):]
        except OSError:
            os.ftruncate(descriptor, self._n_bytes)  # what was written of it: a reader would pass over it anyway
            raise
        self._n_bytes += len(content)

    def _clear(self) -> None:
        """Remove the oldest files beyond what is to be kept; those that others removed meanwhile are gone anyway."""
        found = []
        for path in log_files(self._folder):
            try:
                stat = path.stat()
            except OSError:
                continue
            found.append((stat.st_mtime, path, stat.st_size))
        n_bytes, now_s = sum(size for _, _, size in found), time.time()
        for written_s, path, size in sorted(found):
            if n_bytes <= self._settings.keep_mib * _MIB and now_s - written_s <= self._settings.keep_s:
                break
            path.unlink(missing_ok=True)
            n_bytes -= size


KEY_BYTES_MIN, KEY_BYTES_MAX = 16, 64


@dataclass(frozen=True, slots=True)
class LogSettings:
    """owner_key: 16 to 64 bytes, kept by the user and never written: owners are then logged by a keyed hash (BLAKE2b).

    flush_s: seconds between two writes; a killed process loses what came after the last one. file_mib, file_s: a file
    that has grown or lasted so long is closed and another begun. keep_mib, keep_s: the oldest files of the folder go
    once all of them together are larger, or once they were last written so long ago.

    >>> LogSettings(flush_s=0.0)
    Traceback (most recent call last):
    ValueError: flush_s must be finite and above 0, got 0.0
    """

    owner_key: bytes | None = None
    flush_s: float = 1.0
    file_mib: float = 64.0
    file_s: float = DAY_S
    keep_mib: float = 16_384.0
    keep_s: float = 400.0 * DAY_S

    def __post_init__(self) -> None:
        key = self.owner_key
        if key is not None and not (isinstance(key, bytes) and KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX):
            got = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__  # never the key itself
            raise ValueError(f"owner_key must be {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, got {got}")
        for name in ("flush_s", "file_mib", "file_s", "keep_mib", "keep_s"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0.0 < value < math.inf:
                raise ValueError(f"{name} must be finite and above 0, got {shown(value)}")
        if self.file_mib > self.keep_mib:
            raise ValueError(f"file_mib must be at most keep_mib {self.keep_mib!r}, got {self.file_mib!r}")
