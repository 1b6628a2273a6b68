"""A forest as bit masks: a row's leaves by a few hundred ANDs, with no branch that depends on the row.

For each feature, each bin of its values (between two neighbouring thresholds) and each tree there is one word whose
bit i says whether leaf i of the tree, counted from the left, can still be reached. ANDed over all features, one bit per
tree is left. After QuickScorer (Lucchese et al., SIGIR 2015), with the bins looked up in place of walked thresholds.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sojourn.serving.forest.age_features import NO_AGE_FEATURES, AgeFeatures
from sojourn.serving.forest.forest import MEMBER, Forest

N_LEAVES_MAX = 64
"""Leaves of a tree that one word can hold."""
N_BYTES_MAX = 1 << 25
"""Larger tables cost more to read than a walk does."""
N_VARYING_MAX = 8
"""The compiled AND takes so many features that vary with the age, the interval among them."""
_ALL = np.uint64(2**64 - 1)


class LeafMasks(NamedTuple):
    """A forest of F features and T trees with L leaves.

    masks: uint64 (R + 1, T); a feature's bins are rows from `first_row`, the last one NaN's; row R has all leaves.

    thresholds: float64, each feature's rising, those of feature f from starts[f]; starts: int64 (F + 1,). A value's bin
    is the number of its feature's thresholds below it. leaves: float64 (L,), tree by tree from the left, those of tree
    t from leaf_starts[t], int64 (T,). is_zero_missing: bool (F,), features whose zeros are read as NaN.
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
        """A feature's thresholds, float64, rising; infinity among them where a split parts NaN from all else."""
        return self.thresholds[self.starts[idx_feature]:self.starts[idx_feature + 1]]

    def spans(self, idx_feature: int) -> tuple[np.ndarray, np.ndarray]:
        """For each leaf the first bin of a feature at which it can be reached, and the first after; int64 (L,) each."""
        first = self.first_row(idx_feature)
        words = self.masks[first:first + len(self.thresholds_of(idx_feature)) + 1]
        lows, sizes = np.zeros(len(self.leaves), np.int64), np.zeros(len(self.leaves), np.int64)
        bounds = np.append(self.leaf_starts, len(self.leaves)).tolist()
        for tree, (start, stop) in enumerate(pairwise(bounds)):  # bins x all leaves would not fit into memory
            is_met = (words[:, tree, None] >> np.arange(stop - start, dtype=np.uint64)) & np.uint64(1) == 1
            lows[start:stop] = is_met.argmax(axis=0)
            sizes[start:stop] = is_met.sum(axis=0)
        return lows, lows + sizes


class AgeBins(NamedTuple):
    """The bins that m creation features, set against each of K ages, fall in, read off the features' own values.

    turns: float64 (M,), each age feature's rising, those of number a from turn_starts[a]; turn_starts: int64 (m + 1,).
    rows: int64 (M + 2 m, K): the row of masks at each age, for a value with as many turns below it; the last row of
    each age feature is NaN's. sources: int64 (m,), the features' places among a request's.
    """

    turns: np.ndarray
    turn_starts: np.ndarray
    rows: np.ndarray
    sources: np.ndarray


def leaf_masks(forest: Forest, age_features: AgeFeatures = NO_AGE_FEATURES) -> LeafMasks | None:
    """The masks of a forest whose features before the last one are set against ages, if any are.

    None where it has sets, a tree of more than 64 leaves, or the tables, or those of `age_bins`, would be too large.
    """
    if (forest.mode == MEMBER).any():
        return None
    n_trees, n_features = len(forest.roots), forest.n_features
    tree, spans, leaf_tree, leaf_place = _places(forest)
    n_leaves = np.bincount(leaf_tree, minlength=n_trees)
    by_feature = np.argsort(forest.feature, kind="stable")
    nodes_of = np.split(by_feature, np.searchsorted(forest.feature[by_feature], np.arange(1, n_features)))
    thresholds = [np.unique(forest.split[nodes]) for nodes in nodes_of]
    starts = np.concatenate([[0], np.cumsum([len(values) for values in thresholds])])
    n_rows = int(starts[-1]) + 2 * n_features
    n_aged = sum(map(len, thresholds[n_features - 1 - len(age_features):-1]))
    n_age_bytes = n_aged * len(age_features.ages_s) ** 2 * 8  # each threshold is passed elsewhere at each age
    if n_leaves.max() > N_LEAVES_MAX or max((n_rows + 1) * n_trees * 8, n_age_bytes) > N_BYTES_MAX:
        return None
    masks = np.tile(_below(n_leaves), (n_rows + 1, 1))
    true_start, false_start, false_end = spans
    if_true = ~(_below(false_end) ^ _below(false_start))
    if_false = ~(_below(false_start) ^ _below(true_start))
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


def age_bins(masks: LeafMasks, age_features: AgeFeatures, first: int) -> AgeBins:
    """The bins of a forest's age features. first: the position of the first of them among the forest's features.

    A value against an age rises with the value, rounding included, so each threshold is passed at one double: the turn.
    """
    turns, rows = [], []
    n_ages = len(age_features.ages_s)
    for position, (is_log, ages) in enumerate(zip(age_features.is_log, age_features.scales(), strict=True)):
        values = masks.thresholds_of(first + position)
        row = masks.first_row(first + position)
        passed = _last_within(values[None, :], ages[:, None], is_log)  # (K, n)
        own = np.unique(passed)
        bins = np.zeros((len(own) + 2, n_ages), np.int64)
        for age in range(n_ages):
            bins[1:-1, age] = np.searchsorted(passed[age], own, side="right")
        bins[-1] = len(values) + 1
        turns.append(own)
        rows.append(row + bins)
    turn_starts = np.concatenate([[0], np.cumsum([len(own) for own in turns], dtype=np.int64)])
    sources = np.array(age_features.sources, np.int64)
    if not turns:
        return AgeBins(np.zeros(0), turn_starts.astype(np.int64), np.zeros((0, n_ages), np.int64), sources)
    return AgeBins(np.concatenate(turns), turn_starts, np.concatenate(rows), sources)


def _last_within(limit: np.ndarray, age: np.ndarray, is_log: bool) -> np.ndarray:
    """The largest double that, set against the age, is at most the limit; by bisection over the doubles in order."""
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
    """Doubles as integers of the same order."""
    bits = value.view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits - 1, bits)


def _double(ordered: np.ndarray) -> np.ndarray:
    return np.where(ordered < 0, np.int64(-(2**63)) - ordered - 1, ordered).view(np.float64)


def _below(place: np.ndarray) -> np.ndarray:
    """Words with the bits below a place set, uint64; all of them at 64."""
    shift = np.minimum(place, 63).astype(np.uint64)
    return np.where(place >= 64, _ALL, (np.uint64(1) << shift) - np.uint64(1))


def _places(forest: Forest) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray, np.ndarray]:
    """Of each node its tree and where its true leaves, its false ones and their end stand; of each leaf tree, place."""
    n_nodes = len(forest.feature)
    on_true, on_false = forest.on_true.tolist(), forest.on_false.tolist()
    n_leaves = [0] * n_nodes
    for node in range(n_nodes - 1, -1, -1):  # children come after their parents
        n_leaves[node] = sum(n_leaves[child] if child >= 0 else 1 for child in (on_true[node], on_false[node]))
    tree, start, middle = [0] * n_nodes, [0] * n_nodes, [0] * n_nodes
    leaf_tree, leaf_place = np.zeros(len(forest.leaves), np.int64), np.zeros(len(forest.leaves), np.int64)
    for idx, root in enumerate(forest.roots.tolist()):
        tree[root] = idx
    for node in range(n_nodes):
        place = start[node]
        for child in (on_true[node], on_false[node]):
            if child >= 0:
                tree[child], start[child] = tree[node], place
                place += n_leaves[child]
            else:
                leaf_tree[~child], leaf_place[~child] = tree[node], place
                place += 1
            if child == on_true[node]:
                middle[node] = place
    ends = np.array(start) + np.array(n_leaves)
    return np.array(tree), (np.array(start), np.array(middle), ends), leaf_tree, leaf_place
