"""A forest as bit masks: a few hundred ANDs give a row's leaves, without branches that depend on the row.

For each feature, each bin of its values (between two neighbouring thresholds) and each tree there
is a word; its bit i is set if leaf i of the tree, counted from the left, can still be reached. The
AND over all features leaves one bit per tree. After QuickScorer (Lucchese et al., SIGIR 2015), but
with a search of the bin instead of a walk over thresholds.

`AgeFeatures` are creation features relative to the age: how much longer a request runs than its
owner's earlier ones. Trees on the interval alone would need a split for each owner's habit. Only
hazard models have them, one value per interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sojourn.serving import checks as document_fields
from sojourn.serving.checks import N_COLUMNS_MAX, N_INTERVALS_MAX
from sojourn.serving.forest.forest import LARGEST, MEMBER, Forest

_AGE_MIN_S = 1e-3


class AgeScales(NamedTuple):
    """`AgeFeatures` as arrays, for compiled code.

    sources: int64 (m,). is_log: bool (m,). ages_s: float64 (K,), s. log_ages: float64 (K,), log10 s.
    """

    sources: np.ndarray
    is_log: np.ndarray
    ages_s: np.ndarray
    log_ages: np.ndarray


@dataclass(frozen=True, slots=True)
class AgeFeatures:
    """Features relative to ages.

    sources: positions in the encoder's order. is_log: per source, True = log10 seconds, and the
    value is `source - log10(age)`; False = seconds, and it is `source / age`. ages_s: float64 (K,),
    rising, above 0, one per interval; log_ages: their log10 in training.
    """

    sources: tuple[int, ...] = ()
    is_log: tuple[bool, ...] = ()
    ages_s: tuple[float, ...] = ()
    log_ages: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def of(cls, names: Sequence[str], edges: np.ndarray) -> AgeFeatures:
        """For a list of features: the requested time, mean and last of each owner key, at the intervals' middles.

        >>> chosen = AgeFeatures.of(("cpu_cores", "user:mean", "user:last", "zone:mean"), np.array([0.0, 10.0, 1000.0]))
        >>> chosen.sources, chosen.is_log, [round(age_s, 3) for age_s in chosen.ages_s]
        ((1, 2), (True, True), [3.162, 100.0])
        """
        owners = {name.removesuffix(":last") for name in names if name.endswith(":last")}
        habits = {f"{owner}:{part}" for owner in owners for part in ("mean", "last")}
        sources = [(idx, name in habits) for idx, name in enumerate(names) if name == "requested_s" or name in habits]
        if not sources:
            return cls()
        ages_s = np.sqrt(np.maximum(edges[:-1], 1.0) * edges[1:])
        return cls(tuple(idx for idx, _ in sources), tuple(is_log for _, is_log in sources), tuple(ages_s.tolist()),
                   tuple(np.log10(ages_s).tolist()))

    @classmethod
    def from_document(cls, document: Mapping[str, Any], names: Sequence[str]) -> AgeFeatures:
        """From a schema's `age_features`, empty if it has none; ValueError if it is not from `as_dict`."""
        fields = document.get("age_features")
        if fields is None:
            return cls()
        forms = {"log10": True, "seconds": False}
        positions = {name: idx for idx, name in enumerate(names)}
        sources = document_fields.sequence(fields["sources"], "age_features sources", N_COLUMNS_MAX)
        ages_s, log_ages = (document_fields.numbers(fields[part], part, N_INTERVALS_MAX)
                            for part in ("ages_s", "log_ages"))
        result = cls(tuple(positions[document_fields.text(name, "source")] for name, _ in sources),
                     tuple(forms[document_fields.text(form, "form")] for _, form in sources), ages_s, log_ages)
        numbers = np.array([ages_s, log_ages])  # ValueError if their lengths differ
        if numbers.shape[1] == 0 or not (np.abs(numbers) <= LARGEST).all():
            raise ValueError("age_features must name finite ages")
        if (np.diff(numbers) <= 0.0).any() or numbers[0, 0] < _AGE_MIN_S:
            raise ValueError(f"ages_s must rise from above 0, at least {_AGE_MIN_S:g}, and log_ages with them")
        return result

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """As JSON values for a bundle's schema; `names`: the encoder's features."""
        forms = [[names[idx], "log10" if is_log else "seconds"]
                 for idx, is_log in zip(self.sources, self.is_log, strict=True)]
        return {"sources": forms, "ages_s": list(self.ages_s), "log_ages": list(self.log_ages)}

    def scales(self) -> list[np.ndarray]:
        """For each source the ages in s, or their log10; float64 (K,) each."""
        return [np.array(self.log_ages if is_log else self.ages_s) for is_log in self.is_log]

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the values, as `user:mean/age`; `names`: the encoder's features."""
        return [f"{names[idx]}/age" for idx in self.sources]

    def at(self, features: np.ndarray, interval: np.ndarray) -> np.ndarray:
        """Values float64 (n, len(self)) of rows (n, n_features) in the intervals int64 (n,); NaN stays NaN."""
        values = np.empty((len(features), len(self)))
        ages_s, log_ages = np.array(self.ages_s), np.array(self.log_ages)
        with np.errstate(over="ignore"):  # compiled code gives infinity, too
            for position, (source, is_log) in enumerate(zip(self.sources, self.is_log, strict=True)):
                column = features[:, source]
                values[:, position] = column - log_ages[interval] if is_log else column / ages_s[interval]
        return values

    def rows(self, features: np.ndarray, interval: np.ndarray, idx: np.ndarray | None = None) -> np.ndarray:
        """Rows as a hazard forest reads them: features, their values against the age, the interval. idx: the row of
        `features` of each; default: of each its own."""
        n, n_given = len(interval), features.shape[1]
        rows = np.empty((n, n_given + len(self) + 1))
        for start in range(0, n, _BLOCK):  # so that no second copy of all is made
            block = slice(start, start + _BLOCK)
            given = features[block] if idx is None else features[idx[block]]
            rows[block, :n_given], rows[block, n_given:-1] = given, self.at(given, interval[block])
        rows[:, -1] = interval
        return rows

    def arrays(self) -> AgeScales:
        """The arrays for the compiled walk."""
        return AgeScales(np.array(self.sources, np.int64), np.array(self.is_log, np.bool_),
                         np.array(self.ages_s, np.float64), np.array(self.log_ages, np.float64))


NO_AGE_FEATURES = AgeFeatures()
"""For models without age features."""

N_LEAVES_MAX = 64
"""The most leaves of a tree: bits of a word."""
N_BYTES_MAX = 1 << 25
"""Larger tables are slower than a walk."""
N_VARYING_MAX = 8
"""The most features that vary with the age, the interval included, in the compiled AND."""
_ALL = np.uint64(2**64 - 1)
_BLOCK = 65_536


class LeafMasks(NamedTuple):
    """A forest of F features and T trees with L leaves.

    masks: uint64 (R + 1, T); a feature's bins are rows from `first_row`, the last one NaN's; row R has all leaves.

    thresholds: float64, each feature's rising, those of feature f from starts[f]; starts: int64 (F
    + 1,). A value's bin is the number of its feature's thresholds below it. leaves: float64 (L,),
    tree by tree from the left, those of tree t from leaf_starts[t], int64 (T,). is_zero_missing:
    bool (F,), zeros of these features are read as NaN.
    """

    masks: np.ndarray
    thresholds: np.ndarray
    starts: np.ndarray
    leaves: np.ndarray
    leaf_starts: np.ndarray
    is_zero_missing: np.ndarray

    def first_row(self, idx_feature: int) -> int:
        """The row of masks of a feature's bin 0: each feature has two bins more than thresholds."""
        return int(self.starts[idx_feature]) + 2 * idx_feature

    def thresholds_of(self, idx_feature: int) -> np.ndarray:
        """A feature's thresholds, float64, rising; infinity among them if a split separates NaN from all else."""
        return self.thresholds[self.starts[idx_feature]:self.starts[idx_feature + 1]]

    def spans(self, idx_feature: int) -> tuple[np.ndarray, np.ndarray]:
        """For each leaf the first bin of a feature at which it can be reached, and the first after; int64 (L,) each."""
        first = self.first_row(idx_feature)
        words = self.masks[first:first + len(self.thresholds_of(idx_feature)) + 1]
        lows, sizes = np.zeros(len(self.leaves), np.int64), np.zeros(len(self.leaves), np.int64)
        bounds = np.append(self.leaf_starts, len(self.leaves)).tolist()
        for tree, (start, stop) in enumerate(pairwise(bounds)):  # bins x all leaves would be too large
            is_met = (words[:, tree, None] >> np.arange(stop - start, dtype=np.uint64)) & np.uint64(1) == 1
            lows[start:stop] = is_met.argmax(axis=0)
            sizes[start:stop] = is_met.sum(axis=0)
        return lows, lows + sizes


class AgeBins(NamedTuple):
    """The bins of m age features at each of K ages, from the values of their creation features.

    turns: float64 (M,), each age feature's rising, those of number a from turn_starts[a]; turn_starts: int64 (m + 1,).
    rows: int64 (M + 2 m, K): the row of masks at each age, for a value with as many turns below it;
    the last row of each age feature is NaN's. sources: int64 (m,), positions of the creation
    features.
    """

    turns: np.ndarray
    turn_starts: np.ndarray
    rows: np.ndarray
    sources: np.ndarray


def leaf_masks(forest: Forest, age_features: AgeFeatures = NO_AGE_FEATURES) -> LeafMasks | None:
    """The masks of a forest; its age features, if any, come just before the last feature.

    None if it has sets or a tree of more than 64 leaves, or the tables, or those of `age_bins`,
    would be too large.
    """
    if (forest.mode == MEMBER).any():
        return None
    n_trees, n_features = len(forest.roots), forest.n_features
    tree, spans, leaf_tree, leaf_place = places(forest, n_features - 1 - len(age_features))
    n_leaves = np.bincount(leaf_tree, minlength=n_trees)
    by_feature = np.argsort(forest.feature, kind="stable")
    nodes_of = np.split(by_feature, np.searchsorted(forest.feature[by_feature], np.arange(1, n_features)))
    thresholds = [np.unique(forest.split[nodes]) for nodes in nodes_of]
    starts = np.concatenate([[0], np.cumsum([len(values) for values in thresholds])])
    n_rows = int(starts[-1]) + 2 * n_features
    n_aged = sum(map(len, thresholds[n_features - 1 - len(age_features):-1]))
    n_age_bytes = n_aged * len(age_features.ages_s) ** 2 * 8  # each age has other turns
    if n_leaves.max() > N_LEAVES_MAX or max((n_rows + 1) * n_trees * 8, n_age_bytes) > N_BYTES_MAX:
        return None
    masks = np.tile(_below(n_leaves), (n_rows + 1, 1))
    true_start, false_start, n_true, n_false = spans
    if_true = ~(_below(false_start + n_false) ^ _below(false_start))
    if_false = ~(_below(true_start + n_true) ^ _below(true_start))
    for idx, (values, nodes) in enumerate(zip(thresholds, nodes_of, strict=True)):
        first = int(starts[idx]) + 2 * idx
        last = first + len(values) + 1  # NaN's row
        for node, place in zip(nodes.tolist(), np.searchsorted(values, forest.split[nodes]).tolist(), strict=True):
            column = masks[:, tree[node]]
            column[first:first + place + 1] &= if_true[node]
            column[first + place + 1:last] &= if_false[node]
            column[last] &= if_true[node] if forest.is_nan_true[node] else if_false[node]
    leaf_starts = np.concatenate([[0], np.cumsum(n_leaves)[:-1]])
    leaves = np.empty(len(forest.leaves))
    leaves[leaf_starts[leaf_tree] + leaf_place] = forest.leaves
    return LeafMasks(masks, np.concatenate(thresholds), starts, leaves, leaf_starts, forest.is_zero_missing)


def leaf_steps(masks: LeafMasks, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each leaf the first value of a grid of the last feature at which it can be reached, and the first after.

    grid: float64 (K,), rising. Returns int64 (L,) each.
    """
    varying = len(masks.starts) - 2
    bins = np.searchsorted(masks.thresholds_of(varying), grid)
    low, high = masks.spans(varying)
    return np.searchsorted(bins, low), np.searchsorted(bins, high)


def age_bins(masks: LeafMasks, age_features: AgeFeatures, first: int) -> AgeBins:
    """The bins of a forest's age features.

    first: the position of the first of them among the forest's features. An age feature rises with
    its value, rounding included, so it passes each threshold at one double: the turn.
    """
    turns, rows = [], []
    n_ages = len(age_features.ages_s)
    for position, (is_log, ages) in enumerate(zip(age_features.is_log, age_features.scales(), strict=True)):
        values = masks.thresholds_of(first + position)
        row = masks.first_row(first + position)
        edges = last_within(values[None, :], ages[:, None], is_log)  # (K, n)
        distinct = np.unique(edges)
        bins = np.zeros((len(distinct) + 2, n_ages), np.int64)
        for age in range(n_ages):
            bins[1:-1, age] = np.searchsorted(edges[age], distinct, side="right")
        bins[-1] = len(values) + 1
        turns.append(distinct)
        rows.append(row + bins)
    turn_starts = np.concatenate([[0], np.cumsum([len(distinct) for distinct in turns], dtype=np.int64)])
    sources = np.array(age_features.sources, np.int64)
    if not turns:
        return AgeBins(np.zeros(0), turn_starts.astype(np.int64), np.zeros((0, n_ages), np.int64), sources)
    return AgeBins(np.concatenate(turns), turn_starts, np.concatenate(rows), sources)


def last_within(limit: np.ndarray, age: np.ndarray, is_log: bool) -> np.ndarray:
    """The largest double whose age feature is at most the limit; by bisection over the ordered doubles."""
    low = np.full(np.broadcast_shapes(limit.shape, age.shape), _ordered(np.array(-np.inf)))
    high = np.full(low.shape, _ordered(np.array(np.inf)))
    for _ in range(65):
        middle = (low >> 1) + (high >> 1) + ((low & 1) + (high & 1) + 1 >> 1)  # rounded up, without overflow
        value = _double(middle)
        with np.errstate(over="ignore"):
            is_within = (value - age if is_log else value / age) <= limit
        low = np.where(is_within, middle, low)
        high = np.where(is_within, high, middle - 1)
    return _double(low)


def _ordered(value: np.ndarray) -> np.ndarray:
    bits = value.view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits - 1, bits)


def _double(ordered: np.ndarray) -> np.ndarray:
    return np.where(ordered < 0, np.int64(-(2**63)) - ordered - 1, ordered).view(np.float64)


def _below(place: np.ndarray) -> np.ndarray:
    """Words with the bits below a position set, uint64; all bits at 64."""
    shift = np.minimum(place, 63).astype(np.uint64)
    return np.where(place >= 64, _ALL, (np.uint64(1) << shift) - np.uint64(1))


def places(forest: Forest, n_fixed: int) -> tuple[np.ndarray, tuple[np.ndarray, ...], np.ndarray, np.ndarray]:
    """For each node its tree; then the starts of its true and of its false leaves, and the numbers of both; for each
    leaf tree, place.

    Leaves are counted from the left. A node's true child is on the left; on a feature from number n_fixed on, the
    child with fewer leaves is: so a leaf is on the left of few nodes, which saves `mask_tables` work.
    """
    n_nodes = len(forest.feature)
    on_true, on_false = forest.on_true.tolist(), forest.on_false.tolist()
    is_varying = (forest.feature >= n_fixed).tolist()
    n_leaves = [0] * n_nodes
    for node in range(n_nodes - 1, -1, -1):  # children come after their parents
        n_leaves[node] = sum(n_leaves[child] if child >= 0 else 1 for child in (on_true[node], on_false[node]))
    tree, start, true_start, false_start, n_true = ([0] * n_nodes for _ in range(5))
    leaf_tree, leaf_place = np.zeros(len(forest.leaves), np.int64), np.zeros(len(forest.leaves), np.int64)
    for idx, root in enumerate(forest.roots.tolist()):
        tree[root] = idx
    for node in range(n_nodes):
        n_true[node] = n_leaves[on_true[node]] if on_true[node] >= 0 else 1
        n_false = n_leaves[node] - n_true[node]
        is_true_first = not is_varying[node] or n_true[node] <= n_false
        true_start[node] = start[node] + (0 if is_true_first else n_false)
        false_start[node] = start[node] + (n_true[node] if is_true_first else 0)
        for child, place in ((on_true[node], true_start[node]), (on_false[node], false_start[node])):
            if child >= 0:
                tree[child], start[child] = tree[node], place
            else:
                leaf_tree[~child], leaf_place[~child] = tree[node], place
    spans = tuple(map(np.array, (true_start, false_start, n_true, np.array(n_leaves) - n_true)))
    return np.array(tree), spans, leaf_tree, leaf_place


class WalkedForest(NamedTuple):
    """A forest for the compiled walk: N nodes, with one feature that varies over a grid.

    roots: int64 (T,). feature, on_true, on_false: int64 (N,); a child c < 0 is the leaf ~c. split: float64 (N,).
    mode: uint8 (N,). is_nan_true: bool (N,). leaves: float64 (L,). member_start: int64 (N + 1,), members: float64: see
    `Forest`. varying: the feature that varies, the last. cut: int64 (N,), of a node on it, how many of the grid's
    values go to the true child.
    """

    roots: np.ndarray
    feature: np.ndarray
    split: np.ndarray
    mode: np.ndarray
    on_true: np.ndarray
    on_false: np.ndarray
    is_nan_true: np.ndarray
    leaves: np.ndarray
    member_start: np.ndarray
    members: np.ndarray
    varying: int
    cut: np.ndarray

    @classmethod
    def of(cls, forest: Forest, grid: np.ndarray) -> WalkedForest:
        """From a forest whose last feature has the values of a grid, float64 (K,), rising."""
        cut = np.searchsorted(grid, forest.split, side="right").astype(np.int64)
        return cls(forest.roots, forest.feature, forest.split, forest.mode, forest.on_true, forest.on_false,
                   forest.is_nan_true, forest.leaves, forest.member_start, forest.members, forest.n_features - 1, cut)
