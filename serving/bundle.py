"""The bundle: a folder of data that crosses from training to serving, each file with its hash.

`model.onnx` the forest; `schema.json` what its inputs and scores mean; `history.npz` the owner history at the
end of the trace, test window included (plain arrays, never pickle); `MANIFEST.json` the sha256 of each.
Loading runs no code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import operator
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving import document_fields
from sojourn.serving.age_features import AgeFeatures
from sojourn.serving.array_archive import read_arrays
from sojourn.serving.document_fields import N_COLUMNS_MAX, N_INTERVALS_MAX, N_SAMPLES_MAX
from sojourn.serving.encoder import Encoder
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.forest import LARGEST
from sojourn.serving.history import HistoryDefinition, HistoryState

FORMAT_VERSION = 1
MANIFEST = "MANIFEST.json"
FILES = ("model.onnx", "schema.json", "history.npz")
KINDS = ("hazard", "uptime", "once")
"""What the raw score is: log-odds of an interval's hazard; log10 remaining at an uptime; log10 total."""
N_BYTES_MAX = {MANIFEST: 1 << 16, "model.onnx": 1 << 27, "schema.json": 1 << 23, "history.npz": 1 << 29}
"""The largest that each file may be."""
_N_DIGITS = 64
_WIDTH_MIN_S = 1e-3
"""Intervals and ages are no shorter, so that no rate overflows."""
_PHASE_MAX_S = 2**53
_N_ATTEMPTS, _PAUSE_S = 20, 0.01
"""How often reading is tried while a publisher replaces the folder, and what is waited in between."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What the model's inputs and scores mean.

    kind: one of KINDS. family: the registry's name. encoder: creation-time features and history definition.
    edges: (J + 1,) s and offsets: (J,) log-odds of a hazard model; grid: sampling uptimes in s.
    tail_s: mean remaining time beyond the last edge. smearing: factor from 10^score to the mean.
    residuals: quantile grid of log10 validation residuals of a point model.
    age_features: what a hazard model sets against the age; empty for others.
    document: the whole of schema.json, with training window, data hash, code version and metrics.
    """

    kind: str
    family: str
    encoder: Encoder
    edges: tuple[float, ...]
    offsets: tuple[float, ...]
    grid: tuple[float, ...]
    tail_s: float
    smearing: float
    residuals: tuple[float, ...]
    age_features: AgeFeatures
    document: Mapping[str, Any]

    @property
    def n_features(self) -> int:
        """How many numbers the forest reads: the encoder's, and those that vary with the age."""
        return len(self.encoder.feature_names()) + len(varying_names(self.kind, self.encoder, self.age_features))

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Schema:
        """Check and convert schema.json's content; BundleError where it is not a schema of this version."""
        try:
            version = document["format_version"]
            if version != FORMAT_VERSION:
                raise BundleError(f"schema.json: format_version must be {FORMAT_VERSION}, got {shown(version)}")
            kind = document["kind"]
            if kind not in KINDS:
                raise BundleError(f"schema.json: kind must be one of {', '.join(KINDS)}, got {shown(kind)}")
            encoder = _encoder(document)
            lists = {name: document_fields.numbers(document.get(name, []), name, most) for name, most in _LISTS.items()}
            age_features = AgeFeatures()
            if kind == "hazard":
                age_features = AgeFeatures.from_document(document, encoder.feature_names())
            schema = cls(kind, document_fields.text(document["family"], "family"), encoder, lists["edges"],
                         lists["offsets"], lists["grid"], document_fields.number(document.get("tail_s", 1.0), "tail_s"),
                         document_fields.number(document.get("smearing", 1.0), "smearing"), lists["residuals"],
                         age_features, document)
            schema._check(list(document["features"]))
        except BundleError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise BundleError(f"schema.json must be complete, got {type(error).__name__}: {error}") from error
        return schema

    def _check(self, features: list[str]) -> None:
        expected = [*self.encoder.feature_names(), *varying_names(self.kind, self.encoder, self.age_features)]
        if features != expected:
            raise BundleError(f"schema.json: features must be those that the encoder gives ({len(expected)}), "
                              f"got {len(features)} others")
        numbers = np.array([*self.edges, *self.offsets, *self.grid, *self.residuals, self.tail_s, self.smearing])
        if not (np.abs(numbers) <= LARGEST).all() or self.tail_s < 1.0 or self.smearing <= 0.0:
            raise BundleError(f"schema.json: numbers must be within {LARGEST:g}, tail_s at least 1, smearing above 0")
        if self.kind == "hazard":
            edges, grid = np.array(self.edges), np.array(self.grid)
            if (len(edges) < 2 or edges[0] != 0.0 or (np.diff(edges) < _WIDTH_MIN_S).any()
                    or len(self.offsets) != len(edges) - 1 or (np.diff(grid) <= 0.0).any()):
                raise BundleError(f"schema.json: edges must rise from 0 by {_WIDTH_MIN_S:g} or more, with one offset "
                                  f"per interval, and grid must rise")
            if len(self.age_features) and len(self.age_features.ages_s) != len(self.offsets):
                raise BundleError(f"schema.json: age_features must name one age per interval ({len(self.offsets)}), "
                                  f"got {len(self.age_features.ages_s)}")
        elif len(self.residuals) < 2 or (np.diff(self.residuals) < 0.0).any():
            raise BundleError("schema.json: residuals must be a rising grid of at least 2 quantiles")


_LISTS = {"edges": N_INTERVALS_MAX + 1, "offsets": N_INTERVALS_MAX, "grid": N_SAMPLES_MAX, "residuals": N_SAMPLES_MAX}


def _encoder(document: Mapping[str, Any]) -> Encoder:
    numbers, names = (document_fields.texts(document[part], part, N_COLUMNS_MAX) for part in ("numbers", "names"))
    n_columns = len(numbers) + len(names)
    if n_columns > N_COLUMNS_MAX:
        raise ValueError(f"numbers and names must have at most {N_COLUMNS_MAX} elements, got {n_columns}")
    phase_s = operator.index(document["phase_s"])
    if abs(phase_s) > _PHASE_MAX_S:
        raise ValueError(f"phase_s must be within {_PHASE_MAX_S}, got {shown(phase_s)}")
    return Encoder(numbers, names, HistoryDefinition.from_dict(document_fields.history_fields(document["history"])),
                   phase_s)


def varying_names(kind: str, encoder: Encoder, age_features: AgeFeatures) -> list[str]:
    """Names of the forest's last features: what varies with the age. kind: one of KINDS."""
    if kind == "hazard":
        return [*age_features.names(encoder.feature_names()), "interval"]
    return ["uptime_s"] if kind == "uptime" else []


@dataclass(frozen=True, slots=True)
class Bundle:
    """A verified bundle in memory. version: the first 12 hex digits of the manifest's sha256."""

    schema: Schema
    model: bytes
    history: HistoryState
    version: str


def load_bundle(folder: str | Path) -> Bundle:
    """Read and verify a bundle folder; one that is replaced meanwhile is read as it was before or is after.

    Raises BundleError naming the file and the reason: missing, wrong hash, wrong version, truncated, malformed.
    """
    contents = _contents(Path(folder))
    schema = Schema.from_document(_json(contents["schema.json"], "schema.json"))
    try:
        history = HistoryState.from_arrays(schema.encoder.history, read_arrays(contents["history.npz"]))
    except Exception as error:  # zipfile and zlib each raise types of their own
        raise BundleError(f"history.npz must hold the schema's history, got {type(error).__name__}: {error}") from error
    return Bundle(schema, contents["model.onnx"], history, version_of(contents[MANIFEST]))


def version_of(manifest: bytes) -> str:
    """The version that a MANIFEST.json stands for: the first 12 hex digits of its sha256."""
    return hashlib.sha256(manifest).hexdigest()[:12]


def _contents(root: Path) -> dict[str, bytes]:
    """The files of one version, as its manifest vouches for them.

    A publisher renames the old folder away, then a new one into its place, and removes the old. The folder is
    opened once, so no rename can mix two versions; where it is gone, or was replaced or written to meanwhile, it is
    read again.
    """
    for _ in range(_N_ATTEMPTS - 1):
        before = _stamp(root)
        try:
            return _verified(root)
        except BundleError:
            if before is not None and before == _stamp(root):
                raise
        time.sleep(_PAUSE_S)
    return _verified(root)


def _stamp(root: Path) -> object:
    """What differs once the folder is another or its manifest says something else; None where there is none."""
    try:
        with _opened(root) as folder:
            found = os.fstat(folder)
            return found.st_dev, found.st_ino, _read(root, folder, MANIFEST)
    except BundleError:
        return None


def _verified(root: Path) -> dict[str, bytes]:
    with _opened(root) as folder:
        contents = {MANIFEST: _read(root, folder, MANIFEST)}
        document = _json(contents[MANIFEST], MANIFEST)
        version, hashes = document.get("format_version"), document.get("sha256")
        if version != FORMAT_VERSION:
            raise BundleError(f"MANIFEST.json: format_version must be {FORMAT_VERSION}, got {shown(version)}")
        if not isinstance(hashes, dict) or sorted(hashes) != sorted(FILES):
            raise BundleError(f"MANIFEST.json: sha256 must name exactly {', '.join(FILES)}")
        for name in FILES:
            expected = hashes[name]
            if not isinstance(expected, str) or len(expected) != _N_DIGITS:
                raise BundleError(f"MANIFEST.json: sha256 of {name} must be {_N_DIGITS} digits, got {shown(expected)}")
            contents[name] = _read(root, folder, name)
            found = hashlib.sha256(contents[name]).hexdigest()
            if found != expected:
                raise BundleError(f"{name}: sha256 must be {expected} (MANIFEST.json), got {found}")
    return contents


@contextlib.contextmanager
def _opened(root: Path) -> Iterator[int]:
    """A descriptor of the folder, so that no rename changes it meanwhile."""
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise _unreadable(root / MANIFEST, error) from error
    try:
        yield folder
    finally:
        os.close(folder)


def _json(content: bytes, name: str) -> dict[str, Any]:
    try:
        document = json.loads(content, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{name} must be JSON, got {error}") from error
    if not isinstance(document, dict):
        raise BundleError(f"{name} must hold a JSON object, got {type(document).__name__}")
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; readers differ in which of two values of one name they take."""
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError(f"an object of {len(pairs)} members, but {len(document)} names")
    return document


def _read(root: Path, folder: int, name: str) -> bytes:
    """A file's content; folder: the descriptor of the opened root. Symbolic links are followed, as mounts use them."""
    limit = N_BYTES_MAX[name]
    try:
        # a pipe would wait for its writer
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BundleError(f"{root / name} must be a readable file of the bundle, got something else")
            if found.st_size > limit:
                raise BundleError(f"{root / name} must be at most {limit} bytes, got {found.st_size}")
            return file.read(found.st_size)
    except OSError as error:
        raise _unreadable(root / name, error) from error


def _unreadable(path: Path, error: OSError | ValueError) -> BundleError:
    reason = error.strerror if isinstance(error, OSError) else error
    return BundleError(f"{path} must be a readable file of the bundle, got {reason}")
