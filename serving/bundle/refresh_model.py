"""The second model of a bundle, where it has one: what a running request is predicted by anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.serving import document_fields
from sojourn.serving.bundle.schema import Schema
from sojourn.serving.document_fields import N_SAMPLES_MAX
from sojourn.serving.errors import BundleError, shown
from sojourn.serving.inputs import checked_array

REFRESH_ARRAY = "refresh:model"
"""In history.npz: the model's ONNX file, uint8."""
_SHARED = ("format_version", "numbers", "names", "phase_s", "history")
"""What of the bundle's schema holds for both models: how a request is encoded."""
_AGE_MAX_S = 2**40


@dataclass(frozen=True, slots=True)
class RefreshModel:
    """schema: of this model; it encodes a request as the bundle's own does, but for the row of a lookup table.

    model: its ONNX file. ages_s: at which a request is worth predicting anew, whole seconds, rising; the curve counts
    from the first of them on.
    """

    schema: Schema
    model: bytes
    ages_s: tuple[int, ...]

    @classmethod
    def from_document(cls, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> RefreshModel | None:
        """Of schema.json's content and the arrays of history.npz; None where the bundle has none. BundleError where
        it is not what `write_bundle` writes."""
        found = document.get("refresh")
        if found is None:
            return None
        if not isinstance(found, dict):
            raise BundleError(f"schema.json: refresh must be an object, got {shown(found)}")
        try:
            ages_s = _ages(found["ages_s"])
            model = checked_array(arrays, REFRESH_ARRAY, np.uint8)
            if model.ndim != 1:
                raise ValueError(f"{REFRESH_ARRAY} must have one dimension, got {model.ndim}")
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(f"schema.json: refresh must be complete, got {type(error).__name__}: {error}") from error
        own = {name: value for name, value in found.items() if name not in (*_SHARED, "lookup")}
        schema = Schema.from_document({**own, **{name: document[name] for name in _SHARED}})
        return cls(schema, model.tobytes(), ages_s)


def _ages(value: Any) -> tuple[int, ...]:
    ages_s = tuple(document_fields.sequence(value, "ages_s", N_SAMPLES_MAX))
    is_whole = all(type(age_s) is int and 0 < age_s <= _AGE_MAX_S for age_s in ages_s)
    if not ages_s or not is_whole or list(ages_s) != sorted(set(ages_s)):
        raise ValueError(f"ages_s must be whole seconds above 0 that rise, got {shown(list(ages_s))}")
    return ages_s
