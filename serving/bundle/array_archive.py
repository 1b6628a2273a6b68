"""Arrays in .npz files, written and read without numpy's loader: no pickle, no code, no more memory than stated.

Strict on purpose: only what is written here is read, plain numbers of one or two axes.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from sojourn.serving.errors import shown

N_BYTES_MAX = 1 << 30
"""Arrays take no more bytes in all."""
N_BYTES_FREE, EXPANSION_MAX = 4 << 20, 20
"""Nor more than N_BYTES_FREE + EXPANSION_MAX x the archive, so that no small file fills memory."""
_N_ENTRIES_MAX = 1_000
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_N_CHUNK = 1 << 18
_ENTRY = b"PK\x01\x02"
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, OSError,
               OverflowError)
"""What zipfile raises of a damaged archive, besides ValueError."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(rb"\{'descr': '([<|][a-z]\d)', 'fortran_order': False, 'shape': \((\d{1,12}), ?(\d?)\), \} *\n")
_DTYPES: dict[bytes, np.dtype[Any]] = {b"<f8": np.dtype("<f8"), b"<i8": np.dtype("<i8"), b"|u1": np.dtype("u1")}


def write_arrays(stream: BinaryIO, arrays: Mapping[str, np.ndarray], *, is_compressed: bool = True) -> None:
    """Write an .npz file without clock times, so that equal arrays give equal bytes."""
    method = zipfile.ZIP_DEFLATED if is_compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name in sorted(arrays):
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(arrays[name]), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EARLIEST), content.getbuffer(), method)


def read_arrays(content: bytes, n_bytes_max: int = N_BYTES_MAX) -> dict[str, np.ndarray]:
    """The arrays of an archive by name, float64, int64 or uint8, read-only; ValueError where it is another.

    Memory follows what is found, and ends one byte after what the archive says, which the limit bounds.
    n_bytes_max: arrays take no more in all.
    """
    limit = min(n_bytes_max, N_BYTES_FREE + EXPANSION_MAX * len(content))
    n_entries = content.count(_ENTRY)  # before zipfile makes an object of each; data may hold the mark by chance
    if n_entries > 2 * _N_ENTRIES_MAX:
        raise ValueError(f"{n_entries} entries, more than {_N_ENTRIES_MAX}")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _arrays(archive, limit)
    except _ZIP_ERRORS as error:
        raise ValueError(f"an archive that cannot be read: {type(error).__name__}: {error}") from error


def _arrays(archive: zipfile.ZipFile, limit: int) -> dict[str, np.ndarray]:
    entries = archive.infolist()
    if len(entries) > _N_ENTRIES_MAX:
        raise ValueError(f"{len(entries)} entries, more than {_N_ENTRIES_MAX}")
    n_bytes = sum(entry.file_size for entry in entries)
    if n_bytes > limit:
        raise ValueError(f"arrays of {n_bytes} bytes, more than {limit}")
    arrays: dict[str, np.ndarray] = {}
    for entry in entries:
        name = entry.filename.removesuffix(".npy")
        if name in arrays:
            raise ValueError(f"array {shown(name)} twice")
        if entry.flag_bits & 1 or entry.compress_type not in _METHODS:
            raise ValueError(f"array {shown(name)}, which is encrypted or compressed otherwise than by deflate")
        arrays[name] = _array(_content(archive, entry, name), name)
    return arrays


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> bytearray:
    """What an entry holds, of the size that the archive says; ValueError once it turns out longer or shorter.

    `ZipFile.read` would inflate an entry whole before it cuts it to that size.
    """
    size = entry.file_size
    entry.file_size = 1 << 62  # the stream would end there: it is to end with its data, or by us one byte too late
    found = bytearray()
    with archive.open(entry) as stream:
        while chunk := stream.read(min(_N_CHUNK, size + 1 - len(found))):
            found += chunk
    if len(found) != size:
        least = "at least " if len(found) > size else ""
        raise ValueError(f"array {shown(name)} of {least}{len(found)} bytes, where the archive says {size}")
    return found


def _array(content: bytearray, name: str) -> np.ndarray:
    start = len(_MAGIC) + 2
    size = int.from_bytes(content[len(_MAGIC):start], "little")
    found = _HEADER.fullmatch(content[start:start + size])
    if not content.startswith(_MAGIC) or found is None or bytes(found[1]) not in _DTYPES:
        raise ValueError(f"array {shown(name)}, which is not of plain numbers (f8, i8, u1) in one or two axes")
    shape = tuple(int(length) for length in found.groups()[1:] if length)
    dtype = _DTYPES[bytes(found[1])]
    if len(content) - start - size != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"array {shown(name)} of shape {shape} in {len(content) - start - size} bytes")
    array = np.frombuffer(content, dtype, offset=start + size).reshape(shape)
    array.flags.writeable = False
    return array
