"""A bundle of the hazard family, learnt from the earlier part of a small trace as `retrain` learns it."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from sojourn.features import Trace
from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, default_encoder
from sojourn.features.split import Split, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
from sojourn.serving.inputs import HistoryState

_KEPT = tempfile.TemporaryDirectory()
_FEW_LEAVES = {"num_leaves": 15, "learning_rate": 0.3}
"""Of LightGBM: the bundle is learnt in a quarter of the time that its defaults take, and loaded in half of it."""


@dataclass(frozen=True)
class Learnt:
    """A trace, its rows and windows, and the bundle of what was learnt before the test window."""

    trace: Trace
    rows: FeatureRows
    split: Split
    folder: Path


def learn(root: Path) -> Learnt:
    """A bundle in a folder under `root`, of a small synthetic trace.

    A process learns it once; later calls copy its folder. The other fields are shared: they may not be changed."""
    learnt = _learnt()
    return replace(learnt, folder=Path(shutil.copytree(learnt.folder, root / "bundle")))


@cache
def _learnt() -> Learnt:
    return learn_trace(synthesize(2_000, seed=1), Path(_KEPT.name), _FEW_LEAVES)


def learn_trace(trace: Trace, root: Path, params: dict[str, Any] | None = None) -> Learnt:
    """A bundle in a folder under `root`, of any trace. params: of LightGBM, in place of its defaults."""
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    split = split_by_time(rows)
    model = LIFETIME_MODELS["hazard"]().fit(split.train, split.valid, split.past,
                                            FitSettings(backoff_keys(encoder), 1, 0, params, rows.names))
    exported = model.export()
    assert exported is not None
    about = {"training": {"to_s": split.test_from_s, "n_requests": len(split.past), "history_to_s": trace.horizon_s,
                          "start_unix_s": trace.meta["start_unix_s"]}}
    folder = write_bundle(root / "bundle", "hazard", exported, encoder, history, about)
    return Learnt(trace, rows, split, folder)
