"""A forest laid out for C: one array of nodes, each tree in the order of a walk that always goes to the true child."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.serving.forest import MEMBER, Forest

LEAF = -1
"""Stands in `feature` where the node is a leaf."""
NAN_IS_TRUE, IS_SET, ZERO_IS_NAN = 1, 2, 4
"""Flags of a node: where a NaN goes, a set in place of a threshold, zeros that count as NaN."""


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Nodes and leaves, N in all. The true child of node i is i + 1, the false child i + skip[i].

    value: float64 (N,), the threshold, or what a leaf adds. skip: int64 (N,), 0 for leaves.
    place: int64 (N,), of a node on the last feature how many grid values go to the true child; of a node with a set
    where the set begins in `members`. feature: int64 (N,), LEAF for leaves. flags: int64 (N,).
    roots: int64 (T,). members: float64, each set ended by NaN; one NaN alone where there are none.
    """

    value: np.ndarray
    skip: np.ndarray
    place: np.ndarray
    feature: np.ndarray
    flags: np.ndarray
    roots: np.ndarray
    members: np.ndarray


def node_table(forest: Forest, grid: np.ndarray) -> NodeTable:
    """The nodes of a forest; grid: float64 (K,), rising values of its last feature.

    >>> stump = Forest(1, np.array([0]), np.array([0]), np.array([2.5]), np.array([0], np.uint8), np.array([~1]),
    ...                np.array([~0]), np.array([True]), np.array([10.0, 20.0]), np.array([0, 0]), np.array([]),
    ...                np.array([False]))
    >>> table = node_table(stump, np.arange(4.0))
    >>> table.value.tolist(), table.skip.tolist(), table.place.tolist(), table.feature.tolist(), table.flags.tolist()
    ([2.5, 20.0, 10.0], [2, 0, 0], [3, 0, 0], [0, -1, -1], [1, 0, 0])
    """
    order, skip, roots = _walked(forest)
    is_leaf = order < 0
    node = np.where(is_leaf, 0, order)
    is_set = forest.mode == MEMBER
    flags = (NAN_IS_TRUE * forest.is_nan_true + IS_SET * is_set + ZERO_IS_NAN * forest.is_zero_missing[forest.feature])
    place = np.where(forest.feature == forest.n_features - 1, np.searchsorted(grid, forest.split, side="right"), 0)
    n_before = np.cumsum(is_set) - is_set  # sets before this one, each ended by one NaN
    place = np.where(is_set, forest.member_start[:-1] + n_before, place)
    ends = forest.member_start[1:][is_set]
    return NodeTable(
        np.where(is_leaf, forest.leaves[np.where(is_leaf, ~order, 0)], forest.split[node]), skip,
        np.where(is_leaf, 0, place[node]), np.where(is_leaf, LEAF, forest.feature[node]),
        np.where(is_leaf, 0, flags[node]), roots,
        np.insert(forest.members, ends, np.nan) if is_set.any() else np.array([np.nan]),
    )  # fmt: skip


def _walked(forest: Forest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes (leaves as ~leaf) in the new order, skips to the false children, and where each tree begins."""
    on_true, on_false = forest.on_true.tolist(), forest.on_false.tolist()
    order: list[int] = []
    skip: list[int] = []
    roots = []
    for root in forest.roots.tolist():
        roots.append(len(order))
        waiting = [(root, -1)]  # and the position of the parent whose false child it is
        while waiting:
            child, parent = waiting.pop()
            if parent >= 0:
                skip[parent] = len(order) - parent
            if child >= 0:
                waiting += [(on_false[child], len(order)), (on_true[child], -1)]
            order.append(child)
            skip.append(0)
    return np.array(order), np.array(skip), np.array(roots)
