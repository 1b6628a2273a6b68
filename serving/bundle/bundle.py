"""The bundle: a folder of data that crosses from training to serving, each file with its hash.

`model.onnx` the forest; `schema.json` what its inputs and scores mean; `history.npz` the owner history at the
end of the trace, test window included (plain arrays, never pickle); `MANIFEST.json` the sha256 of each.
Loading runs no code.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.serving import document_fields
from sojourn.serving.bundle.array_archive import read_arrays
from sojourn.serving.bundle.folder_files import FolderFiles
from sojourn.serving.checks import folder_path
from sojourn.serving.curves.curve_kind import CurveKind
from sojourn.serving.curves.curve_kinds import KINDS
from sojourn.serving.curves.model_numbers import ModelNumbers
from sojourn.serving.document_fields import N_COLUMNS_MAX, N_INTERVALS_MAX, N_SAMPLES_MAX
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.forest.age_features import AgeFeatures
from sojourn.serving.forest.forest import LARGEST
from sojourn.serving.inputs.encoder import Encoder
from sojourn.serving.inputs.history import HistoryState
from sojourn.serving.inputs.history_definition import HistoryDefinition

FORMAT_VERSION = 1
MANIFEST = "MANIFEST.json"
FILES = ("model.onnx", "schema.json", "history.npz")
N_BYTES_MAX = {MANIFEST: 1 << 16, "model.onnx": 1 << 27, "schema.json": 1 << 23, "history.npz": 1 << 29}
"""The largest that each file may be."""
_N_DIGITS = 64
_PHASE_MAX_S = 2**53
_FILES = FolderFiles("bundle", MANIFEST, BundleError)


@dataclass(frozen=True, slots=True)
class Schema:
    """What the model's inputs and scores mean.

    kind: of `curve_kinds.KINDS`. family: the registry's name. encoder: creation-time features and history definition.
    numbers: what turns raw scores into seconds.
    document: the whole of schema.json, with training window, data hash, code version and metrics.
    """

    kind: str
    family: str
    encoder: Encoder
    numbers: ModelNumbers
    document: Mapping[str, Any]

    @property
    def curves(self) -> CurveKind:
        """What the kind means: how scores become curves."""
        return KINDS[self.kind]

    @property
    def feature_names(self) -> list[str]:
        """Names of the numbers that the forest reads: the encoder's, and those that vary with the age."""
        names = self.encoder.feature_names()
        return [*names, *self.curves.varying_names(names, self.numbers.age_features)]

    @property
    def n_features(self) -> int:
        """How many numbers the forest reads."""
        return len(self.feature_names)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Schema:
        """Check and convert schema.json's content; BundleError where it is not a schema of this version."""
        try:
            version = document["format_version"]
            if version != FORMAT_VERSION:
                raise BundleError(f"schema.json: format_version must be {FORMAT_VERSION}, got {shown(version)}")
            kind = document["kind"]
            if not isinstance(kind, str) or kind not in KINDS:
                raise BundleError(f"schema.json: kind must be one of {', '.join(KINDS)}, got {shown(kind)}")
            encoder = _encoder(document)
            lists = {name: document_fields.numbers(document.get(name, []), name, most) for name, most in _LISTS.items()}
            age_features = AgeFeatures()
            if KINDS[kind].has_age_features:
                age_features = AgeFeatures.from_document(document, encoder.feature_names())
            family = document_fields.text(document["family"], "family")
            tail_s = document_fields.number(document.get("tail_s", 1.0), "tail_s")
            smearing = document_fields.number(document.get("smearing", 1.0), "smearing")
            numbers = ModelNumbers(lists["edges"], lists["offsets"], lists["grid"], tail_s, smearing,
                                   lists["residuals"], age_features)
            schema = cls(kind, family, encoder, numbers, document)
            schema._check(list(document["features"]))
        except BundleError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise BundleError(f"schema.json must be complete, got {type(error).__name__}: {error}") from error
        return schema

    def _check(self, features: list[str]) -> None:
        expected = self.feature_names
        if features != expected:
            raise BundleError(f"schema.json: features must be those that the encoder gives ({len(expected)}), "
                              f"got {len(features)} others")
        own = self.numbers
        numbers = np.array([*own.edges, *own.offsets, *own.grid, *own.residuals, own.tail_s, own.smearing])
        if not (np.abs(numbers) <= LARGEST).all() or own.tail_s < 1.0 or own.smearing <= 0.0:
            raise BundleError(f"schema.json: numbers must be within {LARGEST:g}, tail_s at least 1, smearing above 0")
        self.curves.check(own)


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
    contents = _FILES.whole(folder_path(folder, "folder"), _verified)
    schema = Schema.from_document(_FILES.document(contents["schema.json"], "schema.json"))
    try:
        history = HistoryState.from_arrays(schema.encoder.history, read_arrays(contents["history.npz"]))
    except Exception as error:  # whatever arrays that do not fit make numpy raise
        raise BundleError(f"history.npz must hold the schema's history, got {type(error).__name__}: {error}") from error
    return Bundle(schema, contents["model.onnx"], history, version_of(contents[MANIFEST]))


def check_files(folder: str | Path) -> str:
    """The version of a bundle's folder whose files are those that its manifest vouches for; BundleError if not."""
    return version_of(_FILES.whole(Path(folder), _verified)[MANIFEST])


def version_of(manifest: bytes) -> str:
    """The version that a MANIFEST.json stands for: the first 12 hex digits of its sha256."""
    return hashlib.sha256(manifest).hexdigest()[:12]


def _verified(root: Path) -> dict[str, bytes]:
    """The files of the folder, as its manifest vouches for them."""
    with _FILES.opened(root) as folder:
        contents = {MANIFEST: _FILES.read(root, folder, MANIFEST, N_BYTES_MAX[MANIFEST])}
        document = _FILES.document(contents[MANIFEST], MANIFEST)
        version, hashes = document.get("format_version"), document.get("sha256")
        if version != FORMAT_VERSION:
            raise BundleError(f"MANIFEST.json: format_version must be {FORMAT_VERSION}, got {shown(version)}")
        if not isinstance(hashes, dict) or sorted(hashes) != sorted(FILES):
            raise BundleError(f"MANIFEST.json: sha256 must name exactly {', '.join(FILES)}")
        for name in FILES:
            expected = hashes[name]
            if not isinstance(expected, str) or len(expected) != _N_DIGITS:
                raise BundleError(f"MANIFEST.json: sha256 of {name} must be {_N_DIGITS} digits, got {shown(expected)}")
            contents[name] = _FILES.read(root, folder, name, N_BYTES_MAX[name])
            found = hashlib.sha256(contents[name]).hexdigest()
            if found != expected:
                raise BundleError(f"{name}: sha256 must be {expected} (MANIFEST.json), got {found}")
    return contents
