"""Seeded random forests with everything a node can say, rows that lie on and beside its thresholds, and bundles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sojourn.models import to_onnx
from sojourn.serving import Bundle
from sojourn.serving.bundle import FORMAT_VERSION, Schema
from sojourn.serving.curves import KINDS
from sojourn.serving.forest import LEQ, MEMBER, ZERO, Forest
from sojourn.serving.inputs import LIMIT, HistoryDefinition, HistoryState

SPLITS = (-2.0, -1e-34, 0.0, 1e-34, 0.1, 0.5, 1.0, 3.0, 7.5, np.inf)
NUMBERS = ("a", "b", "c", "d")
"""Zeros of a and b may be missing, b and the hour may have sets, c and d are set against the age."""
N_FEATURES = len(NUMBERS) + 2
N_VARYING = {"hazard": 3, "hazard-limit": 3, "uptime": 1, "once": 0}
EDGES_S = (0.0, 10.5, 60.5, 3_600.5, 40_000.5, 1e6)
AGES_S = (1.0, 30.0, 500.0, 12_000.0, 2e5)
SHARES = (0.5, 1.0, 1.01, 3.0)
"""Of the limit, which is d in bundles of kind hazard-limit."""


def random_forest(rng: np.random.Generator, kind: str, n_trees: int = 4, depth: int = 5) -> Forest:
    """A forest that the kind of score can have; thresholds on the uptime are random, others from SPLITS."""
    n_features = N_FEATURES + N_VARYING[kind]
    nodes: list[list[Any]] = []
    sets: list[list[float]] = []
    leaves: list[float] = []
    roots = []

    def leaf() -> int:
        leaves.append(float(rng.uniform(-2.0, 2.0)))
        return ~(len(leaves) - 1)

    def grow(left: int) -> int:
        node = len(nodes)
        feature = int(rng.integers(n_features))
        is_member = feature in (1, 4) and rng.random() < 0.5
        split = 0.0 if is_member else float(rng.choice(SPLITS))
        if feature >= N_FEATURES and rng.random() < 0.8:
            split = float(10.0 ** rng.uniform(0.0, 6.0)) if kind == "uptime" else float(rng.normal() * 3.0)
        nodes.append([feature, split, MEMBER if is_member else LEQ, 0, 0, not is_member and rng.random() < 0.5])
        sets.append(sorted(rng.choice(5, rng.integers(1, 4), replace=False).tolist()) if is_member else [])
        for side in (3, 4):
            nodes[node][side] = grow(left - 1) if left and rng.random() < 0.8 else leaf()
        return node

    for _ in range(n_trees):
        roots.append(grow(depth - 1))
    columns = list(zip(*nodes, strict=True))
    is_zero_missing = np.zeros(n_features, bool)
    is_zero_missing[:2] = rng.random(2) < 0.5
    return Forest(
        n_features, np.array(roots), np.array(columns[0]), np.array(columns[1], float), np.array(columns[2], np.uint8),
        np.array(columns[3]), np.array(columns[4]), np.array(columns[5], bool), np.array(leaves),
        np.concatenate([[0], np.cumsum([len(members) for members in sets])]).astype(np.int64),
        np.array([value for members in sets for value in members], float), is_zero_missing,
    )  # fmt: skip


def without_sets(forest: Forest) -> Forest:
    """The same trees with thresholds of 0 in place of sets, so that leaf masks can take them."""
    n = len(forest.mode)
    return replace(forest, mode=np.full(n, LEQ, np.uint8), member_start=np.zeros(n + 1, np.int64), members=np.zeros(0))


def comb(splits: list[float], n_features: int = 2, feature: int = 0) -> Forest:
    """One tree that cuts a leaf off at each split, on one feature: value <= split goes to the leaf."""
    n = len(splits)
    return Forest(
        n_features, np.array([0]), np.full(n, feature), np.array(splits, float), np.full(n, LEQ, np.uint8),
        ~np.arange(n), np.array([*range(1, n), ~n]), np.zeros(n, bool), np.arange(n + 1.0), np.zeros(n + 1, np.int64),
        np.zeros(0), np.zeros(n_features, bool),
    )  # fmt: skip


def random_rows(rng: np.random.Generator, forest: Forest, n: int) -> np.ndarray:
    """Rows float64 (n, n_features): thresholds and one ulp beside each, members of sets, zeros, NaN, other values."""
    rows = np.empty((n, forest.n_features))
    for idx in range(forest.n_features):
        splits = forest.splits_on(idx)
        pool = np.concatenate([
            splits, np.nextafter(splits, -np.inf), np.nextafter(splits, np.inf), np.arange(-1.0, 6.0),
            [0.0, -0.0, ZERO, -ZERO, np.nextafter(ZERO, 1.0), 1e-36, 1e300, np.inf, -np.inf, np.nan, np.nan, np.nan],
        ])  # fmt: skip
        rows[:, idx] = np.where(rng.random(n) < 0.7, rng.choice(pool, n), rng.normal(0.0, 3.0, n))
    return rows


def made_bundle(forest: Forest, kind: str, **changes: Any) -> Bundle:
    """A bundle of a random forest; changes: what its schema says otherwise."""
    document = {
        "format_version": FORMAT_VERSION, "kind": kind, "family": f"made-{kind}", "numbers": list(NUMBERS), "names": [],
        "phase_s": 0, "history": {"keys": []}, "edges": list(EDGES_S), "offsets": [-1.0, -0.3, 0.0, 0.2, 0.5],
        "grid": list(EDGES_S), "tail_s": 5e5, "smearing": 1.25,
        "residuals": [-1.0, -0.5, -0.5, 0.0, 0.1, 0.6, 1.5], **changes,
    }  # fmt: skip
    numbers, ages_s = document["numbers"], list(AGES_S)
    if kind == "hazard-limit":
        numbers[3] = LIMIT
        document |= {"shares": list(SHARES), "offsets": [*document["offsets"], -0.5, 0.4, 0.1]}
        ages_s += [2e6, 4e6, 8e6]
    if kind.startswith("hazard"):
        document["age_features"] = {"sources": [[numbers[2], "log10"], [numbers[3], "seconds"]],
                                    "ages_s": ages_s, "log_ages": np.log10(ages_s).tolist()}
    history = HistoryDefinition.from_dict(document["history"]).feature_names()
    draft = Schema.from_document({**document, "kind": "once",
                                  "features": [*document["numbers"], "hour", "weekday", *history]})
    names = draft.encoder.feature_names()
    aged = [f"{names[2]}/age", f"{names[3]}/age"] if kind.startswith("hazard") else []
    document["features"] = [*names, *aged, *KINDS[kind].varying_names(names, draft.numbers.age_features)[-1:]]
    schema = Schema.from_document(document)
    return Bundle(schema, to_onnx(forest), HistoryState(schema.encoder.history), "0123456789ab")
