"""What training rows looked like, kept in the bundle's schema, so that a monitor can say what has moved since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.split import Examples
from sojourn.models.measures import KaplanMeier

N_BINS = 10
SURVIVAL_AGES_S = (60, 300, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 57_600, 86_400, 172_800, 345_600, 604_800,
                   1_209_600, 2_592_000)  # fmt: skip
_LEAST_SHARE = 1e-4
"""An empty bin counts as this share, so that the index is finite."""


def training_reference(rows: Examples, names: Sequence[str]) -> dict[str, Any]:
    """Deciles of each feature with the share of rows in each bin, and the Kaplan-Meier curve of lifetimes; JSON values.

    names: of the columns of `rows.features`. The last share of a feature is that of missing values. Survival is None
    at ages to which no row was followed.
    """
    features = {}
    for idx, name in enumerate(names):
        features[name] = feature_reference(rows.features[:, idx])
    seen = KaplanMeier.of(rows.lifetime_s, rows.is_event, np.minimum(rows.entry_s, np.nextafter(rows.lifetime_s, 0.0)))
    survival = [None if value != value else round(value, 6)
                for value in seen.survival_at(np.array(SURVIVAL_AGES_S, np.float64)).tolist()]
    return {"n": len(rows), "features": features, "lifetime": {"ages_s": [*SURVIVAL_AGES_S], "survival": survival}}


def given_shares(requests: pd.DataFrame, columns: Sequence[str]) -> dict[str, float]:
    """Of each column, the share of the requests that have it, 0 to 1; names that are `missing` are not there.

    >>> given_shares(pd.DataFrame({"requested_s": [60.0, None], "user": ["missing", "ann"]}), ("requested_s", "user"))
    {'requested_s': 0.5, 'user': 0.5}
    """
    is_given = {name: requests[name].notna() & (requests[name] != "missing") for name in columns}
    return {name: round(float(given.mean()), 6) if len(given) else 0.0 for name, given in is_given.items()}


def feature_reference(values: np.ndarray) -> dict[str, list[float]]:
    """Deciles of a feature, and the share of rows in each bin, the last that of missing values. values: float64 (n,).

    >>> feature_reference(np.array([1.0, 2.0, np.nan, 2.0]))
    {'edges': [1.2, 1.4, 1.6, 1.8, 2.0], 'shares': [0.25, 0.0, 0.0, 0.0, 0.5, 0.0, 0.25]}
    """
    known = values[~np.isnan(values)]
    edges = np.unique(np.quantile(known, np.arange(1, N_BINS) / N_BINS)) if len(known) else np.empty(0)
    return {"edges": edges.tolist(), "shares": bin_shares(values, edges).round(6).tolist()}


def bin_shares(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Share of values in each bin, float64 (number of edges + 2,): up to each edge, above the last, missing.

    >>> bin_shares(np.array([1.0, 2.0, 3.0, np.nan]), np.array([1.0, 2.0])).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    is_missing = np.isnan(values)
    counts = np.bincount(np.searchsorted(edges, values[~is_missing], side="left"), minlength=len(edges) + 1)
    return np.append(counts, is_missing.sum()) / max(len(values), 1)


def stability_index(values: np.ndarray, reference: Mapping[str, Any]) -> float:
    """The population stability index of a feature against its training rows: 0 = the same, 0.25 and more = moved.

    The sum over bins of (p - q) log(p / q), an empty bin counted as 1e-4 (Siddiqi, Credit Risk Scorecards, 2006; the
    symmetric Kullback-Leibler divergence). reference: `edges` and `shares` of `training_reference`.

    >>> stability_index(np.array([1.0, 1.0]), {"edges": [1.0], "shares": [1.0, 0.0, 0.0]})
    0.0
    """
    edges, shares = np.array(reference["edges"], np.float64), np.array(reference["shares"], np.float64)
    if len(shares) != len(edges) + 2:
        raise ValueError(f"shares must be {len(edges) + 2}, two more than edges, got {len(shares)}")
    now = np.maximum(bin_shares(values, edges), _LEAST_SHARE)
    then = np.maximum(shares, _LEAST_SHARE)
    return float(((now - then) * np.log(now / then)).sum())
