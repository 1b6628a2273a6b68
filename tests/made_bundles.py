"""One small trace, its feature rows, and a bundle of each kind of score."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np

from sojourn.features import Trace
from sojourn.features.creation import FeatureRows, build_rows, default_encoder
from sojourn.features.synthetic import synthesize
from sojourn.models import write_bundle
from sojourn.models.lifetime import Exported, ExportedRefresh
from sojourn.models.lifetime.gbdt import forest_from_text
from sojourn.publishing import publish_folder
from sojourn.serving.forest import AgeFeatures
from sojourn.serving.inputs import LIMIT, Encoder, HistoryState

N_REQUESTS = 600
N_INTERVALS = 12
SHARES = (0.5, 0.9, 1.0, 1.01, 1.1, 4.0)
_KEPT = tempfile.TemporaryDirectory()


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


def make(root: Path, has_limits: bool = True, is_dated: bool = False) -> Made:
    """Bundles of each kind in folders under `root`. has_limits: requests state one; else no bundle reads any.

    A process trains them once; later calls copy the folders. The other fields are shared: they may not be changed."""
    made = _made(has_limits, is_dated)
    return replace(made, folders={kind: Path(shutil.copytree(folder, root / kind))
                                  for kind, folder in made.folders.items()})


@cache
def _made(has_limits: bool, is_dated: bool) -> Made:
    root = Path(_KEPT.name, f"{has_limits}-{is_dated}")
    trace = synthesize(N_REQUESTS, seed=5) if is_dated else synthesize(N_REQUESTS, seed=5).since_begin()
    if has_limits:
        trace = _with_limits(trace)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    dates = {"start_unix_s": trace.begin_s} if is_dated else {}
    about = {"training": {"history_to_s": trace.horizon_s, **dates}}
    folders = {kind: write_bundle(root / kind, f"made-{kind}", _exported(kind, rows), encoder, history, about)
               for kind in ("hazard", *(("hazard-limit",) if has_limits else ()), "uptime", "once")}
    return Made(trace, encoder, rows, history, folders)


def refreshing(made: Made, folder: Path, ages_s: tuple[int, ...] = (600, 3_600), kind: str = "hazard") -> Path:
    """A bundle of this kind that also has a model for running requests: of the same forest, shrunk by one tree."""
    own, about = _exported(kind, made.rows), {"training": {"history_to_s": made.trace.horizon_s}}
    refresh = ExportedRefresh(_exported("hazard", made.rows, n_trees=11), ages_s, [])
    return write_bundle(folder, f"made-{kind}", own, made.encoder, made.history, about, refresh)


def publish(source: Path, target: Path) -> None:
    """Put a bundle into a folder as a publisher does: beside it, then by renaming."""
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    shutil.copytree(source, fresh, dirs_exist_ok=True)
    publish_folder(fresh, target, "MANIFEST.json")


def rewrite(folder: Path, name: str, content: bytes) -> None:
    """Put other content into a bundle with a manifest that vouches for it."""
    (folder / name).unlink(missing_ok=True)  # a file that is cut and written again waits for the disk
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "MANIFEST.json").read_bytes())
    manifest["sha256"][name] = hashlib.sha256(content).hexdigest()
    (folder / "MANIFEST.json").unlink()
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))


def rewrite_schema(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    schema = json.loads((folder / "schema.json").read_bytes())
    change(schema)
    rewrite(folder, "schema.json", json.dumps(schema).encode())


def _with_limits(trace: Trace) -> Trace:
    """The trace with a limit stated by each request: five of hours to days, and one too short to be read as one."""
    limits_s = np.array([20.0, 600.0, 3_600.0, 7_200.0, 43_200.0, 864_000.0])
    requests = trace.requests.assign(requested_s=np.random.default_rng(2).choice(limits_s, len(trace.requests)))
    return replace(trace, requests=requests, roles=replace(trace.roles, numbers=(*trace.roles.numbers, LIMIT)))


def _exported(kind: str, rows: FeatureRows, n_trees: int = 12) -> Exported:
    """A small forest on real rows; what it has learnt does not matter here."""
    rng = np.random.default_rng(1)
    idx = rng.integers(0, len(rows), 3_000)
    log_lifetime = np.log10(np.maximum(rows.lifetime_s[idx], 1))
    shares = SHARES if kind == "hazard-limit" else ()
    n_intervals = N_INTERVALS + max(len(shares) - 1, 0)
    is_hazard = kind.startswith("hazard")
    varying = (rng.integers(0, n_intervals, len(idx)).astype(float) if is_hazard
               else np.floor(10.0 ** rng.uniform(0.0, 6.0, len(idx))) if kind == "uptime" else None)
    features = rows.features[idx]
    edges = np.concatenate([[0.0], np.floor(np.geomspace(10.0, 1e6, N_INTERVALS)) + 0.5])
    ages_s = np.append(edges, 1e6 * 2.0 ** np.arange(1, n_intervals - N_INTERVALS + 1))
    age_features = AgeFeatures.of(rows.names, ages_s) if is_hazard else AgeFeatures()
    if is_hazard:
        assert varying is not None and len(age_features)
        features = age_features.rows(features, varying.astype(np.int64))
        log_lifetime = log_lifetime + 0.2 * np.log1p(varying)
    elif varying is not None:
        features = np.column_stack([features, varying])
        log_lifetime = log_lifetime + 0.2 * np.log1p(varying)
    label = (log_lifetime > 4.0).astype(float) if is_hazard else log_lifetime
    settings = {"objective": "binary" if is_hazard else "regression", "num_leaves": 15, "verbose": -1,
                "num_threads": 1, "seed": 0, "deterministic": True}
    booster = lgb.train(settings, lgb.Dataset(features, label), n_trees)
    forest = forest_from_text(booster.model_to_string())
    if not is_hazard:
        return Exported(kind, forest, {"smearing": 1.25, "residuals": np.linspace(-1.0, 1.5, 41).tolist()})
    fields = {"edges": edges.tolist(), "offsets": np.linspace(-1.0, 0.5, n_intervals).tolist(), "tail_s": 5e5,
              "grid": edges.tolist()}
    return Exported(kind, forest, {**fields, "shares": list(shares)} if shares else fields, age_features)
