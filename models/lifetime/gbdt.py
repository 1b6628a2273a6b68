"""`gbdt-once` and `gbdt-uptime`: LightGBM on log10 seconds, one-shot (LA) or with uptime augmentation (LAVA).

`gbdt-landmark`: LightGBM on log10 remaining seconds at fixed uptimes, among running requests.

`boost` trains LightGBM for every family: deterministic, with early stopping on the validation
window. `forest_from_text` turns LightGBM's text model into a Forest with the same arithmetic; it
refuses models without an equivalent in ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from threading import Event
from typing import Any, Self

import numpy as np

from sojourn.features.creation import UPTIME_SHARES, augment_landmarks, augment_uptime
from sojourn.features.split import Examples
from sojourn.models.curve_table import CurveTable, OnceTable, PointTable
from sojourn.models.lifetime.contract import TREES, Exported, Family, FitSettings, SearchSpace
from sojourn.models.outcomes import event_weights
from sojourn.serving.curves import N_RESIDUALS
from sojourn.serving.forest import LEQ, MEMBER, NO_AGE_FEATURES, ZERO, AgeFeatures, Forest, varying_walk

N_ROUNDS_MAX = 300
DEFAULTS: Mapping[str, Any] = {
    "num_leaves": 63,
    "learning_rate": 0.08,
    "min_data_in_leaf": 100,
    "feature_fraction": 0.7,
    "lambda_l2": 5.0,
}
MAX_BIN = 63
"""Bins per creation feature: 2.4 times as fast as 255, no worse on real traces; age features have 255."""
PATIENCE = 15
"""A fit stops early after so many rounds without gain on the validation window."""


STOP: ContextVar[Event | None] = ContextVar("STOP", default=None)
"""Of who trains in threads of his own: once it is set, a training in this context ends before its next tree."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one fit: features (n, F), label, weight and init score (n,)."""

    features: np.ndarray
    label: np.ndarray
    weight: np.ndarray | None = None
    init_score: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Boosted:
    """A fitted booster: its text, its forest, the best number of rounds on the validation window,
    the gain of each feature, and the most leaves that so many rounds can have."""

    text: str
    forest: Forest
    n_rounds: int
    gain: np.ndarray
    n_leaves_max: int

    def exported(self, kind: str, fields: dict[str, Any], age_features: AgeFeatures = NO_AGE_FEATURES) -> Exported:
        """The parts for a bundle, with those for the check of the export."""
        return Exported(kind, self.forest, fields, age_features, self.text, n_leaves=self.n_leaves_max)


def boost(objective: str, train: Rows, valid: Rows | None, *, n_varying: int, n_rounds: int = N_ROUNDS_MAX,
          n_threads: int = 2, seed: int = 0, params: Mapping[str, Any] | None = None) -> Boosted:
    """Train up to `n_rounds` trees; with `valid`, stop after PATIENCE rounds without gain and keep the best.

    n_varying: how many of the last features change with the age. The same seed gives the same model for any number of
    threads. InterruptedError if STOP is set meanwhile.
    """
    from sojourn.models.lightgbm_library import lgb

    settings: dict[str, Any] = {
        **DEFAULTS, **(params or {}), "objective": objective, "seed": seed, "num_threads": n_threads,
        "deterministic": True, "verbose": -1, "boost_from_average": True,
    }  # fmt: skip
    # on one thread the same trees a fifth sooner; on more, histograms by row would be sums of parts, one a thread
    settings["force_row_wise" if n_threads == 1 else "force_col_wise"] = True
    n_fixed = train.features.shape[1] - n_varying
    settings["max_bin_by_feature"] = [MAX_BIN] * n_fixed + [255] * n_varying
    settings["min_data_in_leaf"] = min(settings["min_data_in_leaf"], max(len(train.label) // 20, 1))
    n_leaves = int(settings["num_leaves"])
    dataset = lgb.Dataset(train.features, train.label, weight=train.weight, init_score=train.init_score,
                          params=settings).construct()
    callbacks: list[Callable[..., Any]] = [_end_if_stopped]
    sets = []
    if valid is not None:
        sets.append(lgb.Dataset(valid.features, valid.label, weight=valid.weight, init_score=valid.init_score,
                                params=settings, reference=dataset).construct())
        callbacks.append(lgb.early_stopping(PATIENCE, verbose=False))
    del train, valid  # the rows are binned now, and are many times as large as the bins
    booster = lgb.train(settings, dataset, n_rounds, valid_sets=sets, callbacks=callbacks)
    best = booster.best_iteration if sets and booster.best_iteration > 0 else booster.num_trees()
    text: str = booster.model_to_string(num_iteration=best)
    return Boosted(text, forest_from_text(text), best, booster.feature_importance("gain", iteration=best),
                   best * n_leaves)


def _end_if_stopped(_: object) -> None:
    stop = STOP.get()
    if stop is not None and stop.is_set():
        raise InterruptedError("the training was stopped")


N_AUGMENTED_MAX = 400_000
"""The most augmented rows; above, examples are drawn at random."""
Augment = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From lifetimes and entry ages to positions and uptimes, as in `features.creation`."""


class OnceModel:
    """Log10 of the total lifetime, predicted once; an outlived prediction doubles."""

    name = "gbdt-once"
    boosted_: Boosted
    smearing_: float
    residuals_: np.ndarray
    clipped_share_: float
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        self.boosted_ = boost("regression", once_rows(train)[0], once_rows(valid)[0], n_varying=0,
                              n_threads=settings.n_threads, seed=settings.seed, params=settings.params)
        checked, _ = once_rows(valid)
        self.smearing_, self.residuals_ = spread(_scores(self.boosted_, checked.features), checked)
        self.validation_table_ = self.curve_table(valid)
        rows, self.clipped_share_ = once_rows(past)
        self.boosted_ = boost("regression", rows, None, n_varying=0, n_rounds=self.boosted_.n_rounds,
                              n_threads=settings.n_threads, seed=settings.seed, params=settings.params)
        return self

    def curve_table(self, rows: Examples) -> OnceTable:
        return OnceTable(_scores(self.boosted_, rows.features), self.smearing_, self.residuals_)

    def export(self) -> Exported:
        return self.boosted_.exported("once",
                        {"smearing": self.smearing_, "residuals": self.residuals_.tolist()})

    def gains(self) -> np.ndarray:
        return self.boosted_.gain


ONCE = Family(OnceModel, "LightGBM on log10 lifetime; a one-shot prediction, doubled when outlived",
              "through its residuals", place=4, trained="always", is_baseline=True,
              search=SearchSpace(TREES, {name: DEFAULTS[name] for name in TREES}, lambda _: OnceModel()))


class UptimeModel:
    """Log10 of the remaining lifetime at an uptime, trained at shares of each example's own lifetime.

    Shares reveal the label (given uptime u, L is one of u / 0.125, u / 0.25, ...): good at shares,
    poor at absolute ages. This is the paper's method; compare the measures at absolute ages.
    """

    name = "gbdt-uptime"
    boosted_: Boosted
    smearing_: float
    residuals_: np.ndarray
    clipped_share_: float
    validation_table_: CurveTable

    def fit(self, train: Examples, valid: Examples, past: Examples, settings: FitSettings) -> Self:
        checked, _ = self._rows(valid, settings.seed)
        self.boosted_ = boost("regression", self._rows(train, settings.seed)[0], checked, n_varying=1,
                              n_threads=settings.n_threads, seed=settings.seed, params=settings.params)
        self.smearing_, self.residuals_ = spread(_scores(self.boosted_, checked.features), checked)
        self.validation_table_ = self.curve_table(valid)
        rows, self.clipped_share_ = self._rows(past, settings.seed)
        self.boosted_ = boost("regression", rows, None, n_varying=1, n_rounds=self.boosted_.n_rounds,
                              n_threads=settings.n_threads, seed=settings.seed, params=settings.params)
        return self

    def curve_table(self, rows: Examples) -> PointTable:
        forest = self.boosted_.forest
        thresholds = forest.splits_on(forest.n_features - 1)
        scores = varying_walk(forest, np.append(thresholds, np.inf)).scores(
            np.column_stack([rows.features, np.zeros(len(rows))]))
        return PointTable(thresholds, scores, self.smearing_, self.residuals_)

    def export(self) -> Exported:
        return self.boosted_.exported("uptime",
                        {"smearing": self.smearing_, "residuals": self.residuals_.tolist()})

    def gains(self) -> np.ndarray:
        return self.boosted_.gain

    def _rows(self, examples: Examples, seed: int) -> tuple[Rows, float]:
        """Weighted rows with the uptime as last feature; subclasses draw other uptimes."""
        return uptime_rows(examples, augment_uptime, len(UPTIME_SHARES), seed)


UPTIME = Family(UptimeModel, "LightGBM with uptime augmentation (LAVA, section 3)",
                "through its residuals", place=5, trained="by default")


def once_rows(examples: Examples) -> tuple[Rows, float]:
    """Rows at uptime 0 of requests that were observed from their start, weighted for censoring."""
    idx = np.flatnonzero(examples.entry_s <= 0.0)
    return _weighted(examples, idx, np.zeros(len(idx)), examples.features[idx])


def uptime_rows(examples: Examples, augment: Augment, n_each: float, seed: int,
                n_max: int = N_AUGMENTED_MAX) -> tuple[Rows, float]:
    """Rows at the uptimes that `augment` draws, the uptime as last feature, weighted for censoring.

    n_each: rows of one example, so that the drawn examples give at most `n_max` rows. The second
    result is the share of clipped weights.
    """
    sample = np.arange(len(examples))
    if len(examples) * n_each > n_max:
        sample = np.sort(np.random.default_rng(seed).permutation(len(examples))[:int(n_max // n_each)])
    idx, uptime_s = augment(examples.lifetime_s[sample], examples.entry_s[sample])
    idx = sample[idx]
    return _weighted(examples, idx, uptime_s, np.column_stack([examples.features[idx], uptime_s]))


def _weighted(examples: Examples, idx: np.ndarray, uptime_s: np.ndarray, features: np.ndarray) -> tuple[Rows, float]:
    """Rows of examples `idx` at an uptime, labelled with log10 of the remaining time; and the share
    of clipped weights."""
    if not examples.is_event.any():
        raise ValueError("training examples must hold at least one observed end, got censored ones only")
    weight, clipped = event_weights(examples, idx, uptime_s)
    is_kept = weight > 0.0
    if not is_kept.any():
        raise ValueError("training examples must hold at least one observed end of a request seen at an uptime that "
                         f"is asked about, got {int(examples.is_event.sum()):,} ends, all of requests seen later only")
    left_s = np.maximum(examples.lifetime_s[idx] - uptime_s, 1.0)
    return Rows(features if is_kept.all() else features[is_kept], np.log10(left_s[is_kept]), weight[is_kept]), clipped


def _scores(boosted: Boosted, features: np.ndarray) -> np.ndarray:
    from sojourn.models.lightgbm_library import lgb

    booster = lgb.Booster(model_str=boosted.text)
    return np.asarray(booster.predict(features, raw_score=True, num_threads=1))


def spread(scores: np.ndarray, rows: Rows) -> tuple[float, np.ndarray]:
    """Smearing factor and residual quantile grid of validation rows (log10), weighted for censoring."""
    residual = rows.label - scores
    weight = np.ones(len(residual)) if rows.weight is None else rows.weight
    order = np.argsort(residual, kind="stable")
    share = (np.cumsum(weight[order]) - 0.5 * weight[order]) / weight.sum()
    residuals = np.interp(np.linspace(0.0, 1.0, N_RESIDUALS), share, residual[order])
    smearing = float(np.average(10.0 ** np.clip(residual, -6.0, 3.0), weights=weight))
    return smearing, residuals


class LandmarkModel(UptimeModel):
    """As `gbdt-uptime`, but with the same uptimes for all rows, so that an uptime does not reveal the label.

    Every example that runs at a landmark gives a row there. Between two landmarks the answer is
    that of the nearer one, since the trees were trained on no other uptimes.
    """

    name = "gbdt-landmark"

    def _rows(self, examples: Examples, seed: int) -> tuple[Rows, float]:
        n_rows = len(augment_landmarks(examples.lifetime_s, examples.entry_s)[0])
        return uptime_rows(examples, augment_landmarks, max(n_rows / max(len(examples), 1), 1e-9), seed)


LANDMARK = Family(LandmarkModel,
                  "LightGBM at fixed uptimes (0, 1 min, 10 min, 1 h, 6 h, 1 d, ...) among those still alive",
                  "through its residuals", place=5,
                  search=SearchSpace(TREES, {name: DEFAULTS[name] for name in TREES}, lambda _: LandmarkModel()))

_BELOW_ZERO = float(np.nextafter(-ZERO, -np.inf))


class _Builder:
    """Collects nodes and leaves; children are filled in after their parents."""

    def __init__(self) -> None:
        self.roots: list[int] = []
        self.nodes: list[list[float | int]] = []  # feature, split, mode, true, false, nan
        self.members: list[list[float]] = []
        self.leaves: list[float] = []
        self.missing: dict[int, set[bool]] = {}  # feature -> whether its zeros are missing, at its nodes

    def node(self, feature: int, split: float, mode: int, is_nan_true: bool, members: list[float]) -> int:
        self.nodes.append([feature, split, mode, 0, 0, int(is_nan_true)])
        self.members.append(members)
        return len(self.nodes) - 1

    def leaf(self, value: float) -> int:
        self.leaves.append(value)
        return ~(len(self.leaves) - 1)

    def link(self, node: int, on_true: int, on_false: int) -> None:
        self.nodes[node][3:5] = [on_true, on_false]

    def forest(self, n_features: int) -> Forest:
        columns = list(zip(*self.nodes, strict=True))
        as_int = [np.array(columns[idx], np.int64) for idx in (0, 3, 4)]
        sizes = [len(members) for members in self.members]
        return Forest(
            n_features, np.array(self.roots, np.int64), as_int[0], np.array(columns[1], np.float64),
            np.array(columns[2], np.uint8), as_int[1], as_int[2], np.array(columns[5], bool),
            np.array(self.leaves, np.float64), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.array([value for members in self.members for value in members], np.float64),
            np.array([self.missing.get(idx) == {True} for idx in range(n_features)]),
        )  # fmt: skip


def forest_from_text(text: str) -> Forest:
    """Parse `booster.model_to_string()`.

    Raises ValueError for linear trees, averaged forests (rf), several trees per iteration and
    `reg_sqrt`, whose raw score is no plain sum of constant leaves. Native categories must be whole
    numbers in the rows: LightGBM truncates fractions, ONNX does not.
    """
    header, *blocks = text.split("\nTree=")
    fields = dict(line.split("=", 1) for line in header.splitlines() if "=" in line)
    if "average_output" in header.splitlines():
        raise ValueError("boosting must not be rf (averaged output), got average_output")
    if int(fields["num_tree_per_iteration"]) != 1:
        raise ValueError(f"num_tree_per_iteration must be 1, got {fields['num_tree_per_iteration']}")
    if "sqrt" in fields.get("objective", "").split():
        raise ValueError("objective must not be transformed by reg_sqrt, got " + repr(fields["objective"]))
    builder = _Builder()
    for block in blocks:
        tree = dict(line.split("=", 1) for line in block.split("\n\n")[0].splitlines() if "=" in line)
        if tree.get("is_linear", "0") != "0":
            raise ValueError("linear_tree must be off, got a linear tree")
        _add_tree(builder, tree)
    if not builder.roots:
        raise ValueError("a model must have at least one tree, got none")
    return builder.forest(int(fields["max_feature_idx"]) + 1)


def _add_tree(builder: _Builder, tree: dict[str, str]) -> None:
    leaf_values = [float(value) for value in tree["leaf_value"].split()]
    if int(tree["num_leaves"]) == 1:
        root = builder.node(0, 0.0, LEQ, False, [])
        builder.roots.append(root)
        builder.link(root, builder.leaf(leaf_values[0]), builder.leaf(leaf_values[0]))
        return
    features = [int(value) for value in tree["split_feature"].split()]
    splits = [float(value) for value in tree["threshold"].split()]
    decisions = [int(value) for value in tree["decision_type"].split()]
    left = [int(value) for value in tree["left_child"].split()]
    right = [int(value) for value in tree["right_child"].split()]
    sets = _category_sets(tree)
    leaves = [builder.leaf(value) for value in leaf_values]
    builder.roots.append(len(builder.nodes))
    places: dict[int, int] = {}
    pending = [0]
    while pending:  # parents first, so that every walk ends
        idx = pending.pop()
        places[idx] = _add_node(builder, features[idx], splits[idx], decisions[idx], sets)
        pending += [child for child in (right[idx], left[idx]) if child >= 0]
    for idx, node in places.items():
        builder.link(node, *(places[child] if child >= 0 else leaves[~child] for child in (left[idx], right[idx])))


def _add_node(builder: _Builder, feature: int, split: float, decision: int, sets: list[list[float]]) -> int:
    is_default_left, missing = bool(decision & 2), (decision >> 2) & 3
    if decision & 1:  # categorical: NaN and unseen values go right
        return builder.node(feature, 0.0, MEMBER, False, sets[int(split)])
    zero_flags = builder.missing.setdefault(feature, set())
    zero_flags.add(missing == 1)
    if len(zero_flags) > 1:
        raise ValueError(f"zeros of feature {feature} must be missing at all of its nodes or at none")
    # LightGBM reads every value within ZERO as 0, so no threshold may lie inside.
    if -ZERO <= split < ZERO:
        split = _BELOW_ZERO if split < 0.0 else ZERO
    # none: NaN acts as 0; zero and NaN: missing values take the default side
    return builder.node(feature, split, LEQ, is_default_left if missing else split >= 0.0, [])


def _category_sets(tree: dict[str, str]) -> list[list[float]]:
    if tree.get("num_cat", "0") == "0":
        return []
    bounds = [int(value) for value in tree["cat_boundaries"].split()]
    words = [int(value) for value in tree["cat_threshold"].split()]
    return [[float(32 * word + bit) for word in range(high - low) for bit in range(32)
             if words[low + word] >> bit & 1]
            for low, high in pairwise(bounds)]  # fmt: skip
