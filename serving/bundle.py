"""The bundle: a folder of data that crosses from training to serving, each file with its hash.

`model.onnx` the forest; `schema.json` what its inputs and scores mean; `history.npz` the owner history at the
end of the trace, test window included (plain arrays, never pickle); `MANIFEST.json` the sha256 of each.
Loading runs no code.
"""

from __future__ import annotations

import hashlib
import io
import json
import operator
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving.age_features import AgeFeatures
from sojourn.serving.encoder import Encoder
from sojourn.serving.errors import BundleError
from sojourn.serving.forest import LARGEST
from sojourn.serving.history import HistoryDefinition, HistoryState

FORMAT_VERSION = 1
FILES = ("model.onnx", "schema.json", "history.npz")
KINDS = ("hazard", "uptime", "once")
"""What the raw score is: log-odds of an interval's hazard; log10 remaining at an uptime; log10 total."""
_FILE_LIMIT = 1 << 30


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
                raise BundleError(f"schema.json: format_version must be {FORMAT_VERSION}, got {version!r}")
            kind = document["kind"]
            if kind not in KINDS:
                raise BundleError(f"schema.json: kind must be one of {', '.join(KINDS)}, got {kind!r}")
            encoder = Encoder(
                tuple(map(str, document["numbers"])), tuple(map(str, document["names"])),
                HistoryDefinition.from_dict(document["history"]), operator.index(document["phase_s"]),
            )  # fmt: skip
            lists = {name: tuple(map(float, document.get(name, ())))
                     for name in ("edges", "offsets", "grid", "residuals")}
            age_features = AgeFeatures()
            if kind == "hazard":
                age_features = AgeFeatures.from_document(document, encoder.feature_names())
            schema = cls(kind, str(document["family"]), encoder, lists["edges"], lists["offsets"], lists["grid"],
                         float(document.get("tail_s", 1.0)), float(document.get("smearing", 1.0)),
                         lists["residuals"], age_features, document)
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
            if (len(edges) < 2 or edges[0] != 0.0 or (np.diff(edges) <= 0.0).any()
                    or len(self.offsets) != len(edges) - 1 or (np.diff(grid) <= 0.0).any()):
                raise BundleError("schema.json: edges must rise from 0, with one offset per interval")
            if len(self.age_features) and len(self.age_features.ages_s) != len(self.offsets):
                raise BundleError(f"schema.json: age_features must name one age per interval ({len(self.offsets)}), "
                                  f"got {len(self.age_features.ages_s)}")
        elif len(self.residuals) < 2 or (np.diff(self.residuals) < 0.0).any():
            raise BundleError("schema.json: residuals must be a rising grid of at least 2 quantiles")


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
    """Read and verify a bundle folder.

    Raises BundleError naming the file and the reason: missing, wrong hash, wrong version, truncated, malformed.
    """
    root = Path(folder)
    manifest = _read(root, "MANIFEST.json")
    document = _json(manifest, "MANIFEST.json")
    version, hashes = document.get("format_version"), document.get("sha256")
    if version != FORMAT_VERSION:
        raise BundleError(f"MANIFEST.json: format_version must be {FORMAT_VERSION}, got {version!r}")
    if not isinstance(hashes, dict) or sorted(hashes) != sorted(FILES):
        raise BundleError(f"MANIFEST.json: sha256 must name exactly {', '.join(FILES)}")
    contents = {}
    for name in FILES:
        contents[name] = _read(root, name)
        found = hashlib.sha256(contents[name]).hexdigest()
        if found != hashes[name]:
            raise BundleError(f"{name}: sha256 must be {hashes[name]} (MANIFEST.json), got {found}")
    schema = Schema.from_document(_json(contents["schema.json"], "schema.json"))
    try:
        history = HistoryState.from_arrays(schema.encoder.history, _arrays(contents["history.npz"]))
    except Exception as error:  # zipfile, zlib and numpy each raise types of their own
        raise BundleError(f"history.npz must hold the schema's history, got {type(error).__name__}: {error}") from error
    return Bundle(schema, contents["model.onnx"], history, hashlib.sha256(manifest).hexdigest()[:12])


def _json(content: bytes, name: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{name} must be JSON, got {error}") from error
    if not isinstance(document, dict):
        raise BundleError(f"{name} must hold a JSON object, got {type(document).__name__}")
    return document


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, each one no larger than what the archive says and than the limit."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        n_bytes = sum(entry.file_size for entry in archive.infolist())
        if n_bytes > _FILE_LIMIT:
            raise ValueError(f"arrays of {n_bytes} bytes, more than {_FILE_LIMIT}")
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def _read(root: Path, name: str) -> bytes:
    path = root / name
    try:
        if path.stat().st_size > _FILE_LIMIT:
            raise BundleError(f"{path} must be at most {_FILE_LIMIT} bytes, got {path.stat().st_size}")
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path} must be a readable file of the bundle, got {error.strerror}") from error
