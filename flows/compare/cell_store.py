"""Finished cells on disk: figures as JSON, arrays as .npz, under the hash of all that decided them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sojourn.publishing import whole_file


@dataclass(frozen=True, slots=True)
class CellResult:
    """What one replay left.

    figures: metrics, flat, the same for the same key. times: `elapsed_s` of the loop, `compile_s` and `decision_us`, of
    the run that was kept. about: `description`, `doubts` (lines for people), `n_hosts`, `cores_per_host`, `warmup_s`.
    arrays: `time_s`, `empty_hosts_pct` and `bound_empty_hosts_pct` of the series, the measures' own series, and what
    else the engine recorded.
    """

    figures: dict[str, float]
    times: dict[str, float]
    about: dict[str, Any]
    arrays: dict[str, np.ndarray]


class CellStore:
    """The folder `cells` of a store. Several processes may write at once; nothing half-written is ever read."""

    def __init__(self, store: Path) -> None:
        self._folder = store / "cells"

    def write(self, key: str, result: CellResult) -> None:
        """Keep a result; its JSON comes last and says what is whole."""
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **result.arrays)
        with whole_file(self._folder / f"{key}.npz") as temporary:
            temporary.write_bytes(content.getvalue())
        document = {"key": key, "figures": result.figures, "times": result.times, "about": result.about}
        document["sha256"] = _sha256(document, content.getvalue())
        with whole_file(self._folder / f"{key}.json") as temporary:
            temporary.write_text(json.dumps(document, indent=1) + "\n")

    def read(self, key: str) -> CellResult | None:
        """The result under a key; None where there is none, or what is there is damaged and must be made anew."""
        try:
            document = json.loads((self._folder / f"{key}.json").read_text())
            content = (self._folder / f"{key}.npz").read_bytes()
            if document.pop("sha256") != _sha256(document, content) or document["key"] != key:
                return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return CellResult(document["figures"], document["times"], document["about"], dict(arrays))


def _sha256(document: Mapping[str, Any], arrays: bytes) -> str:
    return hashlib.sha256(json.dumps(document).encode() + arrays).hexdigest()
