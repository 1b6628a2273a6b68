"""The schema of a bundle: the meaning of the model's inputs and scores, checked."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.serving import checks as document_fields
from sojourn.serving.checks import N_COLUMNS_MAX, N_INTERVALS_MAX, N_SAMPLES_MAX
from sojourn.serving.curves import KINDS, CurveKind, LookupTable, ModelNumbers
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.forest import LARGEST, AgeFeatures
from sojourn.serving.inputs import Encoder, HistoryDefinition, Lookup, counts_unix_s

FORMAT_VERSION = 2
"""2: times are Unix seconds if the training trace has dates (1: seconds since its start)."""
LOOKUP_ARRAYS = ("lookup:places", "lookup:codes", "lookup:hazards")
"""In history.npz, of a model with a lookup table: see `Lookup.to_arrays` and `LookupTable`."""
_PHASE_MAX_S = 2**53


@dataclass(frozen=True, slots=True)
class Schema:
    """The meaning of the model's inputs and scores.

    kind: a key of `curve_kinds.KINDS`. family: its name in the registry. encoder: creation-time
    features and history definition. numbers: turn raw scores into seconds. document: all of
    schema.json, with training window, data hash, code version and metrics.
    """

    kind: str
    family: str
    encoder: Encoder
    numbers: ModelNumbers
    document: Mapping[str, Any]

    @property
    def curves(self) -> CurveKind:
        """How scores of this kind become curves."""
        return KINDS[self.kind]

    @property
    def training(self) -> Mapping[str, Any]:
        """The document's part on the training; no answer needs it, so {} if it is no object."""
        training_fields = self.document.get("training")
        return training_fields if isinstance(training_fields, dict) else {}

    @property
    def is_dated(self) -> bool:
        """True if times are Unix seconds; False if the training trace has no dates, but a clock of its own."""
        return counts_unix_s(self.encoder.phase_s, self.training)

    @property
    def feature_names(self) -> list[str]:
        """Names of the forest's inputs: those of the encoder, and those that vary with the age."""
        names = self.encoder.feature_names()
        return [*names, *self.curves.varying_names(names, self.numbers.age_features)]

    @property
    def n_features(self) -> int:
        """How many numbers the forest reads."""
        return len(self.feature_names)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> Schema:
        """Check and convert schema.json's content; BundleError if it is not a schema of this version.

        arrays: of history.npz; a lookup table is read from them.
        """
        try:
            version = document["format_version"]
            if version != FORMAT_VERSION:
                raise BundleError(f"schema.json: format_version must be {FORMAT_VERSION}, got {shown(version)}")
            kind = document["kind"]
            if not isinstance(kind, str) or kind not in KINDS:
                raise BundleError(f"schema.json: kind must be one of {', '.join(KINDS)}, got {shown(kind)}")
            encoder, table = _with_lookup(_encoder(document), document, arrays or {})
            if table is not None and not KINDS[kind].has_lookup:
                raise BundleError(f"schema.json: lookup must be of a hazard model, got one of kind {kind}")
            lists = {name: document_fields.numbers(document.get(name, []), name, most) for name, most in _LISTS.items()}
            age_features = AgeFeatures()
            if KINDS[kind].has_age_features:
                age_features = AgeFeatures.from_document(document, encoder.feature_names())
            family = document_fields.text(document["family"], "family")
            tail_s = document_fields.number(document.get("tail_s", 1.0), "tail_s")
            smearing = document_fields.number(document.get("smearing", 1.0), "smearing")
            numbers = ModelNumbers(lists["edges"], lists["offsets"], lists["grid"], tail_s, smearing,
                                   lists["residuals"], age_features, lists["shares"], encoder.limit_place, table)
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
        ours = self.numbers
        numbers = np.array([*ours.edges, *ours.offsets, *ours.grid, *ours.residuals, *ours.shares, ours.tail_s,
                            ours.smearing])
        if not (np.abs(numbers) <= LARGEST).all() or ours.tail_s < 1.0 or ours.smearing <= 0.0:
            raise BundleError(f"schema.json: numbers must be within {LARGEST:g}, tail_s at least 1, smearing above 0")
        self.curves.check(ours)
        if ours.lookup is not None and len(ours.lookup.weights) != len(ours.offsets):
            raise BundleError(f"schema.json: lookup's weights must be {len(ours.offsets)}, one for each interval, got "
                              f"{len(ours.lookup.weights)}")
_LISTS = {"edges": N_INTERVALS_MAX + 1, "offsets": N_INTERVALS_MAX, "grid": N_SAMPLES_MAX, "residuals": N_SAMPLES_MAX,
          "shares": N_SAMPLES_MAX}


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


def _with_lookup(encoder: Encoder, document: Mapping[str, Any],
                 arrays: Mapping[str, np.ndarray]) -> tuple[Encoder, LookupTable | None]:
    """The encoder and the lookup table; if the schema has no `lookup`, the encoder unchanged and None."""
    fields = document.get("lookup")
    if fields is None:
        return encoder, None
    at = {key.name: position for position, key in enumerate(encoder.history.keys)}
    names = document_fields.texts(fields["keys"], "lookup's keys", N_COLUMNS_MAX)
    strangers = [name for name in names if name not in at]
    if strangers or len({*names}) < len(names):
        raise BundleError(f"schema.json: lookup's keys must be history keys, each once ({', '.join(at)}), got "
                          f"{shown(list(names))}")
    weights = document_fields.numbers(fields["weights"], "lookup's weights", N_INTERVALS_MAX)
    missing = [name for name in LOOKUP_ARRAYS if name not in arrays]
    if missing:
        raise BundleError(f"history.npz must hold {', '.join(LOOKUP_ARRAYS)}, got no {missing[0]}")
    places, codes, hazards = (arrays[name] for name in LOOKUP_ARRAYS)
    try:
        lookup = Lookup.from_arrays(tuple(at[name] for name in names), places, codes)
    except ValueError as error:
        raise BundleError(f"history.npz: lookup {error}") from error
    return replace(encoder, lookup=lookup), LookupTable.of(hazards, lookup.n_rows, weights, len(encoder.numbers))
