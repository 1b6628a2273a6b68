"""Writes a bundle folder: temporary name, fsync, rename; the same model gives the same bytes.

The bundle's schema holds a reference of the training rows, so that a monitor can measure later
shifts. `LEARNT_KINDS` has the training side of each kind in `serving.curves.curve_kinds`.
`table_of` is the curve table of a bundle's model, for many encoded rows at once.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, HazardTable, OnceTable, PointTable, hazards_of
from sojourn.models.lifetime import Exported, ExportedRefresh, person_periods
from sojourn.models.measures import AGES_S, KaplanMeier
from sojourn.models.onnx_export import to_onnx
from sojourn.publishing import publish_files
from sojourn.serving.bundle import (
    FORMAT_VERSION,
    HABITS,
    LOOKUP_ARRAYS,
    MANIFEST,
    REFRESH_ARRAY,
    Schema,
    manifest_of,
    write_arrays,
)
from sojourn.serving.curves import KINDS, ModelNumbers
from sojourn.serving.forest import Forest, row_scores, varying_walk
from sojourn.serving.inputs import Encoder, HistoryState


def write_bundle(folder: str | Path, family: str, exported: Exported, encoder: Encoder, history: HistoryState,
                 about: Mapping[str, Any], refresh: ExportedRefresh | None = None) -> Path:
    """Write model.onnx, schema.json, history.npz and MANIFEST.json; replaces a whole older bundle.

    Raises ValueError if the folder holds other files. encoder: of training, without a lookup; the
    bundle's encoder gets that of the model. about: `training` (window, data hash), `metrics` and
    more; JSON values only. refresh: the model that predicts running requests anew, if any.
    """
    target = Path(folder)
    names, kind, lookup = encoder.feature_names(), KINDS[exported.kind], exported.lookup
    served, forest, arrays = exported.encoder(encoder), exported.forest, history.to_arrays()
    table: dict[str, Any] = {}
    if lookup is not None:
        forest = forest.with_feature(len(encoder.numbers))
        key_names = [encoder.history.keys[position].name for position in lookup.keys.positions]
        table = {"lookup": {"keys": key_names, "weights": list(lookup.weights)}}
        keys = lookup.keys.to_arrays()
        arrays |= dict(zip(LOOKUP_ARRAYS, (keys["places"], keys["codes"], lookup.hazards.ravel()), strict=True))
    if exported.habits is not None:
        table["habits"] = dict(exported.habits.fields)
        arrays |= {f"{HABITS}{name}": array for name, array in exported.habits.arrays.items()}
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


N_BINS = 10
SURVIVAL_AGES_S = (60, 300, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 57_600, 86_400, 172_800, 345_600, 604_800,
                   1_209_600, 2_592_000)  # fmt: skip
_LEAST_SHARE = 1e-4
"""The share of an empty bin, so that the index is finite."""


def training_reference(rows: Examples, names: Sequence[str]) -> dict[str, Any]:
    """Deciles of each feature with the share of rows in each bin, and the Kaplan-Meier curve of lifetimes; JSON values.

    names: of the columns of `rows.features`. The last share of a feature is that of missing values.
    Survival is None at ages that no row reached under observation.
    """
    features = {}
    for idx, name in enumerate(names):
        features[name] = feature_reference(rows.features[:, idx])
    km = KaplanMeier.of(rows.lifetime_s, rows.is_event, np.minimum(rows.entry_s, np.nextafter(rows.lifetime_s, 0.0)))
    survival = [None if value != value else round(value, 6)
                for value in km.survival_at(np.array(SURVIVAL_AGES_S, np.float64)).tolist()]
    return {"n": len(rows), "features": features, "lifetime": {"ages_s": [*SURVIVAL_AGES_S], "survival": survival}}


def given_shares(requests: pd.DataFrame, columns: Sequence[str]) -> dict[str, float]:
    """For each column, the share of the requests that have it, 0 to 1; the name `missing` means absent.

    >>> given_shares(pd.DataFrame({"requested_s": [60.0, None], "user": ["missing", "ann"]}), ("requested_s", "user"))
    {'requested_s': 0.5, 'user': 0.5}
    """
    is_given = {name: requests[name].notna() & (requests[name] != "missing") for name in columns}
    return {name: round(float(mask.mean()), 6) if len(mask) else 0.0 for name, mask in is_given.items()}


def feature_reference(values: np.ndarray) -> dict[str, list[float]]:
    """Deciles of a feature, and the share of rows in each bin; the last bin has the missing values.

    values: float64 (n,).

    >>> feature_reference(np.array([1.0, 2.0, np.nan, 2.0]))
    {'edges': [1.2, 1.4, 1.6, 1.8, 2.0], 'shares': [0.25, 0.0, 0.0, 0.0, 0.5, 0.0, 0.25]}
    """
    present = values[~np.isnan(values)]
    edges = np.unique(np.quantile(present, np.arange(1, N_BINS) / N_BINS)) if len(present) else np.empty(0)
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
    """The population stability index of a feature against its training rows: 0 = equal, 0.25 and more = shifted.

    The sum over bins of (p - q) log(p / q), with 1e-4 for an empty bin (Siddiqi, Credit Risk Scorecards, 2006; the
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


@dataclass(frozen=True, slots=True)
class LearntKind:
    """The training side of a kind of score. table: the curves of n rows from raw scores on the
    grid, (n, K), and their encoded features. at_risk: from examples, a number of rows and a
    generator to rows of the examples, and for each a value of the varying feature at which it was
    at risk."""

    table: Callable[[ModelNumbers, np.ndarray, np.ndarray, np.ndarray], CurveTable]
    at_risk: Callable[[Exported, Examples, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]


def _hazard_table(model: ModelNumbers, grid: np.ndarray, scores: np.ndarray, features: np.ndarray) -> HazardTable:
    hazards = hazards_of(scores, np.array(model.offsets))
    if model.lookup is not None:
        hazards = model.lookup.mixed(hazards, features)
    return HazardTable.from_hazards(np.array(model.edges), hazards, model.tail_s, np.array(model.grid))


def _limit_table(model: ModelNumbers, grid: np.ndarray, scores: np.ndarray, features: np.ndarray) -> HazardTable:
    hazards = hazards_of(scores, np.array(model.offsets))
    if model.lookup is not None:
        hazards = model.lookup.mixed(hazards, features)
    return HazardTable.from_limits(np.array(model.edges), np.array(model.shares), hazards,
                                   np.ascontiguousarray(features[:, model.limit_place]), model.tail_s,
                                   np.array(model.grid))


def _uptime_table(model: ModelNumbers, grid: np.ndarray, scores: np.ndarray, features: np.ndarray) -> PointTable:
    return PointTable(grid[:-1], scores, model.smearing, np.array(model.residuals))


def _once_table(model: ModelNumbers, grid: np.ndarray, scores: np.ndarray, features: np.ndarray) -> OnceTable:
    return OnceTable(scores[:, 0], model.smearing, np.array(model.residuals))


def _intervals_at_risk(exported: Exported, examples: Examples, n: int,
                       rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    periods = person_periods(examples, np.array(exported.fields["edges"]))
    at_risk = np.sort(rng.permutation(len(periods.idx))[:n])
    return periods.idx[at_risk], periods.interval[at_risk]


def _any_interval(exported: Exported, examples: Examples, n: int,
                  rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Any interval, since intervals of the share of a limit are short and few requests were at risk in them."""
    n_intervals = len(exported.fields["offsets"])
    return np.arange(len(examples)), rng.integers(0, n_intervals, len(examples))


def _ages_met(exported: Exported, examples: Examples, n: int,
              rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """0 or an absolute age at which each example was alive."""
    ages = np.array([0.0, *AGES_S])
    n_met = (examples.lifetime_s[:, None] > ages).sum(axis=1)  # ages rise, so reached ages come first
    return np.arange(len(examples)), ages[rng.integers(0, np.maximum(n_met, 1))]


def _at_creation(exported: Exported, examples: Examples, n: int,
                 rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(len(examples)), np.zeros(len(examples))


LEARNT_KINDS: Mapping[str, LearntKind] = MappingProxyType({
    "hazard": LearntKind(_hazard_table, _intervals_at_risk),
    "hazard-limit": LearntKind(_limit_table, _any_interval),
    "uptime": LearntKind(_uptime_table, _ages_met),
    "once": LearntKind(_once_table, _at_creation),
})
"""Name in schema.json -> kind, as in `serving.curves.curve_kinds.KINDS`."""


def table_of(schema: Schema, forest: Forest, features: np.ndarray) -> CurveTable:
    """Lifetime curves of encoded rows, float64 (n, number of the encoder's features); see `Encoder.with_row`."""
    grid = schema.curves.grid(schema.numbers, forest)
    return LEARNT_KINDS[schema.kind].table(schema.numbers, grid, raw_scores(schema, forest, features), features)


def raw_scores(schema: Schema, forest: Forest, features: np.ndarray) -> np.ndarray:
    """The forest's scores of such rows at each step of the curve, float64 (n, steps)."""
    kind, model = schema.curves, schema.numbers
    if not kind.is_varying:
        return row_scores(forest)(features)[:, None]
    unread = np.zeros((len(features), len(model.age_features) + 1))
    walk = varying_walk(forest, kind.grid(model, forest), model.age_features)
    return walk.scores(np.column_stack([features, unread]))
