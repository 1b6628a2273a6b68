"""Reads the arrays of an .npz file without numpy's loader: no pickle, no code, and no more memory than stated.

Strict on purpose: only what `models.bundle_writer` writes is taken, plain numbers of one or two axes.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from typing import Any

import numpy as np

N_BYTES_MAX = 1 << 30
"""Arrays take no more bytes in all."""
N_BYTES_FREE, EXPANSION_MAX = 4 << 20, 20
"""Nor more than N_BYTES_FREE + EXPANSION_MAX x the archive, so that no small file fills memory."""
_N_ENTRIES_MAX = 1_000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(rb"\{'descr': '([<|][a-z]\d)', 'fortran_order': False, 'shape': \((\d{1,12}), ?(\d?)\), \} *\n")
_DTYPES: dict[bytes, np.dtype[Any]] = {b"<f8": np.dtype("<f8"), b"<i8": np.dtype("<i8"), b"|u1": np.dtype("u1")}


def read_arrays(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of an archive by name, float64, int64 or uint8; ValueError or zipfile's errors where it is another."""
    limit = min(N_BYTES_MAX, N_BYTES_FREE + EXPANSION_MAX * len(content))
    arrays: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        if len(entries) > _N_ENTRIES_MAX:
            raise ValueError(f"{len(entries)} entries, more than {_N_ENTRIES_MAX}")
        n_bytes = sum(entry.file_size for entry in entries)
        if n_bytes > limit:
            raise ValueError(f"arrays of {n_bytes} bytes, more than {limit}")
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"array {name!r} twice")
            if entry.flag_bits & 1 or entry.compress_type not in _METHODS:
                raise ValueError(f"array {name!r}, which is encrypted or compressed otherwise than by deflate")
            found = archive.read(entry)  # file_size bytes at most
            if len(found) != entry.file_size:
                raise ValueError(f"array {name!r} of {len(found)} bytes, where the archive says {entry.file_size}")
            arrays[name] = _array(found, name)
    return arrays


def _array(content: bytes, name: str) -> np.ndarray:
    start = len(_MAGIC) + 2
    size = int.from_bytes(content[len(_MAGIC):start], "little")
    found = _HEADER.fullmatch(content[start:start + size])
    if not content.startswith(_MAGIC) or found is None or found[1] not in _DTYPES:
        raise ValueError(f"array {name!r}, which is not of plain numbers (f8, i8, u1) in one or two axes")
    shape = tuple(int(length) for length in found.groups()[1:] if length)
    dtype = _DTYPES[found[1]]
    if len(content) - start - size != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"array {name!r} of shape {shape} in {len(content) - start - size} bytes")
    return np.frombuffer(content, dtype, offset=start + size).reshape(shape)
