"""The features that matter to a model (SHAP values by LightGBM's TreeSHAP), as pictures too,
and a bundle's background rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sojourn.features.split import Examples
from sojourn.models.bundle_writer import LEARNT_KINDS
from sojourn.models.lifetime import Exported, LifetimeModel
from sojourn.serving.curves import KINDS
from sojourn.serving.inputs import Encoder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_BACKGROUND = 16
"""Earlier requests in a bundle: 512 coalitions of 9 groups are then 8,192 curves, under a second."""
N_CANDIDATES = 2_000
N_SHAP_ROWS = 1_000
N_LEAF_VISITS = 3_000_000
"""The most rows x leaves of TreeSHAP: about 2 s on one thread. With a forest of 14,000 leaves, 250
rows and 1,000 rows gave the same first seven features, in the same order."""


def n_shap_rows(exported: Exported) -> int:
    """How many rows TreeSHAP can explain within its budget: 1,000, fewer for large forests."""
    return min(N_SHAP_ROWS, max(N_LEAF_VISITS // len(exported.forest.leaves), 1))


def shap_rows(exported: Exported, test: Examples, n: int, seed: int = 0) -> np.ndarray:
    """Up to `n` rows as the forest reads them, float64 (m, n_features), of seeded test examples.

    hazard: with intervals in which the examples were at risk. uptime: with 0 or an absolute age at
    which they were alive.
    """
    rng = np.random.default_rng(seed)
    sample = test.take(np.sort(rng.permutation(len(test))[:n]))
    idx, varying = LEARNT_KINDS[exported.kind].at_risk(exported, sample, n, rng)
    return KINDS[exported.kind].forest_rows(exported.age_features, sample.features[idx], varying)


def mean_abs_shap(text: str, rows: np.ndarray, n_threads: int = 1) -> np.ndarray:
    """Mean |SHAP| per feature, float64 (n_features,), in units of the raw score; higher = larger effect.

    LightGBM's path-dependent TreeSHAP (Lundberg et al., Nature Machine Intelligence 2, 2020).
    text: of the booster. rows: float64 (m, n_features), m >= 1. The same for any number of threads.
    """
    from sojourn.models.lightgbm_library import lgb

    if len(rows) == 0:
        raise ValueError("rows must be at least one, got none")
    values = np.asarray(lgb.Booster(model_str=text).predict(rows, pred_contrib=True, num_threads=n_threads))
    return np.abs(values[:, :-1]).mean(axis=0)  # the last column is the expected value


def background_rows(model: LifetimeModel, past: Examples, encoder: Encoder,
                    n: int = N_BACKGROUND) -> list[list[float | None]]:
    """Encoded features of `n` earlier requests, evenly spread over the model's medians; None for NaN, as in JSON.

    They are the middles of n equal shares of up to 2,000 requests, which are evenly spread over the window. So their
    mean log10 median is close to that of all, and a model always gives the same rows. encoder: of the bundle.
    """
    spread = past.take(_middles(len(past), min(len(past), N_CANDIDATES)))
    order = np.argsort(model.curve_table(spread).quantile(0.5, 0.0), kind="stable")
    rows = encoder.with_row(spread.features, spread.keys)[order[_middles(len(order), min(len(order), n))]]
    return [_as_json(row) for row in rows.tolist()]


def _middles(n: int, n_shares: int) -> np.ndarray:
    return ((np.arange(n_shares) + 0.5) * n / max(n_shares, 1)).astype(np.int64)


def _as_json(row: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in row]


def importance_figure(names: Sequence[str], gains: Sequence[float], family: str) -> Figure:
    """The 20 features with the largest split gain, as shares of the total."""
    from matplotlib.figure import Figure

    total = sum(gains) or 1.0
    largest = sorted(zip(gains, names, strict=True), reverse=True)[:20][::-1]
    figure = Figure(figsize=(7, 5.5), layout="constrained")
    axes = figure.add_subplot()
    axes.barh([name for _, name in largest], [100.0 * gain / total for gain, _ in largest], color="#1b7f79")
    axes.set_xlabel("share of split gain, % (higher = used more)")
    axes.set_title(f"What {family} looks at", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def shap_figure(names: Sequence[str], means: Sequence[float], family: str, n_rows: int, unit: str) -> Figure:
    """The 15 features with the largest mean |SHAP| over a sample of `n_rows` test rows, in units of the score."""
    from matplotlib.figure import Figure

    largest = sorted(zip(means, names, strict=True), reverse=True)[:15][::-1]
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.barh([name for _, name in largest], [mean for mean, _ in largest], color="#1b7f79")
    axes.set_xlabel(f"mean |SHAP|, {unit} (higher = moves answers more)")
    axes.set_title(f"What moves {family}'s answers ({n_rows:,} test rows)", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
