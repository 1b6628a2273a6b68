"""Frames of a decision log: what one write appends, and how a file is read that a killed process left half-written.

A frame is 16 bytes (a mark, its type, the length and the CRC-32 of what follows) and compressed content: a JSON object,
then columns of 8-byte numbers whose bytes are laid out by place (all first bytes, then all second ones), which
compress better so. A frame is taken whole or not at all. Data only.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

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
