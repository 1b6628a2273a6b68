"""The decision log as frames in files; `log_reader` reads them.

The numbers of a served curve are rates of a hazard curve, or raw scores of other kinds, as doubles.
With the model's frame they give all answers again: `remaining` to the bit, quantiles and survival
to rounding.

A frame has 16 bytes (a mark, its type, the length and the CRC-32 of the content) and compressed
content: a JSON object, then columns of 8-byte numbers. All first bytes of the numbers come first,
then all second bytes, since that compresses better. A frame is read whole or skipped.

A session appends to one file, and closes it when it is large or old; the oldest files are removed.
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
from sojourn.serving.inputs import DAY_S, Receipt

DECISION_WHOLE = ("token", "number", "arrival_s", "now_s")
"""Columns of integers of a decision, before its features and its curve."""
SHADOW_WHOLE = ("token", "number")
END_WHOLE = ("token", "number", "end_s", "began_s")
WITHDRAWAL_WHOLE = ("token", "number", "clock_s")
LOST_COUNTS = ("n_decisions", "n_ends", "n_withdrawals")
"""Fields of a frame of losses, beside `from_s` and `to_s`, the first and last second of lost records."""
_HASH_BYTES = 8
Owner = Callable[[str], str]


class Decision(NamedTuple):
    """One admission, from the predictor.

    answer: float64, `n_before` numbers, then the features. extra: values of the request's columns
    that only the shadow reads.
    """

    served: Served
    admission: Receipt
    now_s: int
    answer: np.ndarray
    n_before: int
    unknown: tuple[str, ...]
    curve: Any
    request_id: str | None
    extra: tuple[Any, ...]


def owner_text(key: bytes | None) -> Owner:
    """How an owner is written: as it is, or, with a key, its keyed hash (BLAKE2b, 16 hex digits).

    >>> owner_text(b"0123456789abcdef")("ann")
    'd1d74108aa3fbc44'
    """
    if key is None:
        return str
    return lambda name: hashlib.blake2b(name.encode(errors="surrogatepass"), key=key,
                                        digest_size=_HASH_BYTES).hexdigest()


def model_frame(served: Served) -> Frame:
    """All that is needed to read a version's decisions without its bundle."""
    schema = served.schema
    terms = schema.numbers
    document = schema.document
    return Frame(MODEL, {
        "version": served.version, "family": schema.family, "kind": schema.kind,
        "features": list(served.encoder.feature_names()), "phase_s": served.encoder.phase_s,
        "owner_keys": [key.name for key in served.encoder.history.keys if key.kind == "owner"],
        "edges": list(terms.edges), "shares": list(terms.shares), "grid": list(terms.grid), "tail_s": terms.tail_s,
        "smearing": terms.smearing, "residuals": list(terms.residuals), "thresholds": list(served.builder.thresholds),
        "training": document.get("training", {}), "reference": document.get("reference"),
    }, np.zeros((0, 0)))  # fmt: skip


def decision_frame(decisions: Sequence[Decision], owner: Owner) -> Frame:
    """Decisions of one version with curves of one length. owner: see `owner_text`."""
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
    """The numbers of the curves, float64 (n, k): rates, rates and upper edges, raw scores, or one raw score."""
    first = decisions[0]
    if not first.served.schema.curves.is_varying:  # one score, no array
        return np.array([[one.curve.score] for one in decisions])
    columns = first.served.schema.curves.logged(len(first.served.builder.grid))
    return np.concatenate([one.curve.numbers for one in decisions]).reshape(len(decisions), -1)[:, columns]


def shadow_frame(served: Served, admissions: Sequence[Receipt], rows: np.ndarray) -> Frame:
    """A shadow's answers to the same requests. rows: as `curve_rows`."""
    whole = np.array([(one.token, one.number) for one in admissions], np.int64)
    return Frame(SHADOWS, {"version": served.version}, np.hstack([whole.view(np.float64), rows]))


def end_frame(ends: Sequence[tuple[int, int, int, int]]) -> Frame:
    """Ends: token, number, the second of the end, and the second of the start."""
    return Frame(ENDS, {}, np.array(ends, np.int64).view(np.float64))


def withdrawal_frame(withdrawals: Sequence[tuple[int, int, int]]) -> Frame:
    """Withdrawals: token, number, and the latest second of a call to the predictor."""
    return Frame(WITHDRAWALS, {}, np.array(withdrawals, np.int64).view(np.float64))


MARK = b"SJL1"
"""The first bytes of every frame; the digit is the format's version."""
SESSION, MODEL, DECISIONS, SHADOWS, ENDS, WITHDRAWALS, LOSSES = range(1, 8)
"""Types of frames."""
_HEAD = struct.Struct("<4sB3xII")
_SIZE = struct.Struct("<I")
_LEVEL = 1
N_BYTES_MAX = 1 << 28
"""The largest frame, unpacked; the writer's are a thousandth of it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One write. document: a JSON object. numbers: float64 (n, k), n >= 0; integers are stored as int64 bits."""

    kind: int
    document: Mapping[str, Any]
    numbers: np.ndarray

    def packed(self) -> bytes:
        """The bytes in the file.

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
    """Parts that a reader skipped. n_bytes: of half-written or damaged frames; n_places: number of such parts."""

    n_bytes: int = 0
    n_places: int = 0


def frames_of(content: bytes, skipped: Skipped | None = None) -> Iterator[Frame]:
    """The whole frames of a file, in order; half-written or damaged parts are skipped and counted."""
    left_out = Skipped() if skipped is None else skipped
    at, view = 0, memoryview(content)
    while at < len(content):
        frame, end = _frame_at(view, at)
        if frame is not None:
            yield frame
            at = end
            continue
        mark_at = content.find(MARK, at + 1)
        end = len(content) if mark_at < 0 else mark_at
        left_out.n_bytes += end - at
        left_out.n_places += 1
        at = end


def _frame_at(view: memoryview, at: int) -> tuple[Frame | None, int]:
    """The frame that begins at a place, or None if it is not whole, and where it ends."""
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
"""Unix milliseconds of its start, its session, its number among the session's files."""
_MIB = 1 << 20


def log_files(folder: Path) -> list[Path]:
    """The files of a log, in the order of their names; empty if there is no folder. Other files are ignored."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if FILE_NAME.fullmatch(path.name))


class LogFile:
    """Appends to the latest of one session's files; for one thread at a time.

    The clock time in file names is for people only. The age of the open file is measured by a clock
    that is never set back, the age of others by their time of modification.
    """

    def __init__(self, folder: Path, settings: LogSettings) -> None:
        self._folder, self._settings = folder, settings
        self.session = secrets.token_hex(8)
        self._n_files = 0
        self._descriptor: int | None = None
        self._path = folder
        self._n_bytes, self._opened_s = 0, 0.0

    def append(self, content: Callable[[bool], bytes]) -> None:
        """Append frames, from a function of "is the file new"; OSError if none of them was written.

        If the file was removed meanwhile, a new one is opened.
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
        """Flush and close the file; the next `append` opens another."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def abandon(self) -> None:
        """Leave the file to the parent of a fork, and continue as another session."""
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
            os.ftruncate(descriptor, self._n_bytes)  # cut the half-written frame; a reader would skip it, too
            raise
        self._n_bytes += len(content)

    def _clear(self) -> None:
        """Remove the oldest files beyond the limits."""
        files = []
        for path in log_files(self._folder):
            try:
                stat = path.stat()
            except OSError:
                continue
            files.append((stat.st_mtime, path, stat.st_size))
        n_bytes, now_s = sum(size for _, _, size in files), time.time()
        for written_s, path, size in sorted(files):
            if n_bytes <= self._settings.keep_mib * _MIB and now_s - written_s <= self._settings.keep_s:
                break
            path.unlink(missing_ok=True)
            n_bytes -= size


KEY_BYTES_MIN, KEY_BYTES_MAX = 16, 64


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How often a decision log is written, how large its files are, and how long they stay.

    owner_key: a secret of 16 to 64 bytes, never written: owners are logged as a keyed hash (BLAKE2b).
    flush_s: seconds between two writes; a killed process loses what came after the last one.
    file_mib, file_s: size and age at which a file is closed and another opened. keep_mib, keep_s:
    the oldest files are removed if all together are larger, or their last write is older.
    epoch_s: Unix time at the clock's 0, for who reads the log; None = unknown.

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
    epoch_s: int | None = None

    def __post_init__(self) -> None:
        key = self.owner_key
        if key is not None and not (isinstance(key, bytes) and KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX):
            got = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__  # never show the key
            raise ValueError(f"owner_key must be {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, got {got}")
        for name in ("flush_s", "file_mib", "file_s", "keep_mib", "keep_s"):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0.0 < value < math.inf:
                raise ValueError(f"{name} must be finite and above 0, got {shown(value)}")
        if self.file_mib > self.keep_mib:
            raise ValueError(f"file_mib must be at most keep_mib {self.keep_mib!r}, got {self.file_mib!r}")
