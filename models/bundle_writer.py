"""Writes a bundle folder: temporary name, fsync, rename; the same model gives the same bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.models.lifetime import Exported, ExportedRefresh
from sojourn.models.onnx_export import to_onnx
from sojourn.publishing import publish_files
from sojourn.serving.bundle import FORMAT_VERSION, LOOKUP_ARRAYS, MANIFEST, REFRESH_ARRAY, manifest_of, write_arrays
from sojourn.serving.curves import KINDS
from sojourn.serving.inputs import Encoder, HistoryState


def write_bundle(folder: str | Path, family: str, exported: Exported, encoder: Encoder, history: HistoryState,
                 about: Mapping[str, Any], refresh: ExportedRefresh | None = None) -> Path:
    """Write model.onnx, schema.json, history.npz and MANIFEST.json; replaces an older bundle whole.

    Raises ValueError where the folder holds anything else.
    encoder: the training encoder, without a lookup; the bundle's has that of the model.
    about: `training` (window, data hash), `metrics` and what else a reader should know; JSON values only.
    refresh: the model that predicts running requests anew, where there is one.
    """
    target = Path(folder)
    names, kind, lookup = encoder.feature_names(), KINDS[exported.kind], exported.lookup
    served, forest, arrays = exported.encoder(encoder), exported.forest, history.to_arrays()
    table: dict[str, Any] = {}
    if lookup is not None:
        forest = forest.with_feature(len(encoder.numbers))
        key_names = [encoder.history.keys[position].name for position in lookup.keys.positions]
        table = {"lookup": {"keys": key_names, "weights": list(lookup.weights)}}
        held = lookup.keys.to_arrays()
        arrays |= dict(zip(LOOKUP_ARRAYS, (held["places"], held["codes"], lookup.hazards.ravel()), strict=True))
    schema = {
        "format_version": FORMAT_VERSION,
        "kind": exported.kind,
        "family": family,
        "numbers": list(encoder.numbers),
        "names": list(encoder.names),
        "phase_s": encoder.phase_s,
        "history": encoder.history.as_dict(),
        "features": [*served.feature_names(), *kind.varying_names(names, exported.age_features)],
        "units": {"score": kind.score_unit, "uptime": "seconds", "remaining": "mean, whole seconds"},
        **exported.fields,
        **table,
        **about,
    }  # fmt: skip
    if len(exported.age_features):
        schema["age_features"] = exported.age_features.as_dict(names)
    if refresh is not None:
        schema["refresh"] = _refresh_section(refresh, encoder)
        arrays[REFRESH_ARRAY] = np.frombuffer(to_onnx(refresh.exported.forest), np.uint8)
    contents = {
        "model.onnx": to_onnx(forest),
        "schema.json": (json.dumps(schema, indent=1, sort_keys=True, allow_nan=False) + "\n").encode(),
        "history.npz": packed_arrays(arrays),
    }
    contents[MANIFEST] = manifest_of(contents, FORMAT_VERSION)
    publish_files(target, contents, MANIFEST)
    return target


def _refresh_section(refresh: ExportedRefresh, encoder: Encoder) -> dict[str, Any]:
    exported, names = refresh.exported, encoder.feature_names()
    section = {
        "kind": exported.kind, "family": "hazard", "ages_s": list(refresh.ages_s), "gains": refresh.gains,
        "features": [*names, *KINDS[exported.kind].varying_names(names, exported.age_features)], **exported.fields,
    }  # fmt: skip
    if len(exported.age_features):
        section["age_features"] = exported.age_features.as_dict(names)
    return section


def packed_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz file without pickles or clock times, so that equal arrays give equal bytes."""
    stream = io.BytesIO()
    write_arrays(stream, arrays)
    return stream.getvalue()
