"""LightGBM's text model as a Forest, in exactly its own arithmetic; refuses what has no equal in ONNX."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sojourn.serving.forest import LEQ, MEMBER, ZERO, Forest

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

    Raises ValueError for linear trees, averaged forests (rf), several trees per iteration and `reg_sqrt`,
    whose raw score is no plain sum of constant leaves. Native categories must be whole numbers in the rows:
    LightGBM cuts fractions off before it looks, ONNX does not.
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
    seen = builder.missing.setdefault(feature, set())
    seen.add(missing == 1)
    if len(seen) > 1:
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
