"""Writes a bundle folder: temporary name, fsync, rename; the same model gives the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.features.trace import replace_folder
from sojourn.models.lifetime.contract import Exported
from sojourn.models.onnx_export import to_onnx
from sojourn.serving.bundle import FORMAT_VERSION, MANIFEST, varying_names
from sojourn.serving.encoder import Encoder
from sojourn.serving.history import HistoryState

_EARLIEST = (1980, 1, 1, 0, 0, 0)


def write_bundle(folder: str | Path, family: str, exported: Exported, encoder: Encoder, history: HistoryState,
                 about: Mapping[str, Any]) -> Path:
    """Write model.onnx, schema.json, history.npz and MANIFEST.json; replaces an older bundle whole.

    Raises ValueError where the folder holds anything else.
    about: `training` (window, data hash), `metrics` and what else a reader should know; JSON values only.
    """
    target = Path(folder)
    names = encoder.feature_names()
    schema = {
        "format_version": FORMAT_VERSION,
        "kind": exported.kind,
        "family": family,
        "numbers": list(encoder.numbers),
        "names": list(encoder.names),
        "phase_s": encoder.phase_s,
        "history": encoder.history.as_dict(),
        "features": [*names, *varying_names(exported.kind, encoder, exported.age_features)],
        "units": {"score": "log-odds of the hazard over the pooled one" if exported.kind == "hazard"
                  else "log10 seconds", "uptime": "seconds", "remaining": "mean, whole seconds"},
        **exported.fields,
        **about,
    }  # fmt: skip
    if len(exported.age_features):
        schema["age_features"] = exported.age_features.as_dict(names)
    contents = {
        "model.onnx": to_onnx(exported.forest),
        "schema.json": (json.dumps(schema, indent=1, sort_keys=True, allow_nan=False) + "\n").encode(),
        "history.npz": packed_arrays(history.to_arrays()),
    }
    manifest = {
        "format_version": FORMAT_VERSION,
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }
    contents[MANIFEST] = (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()
    publish_files(target, contents)
    return target


def publish_files(target: Path, contents: Mapping[str, bytes]) -> None:
    """Put a bundle's files, by name, into a folder all at once; replaces an older bundle whole.

    Raises ValueError where the folder holds anything else.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for name, content in contents.items():
            (fresh / name).write_bytes(content)
        replace_folder(fresh, target, MANIFEST)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def packed_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An .npz file without pickles or clock times, so that equal arrays give equal bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(arrays):
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(arrays[name]), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EARLIEST), content.getvalue(), zipfile.ZIP_DEFLATED)
    return stream.getvalue()
