"""The bundle: a folder of data that crosses from training to serving, each file with its hash.

`model.onnx`: the forest. `schema.json`: the meaning of its inputs and scores. `history.npz`: plain
arrays (never pickle) of the owner history at the end of the trace, test window included, and, if
the model has them, its lookup table and the model that predicts running requests anew.
`MANIFEST.json`: the sha256 of each. Loading runs no code.

A publisher may replace the folder meanwhile: all files that are read are of one version, and each
has a bounded size. Names, sizes and hashes are checked before a file is used.

Arrays in .npz files are written and read without numpy's loader: no pickle, no code, a bound on memory.

Only the form that is written here is read: plain numbers in one or two axes.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import io
import itertools
import json
import math
import os
import re
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from sojourn.serving import checks as document_fields
from sojourn.serving.bundle.schema import FORMAT_VERSION, Schema
from sojourn.serving.checks import N_SAMPLES_MAX, folder_path
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.inputs import HistoryState, checked_array

_Read = TypeVar("_Read")
_MARK_MAX = 1 << 16
_N_ATTEMPTS, _PAUSE_S = 20, 0.01
"""How often a read is tried while a publisher replaces the folder, and the pause between two tries."""
_PATIENCE_S = 5.0
"""How long it is tried if a publisher has moved the old folder away: a busy machine may pause it there."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """How folders of one kind are read. noun: their name in errors; mark: the file with the hashes of the others.

    error: raised if a file is missing, no regular file, too large or not JSON.
    """

    noun: str
    mark: str
    error: type[ValueError]

    def whole(self, root: Path, read: Callable[[Path], _Read]) -> _Read:
        """The result of `read`; it is tried again if it fails and the folder was replaced or changed meanwhile.

        A publisher renames the old folder away, then a new one into its place, and removes the old.
        `read` opens the folder once, so no rename can mix two versions; if it is gone, this waits
        for it.
        """
        ends_s = time.monotonic() + _PATIENCE_S
        for n_attempts in itertools.count(1):
            before = self._stamp(root)
            try:
                return read(root)
            except self.error:
                if before is not None and before == self._stamp(root):
                    raise
                if n_attempts >= _N_ATTEMPTS and not (time.monotonic() < ends_s and _is_moved_aside(root)):
                    raise
            time.sleep(_PAUSE_S)
        raise AssertionError("counting does not end")

    @contextlib.contextmanager
    def opened(self, root: Path) -> Iterator[int]:
        """A descriptor of the folder, so that no rename changes it meanwhile."""
        try:
            folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL
            raise self._unreadable(root / self.mark, error) from error
        try:
            yield folder
        finally:
            os.close(folder)

    def read(self, root: Path, folder: int, name: str, limit: int) -> bytes:
        """A file's content; folder: the descriptor of the opened root. Links are followed, since mounts use them."""
        try:
            # without O_NONBLOCK, a pipe would wait for its writer
            with os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise self.error(f"{root / name} must be a readable file of the {self.noun}, got something else")
                if status.st_size > limit:
                    raise self.error(f"{root / name} must be at most {limit} bytes, got {status.st_size}")
                return file.read(status.st_size)
        except OSError as error:
            raise self._unreadable(root / name, error) from error

    def document(self, content: bytes, name: str) -> dict[str, Any]:
        """The JSON object in a file."""
        try:
            document = json.loads(content, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            raise self.error(f"{name} must be JSON, got {error}") from error
        if not isinstance(document, dict):
            raise self.error(f"{name} must hold a JSON object, got {type(document).__name__}")
        return document

    def _stamp(self, root: Path) -> object:
        """A value that changes if the folder is replaced or its mark changes; None if there is no mark."""
        try:
            with self.opened(root) as folder:
                status = os.fstat(folder)
                return status.st_dev, status.st_ino, self.read(root, folder, self.mark, _MARK_MAX)
        except self.error:
            return None

    def _unreadable(self, path: Path, error: OSError | ValueError) -> ValueError:
        reason = error.strerror if isinstance(error, OSError) else error
        return self.error(f"{path} must be a readable file of the {self.noun}, got {reason}")


def _is_moved_aside(root: Path) -> bool:
    """True if a publisher that cannot exchange folders is between its two renames, or was killed there."""
    try:
        return not root.exists() and any(root.parent.glob(f".{glob.escape(root.name)}.old.*"))
    except (OSError, ValueError):
        return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a name must be unique, since readers differ in which of two values they take."""
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError(f"an object of {len(pairs)} members, but {len(document)} names")
    return document


MANIFEST = "MANIFEST.json"
MANIFEST_N_BYTES_MAX = 1 << 16
_N_DIGITS = 64


@dataclass(frozen=True, slots=True)
class VouchedFiles:
    """How folders of one kind with a manifest are read. noun: their name in errors.

    format_version: the only one that is read. n_bytes_max: for each file beside the manifest, by
    name, the largest size.
    """

    noun: str
    format_version: int
    n_bytes_max: Mapping[str, int]

    def read(self, folder: Path) -> dict[str, bytes]:
        """The files by name, MANIFEST.json included; all of one version even if the folder is replaced meanwhile.

        Raises BundleError naming the file and the reason: missing, too large, wrong hash, wrong version, malformed.
        """
        return self._files.whole(folder, self._verified)

    def version(self, folder: Path) -> str:
        """The version of a folder; BundleError if its files do not match its manifest."""
        return version_of(self.read(folder)[MANIFEST])

    def document(self, content: bytes, name: str) -> dict[str, Any]:
        """The JSON object in a file."""
        return self._files.document(content, name)

    @property
    def _files(self) -> FolderFiles:
        return FolderFiles(self.noun, MANIFEST, BundleError)

    def _verified(self, root: Path) -> dict[str, bytes]:
        files, names = self._files, list(self.n_bytes_max)
        with files.opened(root) as folder:
            contents = {MANIFEST: files.read(root, folder, MANIFEST, MANIFEST_N_BYTES_MAX)}
            document = files.document(contents[MANIFEST], MANIFEST)
            version, hashes = document.get("format_version"), document.get("sha256")
            if version != self.format_version:
                raise BundleError(f"{MANIFEST}: format_version must be {self.format_version}, got {shown(version)}; "
                                  f"make the {self.noun} anew")
            if not isinstance(hashes, dict) or sorted(hashes) != sorted(names):
                raise BundleError(f"{MANIFEST}: sha256 must name exactly {', '.join(names)}")
            for name in names:
                expected = hashes[name]
                if not isinstance(expected, str) or len(expected) != _N_DIGITS:
                    raise BundleError(f"{MANIFEST}: sha256 of {name} must be {_N_DIGITS} digits, got {shown(expected)}")
                contents[name] = files.read(root, folder, name, self.n_bytes_max[name])
                digest = hashlib.sha256(contents[name]).hexdigest()
                if digest != expected:
                    raise BundleError(f"{name}: sha256 must be {expected} ({MANIFEST}), got {digest}")
        return contents


def manifest_of(contents: Mapping[str, bytes], format_version: int) -> bytes:
    """The MANIFEST.json with the hashes of these files, by name."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return (json.dumps({"format_version": format_version, "sha256": hashes}, indent=1, sort_keys=True) + "\n").encode()


def version_of(manifest: bytes) -> str:
    """The version of a MANIFEST.json: the first 12 hex digits of its sha256."""
    return hashlib.sha256(manifest).hexdigest()[:12]


N_ARRAY_BYTES_MAX = 1 << 30
"""The most bytes of all arrays together."""
N_BYTES_FREE, EXPANSION_MAX = 4 << 20, 20
"""And at most N_BYTES_FREE + EXPANSION_MAX x the archive, so that no small file fills memory."""
_N_ENTRIES_MAX = 1_000
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_N_CHUNK = 1 << 18
_ENTRY = b"PK\x01\x02"
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, OSError,
               OverflowError)
"""Errors of zipfile for a damaged archive, besides ValueError."""
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


def read_arrays(content: bytes, n_bytes_max: int = N_ARRAY_BYTES_MAX) -> dict[str, np.ndarray]:
    """The arrays of an archive by name, float64, int64 or uint8, read-only; ValueError for any other archive.

    Reading stops one byte after the size that the archive states; n_bytes_max bounds the sum of
    these sizes.
    """
    limit = min(n_bytes_max, N_BYTES_FREE + EXPANSION_MAX * len(content))
    n_entries = content.count(_ENTRY)  # before zipfile creates an object for each; data may hold the mark by chance
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
    """The data of an entry; ValueError as soon as its size differs from the size that the archive states.

    `ZipFile.read` would inflate an entry whole before it cuts it to that size.
    """
    size = entry.file_size
    entry.file_size = 1 << 62  # so that the stream does not stop at the stated size
    data = bytearray()
    with archive.open(entry) as stream:
        while chunk := stream.read(min(_N_CHUNK, size + 1 - len(data))):
            data += chunk
    if len(data) != size:
        least = "at least " if len(data) > size else ""
        raise ValueError(f"array {shown(name)} of {least}{len(data)} bytes, where the archive says {size}")
    return data


def _array(content: bytearray, name: str) -> np.ndarray:
    start = len(_MAGIC) + 2
    size = int.from_bytes(content[len(_MAGIC):start], "little")
    header = _HEADER.fullmatch(content[start:start + size])
    if not content.startswith(_MAGIC) or header is None or bytes(header[1]) not in _DTYPES:
        raise ValueError(f"array {shown(name)}, which is not of plain numbers (f8, i8, u1) in one or two axes")
    shape = tuple(int(length) for length in header.groups()[1:] if length)
    dtype = _DTYPES[bytes(header[1])]
    if len(content) - start - size != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"array {shown(name)} of shape {shape} in {len(content) - start - size} bytes")
    array = np.frombuffer(content, dtype, offset=start + size).reshape(shape)
    array.flags.writeable = False
    return array


REFRESH_ARRAY = "refresh:model"
"""In history.npz: the model's ONNX file, uint8."""
_SHARED = ("format_version", "numbers", "names", "phase_s", "history")
"""Fields of the bundle's schema that both models share: how a request is encoded."""
_AGE_MAX_S = 2**40


@dataclass(frozen=True, slots=True)
class RefreshModel:
    """The second model of a bundle: it predicts running requests anew.

    schema: encodes a request as the bundle's schema, without the row of a lookup table. model: its
    ONNX file. ages_s: ages at which a new prediction helps, whole seconds, rising; the curve is
    valid from the first of them on.
    """

    schema: Schema
    model: bytes
    ages_s: tuple[int, ...]

    @classmethod
    def from_document(cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> RefreshModel | None:
        """From schema.json and the arrays of history.npz; None if the bundle has none; BundleError if malformed."""
        fields = document.get("refresh")
        if fields is None:
            return None
        if not isinstance(fields, dict):
            raise BundleError(f"schema.json: refresh must be an object, got {shown(fields)}")
        try:
            ages_s = _ages(fields["ages_s"])
            model = checked_array(arrays, REFRESH_ARRAY, np.uint8)
            if model.ndim != 1:
                raise ValueError(f"{REFRESH_ARRAY} must have one dimension, got {model.ndim}")
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(f"schema.json: refresh must be complete, got {type(error).__name__}: {error}") from error
        kept_fields = {name: value for name, value in fields.items() if name not in (*_SHARED, "lookup")}
        schema = Schema.from_document({**kept_fields, **{name: document[name] for name in _SHARED}})
        return cls(schema, model.tobytes(), ages_s)


def _ages(value: Any) -> tuple[int, ...]:
    ages_s = tuple(document_fields.sequence(value, "ages_s", N_SAMPLES_MAX))
    is_whole = all(type(age_s) is int and 0 < age_s <= _AGE_MAX_S for age_s in ages_s)
    if not ages_s or not is_whole or list(ages_s) != sorted(set(ages_s)):
        raise ValueError(f"ages_s must be whole seconds above 0 that rise, got {shown(list(ages_s))}")
    return ages_s


N_BYTES_MAX = {"model.onnx": 1 << 27, "schema.json": 1 << 23, "history.npz": 1 << 29}
"""The files beside the manifest, and the largest size of each."""
FILES = tuple(N_BYTES_MAX)
_FILES = VouchedFiles("bundle", FORMAT_VERSION, N_BYTES_MAX)


HABITS = "habits:"
"""In history.npz: prefix of the arrays of owners' habits; see `serving.live.LiveHabits`."""


@dataclass(frozen=True, slots=True)
class HabitSection:
    """The habits of owners at the end of the trace, which the curves of a model are mixed with: fields of
    schema.json, and arrays. `serving.live.LiveHabits` checks them."""

    fields: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]

    @classmethod
    def from_document(cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> HabitSection | None:
        """From schema.json and the arrays of history.npz; None if the bundle has none; BundleError if malformed."""
        fields = document.get("habits")
        if fields is None:
            return None
        if not isinstance(fields, dict):
            raise BundleError(f"schema.json: habits must be an object, got {shown(fields)}")
        return cls(fields, {name.removeprefix(HABITS): array for name, array in arrays.items()
                            if name.startswith(HABITS)})


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle in memory. version: the first 12 hex digits of the manifest's sha256.

    refresh: the model that predicts running requests anew; None if it would not help. habits: of
    owners, which change the curves of requests; None if the model has none. recalibrates: whether its
    curves were judged recalibrated online, and are served so.
    """

    schema: Schema
    model: bytes
    history: HistoryState
    version: str
    refresh: RefreshModel | None = None
    habits: HabitSection | None = None
    recalibrates: bool = False


def example_bundle() -> Path:
    """The folder of a small model that is installed with Sojourn, to try `Predictor` before anything is trained.

    Learnt from 10,000 requests of the synthetic trace; they describe no real cluster. Its columns: subscription
    (`s0` and on), deployment, vm_category, zone, cpu_cores, mem_gib, disk_gib.
    """
    return Path(__file__).parents[1] / "example"


def load_bundle(folder: str | Path) -> Bundle:
    """Read and verify a bundle folder; if it is replaced meanwhile, the result is the old or the new bundle.

    Raises BundleError naming the file and the reason: missing, wrong hash, wrong version, truncated, malformed.
    """
    contents = _FILES.read(folder_path(folder, "folder"))
    document = _FILES.document(contents["schema.json"], "schema.json")
    try:
        arrays = read_arrays(contents["history.npz"])
    except ValueError as error:
        raise BundleError(f"history.npz must hold the schema's history, got ValueError: {error}") from error
    schema = Schema.from_document(document, arrays)
    try:
        history = HistoryState.from_arrays(schema.encoder.history, arrays)
    except Exception as error:  # numpy may raise anything for arrays that do not fit
        raise BundleError(f"history.npz must hold the schema's history, got {type(error).__name__}: {error}") from error
    recalibrates = document.get("recalibrate", False)
    if type(recalibrates) is not bool:
        raise BundleError(f"schema.json: recalibrate must be true or false, got {shown(recalibrates)}")
    return Bundle(schema, contents["model.onnx"], history, version_of(contents[MANIFEST]),
                  RefreshModel.from_document(document, arrays), HabitSection.from_document(document, arrays),
                  recalibrates)


def check_files(folder: str | Path) -> str:
    """The version of a bundle's folder; BundleError if its files do not match its manifest."""
    return _FILES.version(Path(folder))
