"""One small trace, its feature rows, and a bundle of each kind of score."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np

from sojourn.features.creation import FeatureRows, build_rows, default_encoder
from sojourn.features.synthetic import synthesize
from sojourn.features.trace import Trace
from sojourn.models.bundle_writer import write_bundle
from sojourn.models.lifetime import Exported
from sojourn.models.lifetime.lightgbm_forest import forest_from_text
from sojourn.publishing import publish_folder
from sojourn.serving.forest.age_features import AgeFeatures
from sojourn.serving.inputs.encoder import Encoder
from sojourn.serving.inputs.history import HistoryState

N_REQUESTS = 600
N_INTERVALS = 12


@dataclass(frozen=True)
class Made:
    """A trace, its encoder and rows, the history at its end, and bundle folders by kind."""

    trace: Trace
    encoder: Encoder
    rows: FeatureRows
    history: HistoryState
    folders: Mapping[str, Path]

    def request(self, idx: int) -> dict[str, Any]:
        """The request of feature row `idx`, as a scheduler would send it."""
        row = self.trace.requests.iloc[int(self.rows.idx_request[idx])]
        return {name: row[name] for name in self.encoder.columns()}


def make(root: Path) -> Made:
    """Bundles of each kind in folders under `root`."""
    trace = synthesize(N_REQUESTS, seed=5)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    about = {"training": {"history_to_s": trace.horizon_s}}
    folders = {kind: write_bundle(root / kind, f"made-{kind}", _exported(kind, rows), encoder, history, about)
               for kind in ("hazard", "uptime", "once")}
    return Made(trace, encoder, rows, history, folders)


def publish(source: Path, target: Path) -> None:
    """Put a bundle into a folder as a publisher does: beside it, then by renaming."""
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    shutil.copytree(source, fresh, dirs_exist_ok=True)
    publish_folder(fresh, target, "MANIFEST.json")


def rewrite(folder: Path, name: str, content: bytes) -> None:
    """Put other content into a bundle with a manifest that vouches for it."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "MANIFEST.json").read_bytes())
    manifest["sha256"][name] = hashlib.sha256(content).hexdigest()
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))


def rewrite_schema(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    schema = json.loads((folder / "schema.json").read_bytes())
    change(schema)
    rewrite(folder, "schema.json", json.dumps(schema).encode())


def _exported(kind: str, rows: FeatureRows) -> Exported:
    """A small forest on real rows; what it has learnt does not matter here."""
    rng = np.random.default_rng(1)
    idx = rng.integers(0, len(rows), 3_000)
    log_lifetime = np.log10(np.maximum(rows.lifetime_s[idx], 1))
    varying = {"hazard": rng.integers(0, N_INTERVALS, len(idx)).astype(float),
               "uptime": np.floor(10.0 ** rng.uniform(0.0, 6.0, len(idx))), "once": None}[kind]
    features = rows.features[idx]
    edges = np.concatenate([[0.0], np.floor(np.geomspace(10.0, 1e6, N_INTERVALS)) + 0.5])
    age_features = AgeFeatures.of(rows.names, edges) if kind == "hazard" else AgeFeatures()
    if kind == "hazard":
        assert varying is not None and len(age_features)
        features = age_features.rows(features, varying.astype(np.int64))
        log_lifetime = log_lifetime + 0.2 * np.log1p(varying)
    elif varying is not None:
        features = np.column_stack([features, varying])
        log_lifetime = log_lifetime + 0.2 * np.log1p(varying)
    label = (log_lifetime > 4.0).astype(float) if kind == "hazard" else log_lifetime
    settings = {"objective": "binary" if kind == "hazard" else "regression", "num_leaves": 15, "verbose": -1,
                "num_threads": 1, "seed": 0, "deterministic": True}
    booster = lgb.train(settings, lgb.Dataset(features, label), 12)
    forest = forest_from_text(booster.model_to_string())
    if kind != "hazard":
        return Exported(kind, forest, {"smearing": 1.25, "residuals": np.linspace(-1.0, 1.5, 41).tolist()})
    return Exported(kind, forest, {"edges": edges.tolist(), "offsets": np.linspace(-1.0, 0.5, N_INTERVALS).tolist(),
                                   "tail_s": 5e5, "grid": edges.tolist()}, age_features)
