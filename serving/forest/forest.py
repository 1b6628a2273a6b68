"""A tree ensemble as flat arrays: what the ONNX file says, in the form that the kernels walk."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

LEQ, MEMBER = 0, 6
"""Node modes of `ai.onnx.ml` TreeEnsemble: value <= split goes to the true child; value in a set does."""
ZERO = float(np.float32(1e-35))
"""LightGBM's kZeroThreshold: it takes every feature within it for zero."""
LARGEST = 1e12
"""No leaf is larger: sums stay finite, whatever the file says."""
DEPTH_MAX = 1_000
"""No tree is deeper: ONNX Runtime builds trees by recursion, and one of 40,000 nodes in a row overflows its stack."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees in the semantics of ONNX TreeEnsemble (opset 5); raw score = sum of leaves in tree order.

    roots: int64 (T,). feature, on_true, on_false: int64 (N,); a child c < 0 is the leaf ~c.
    split: float64 (N,); for MEMBER nodes the value is unused. mode: uint8 (N,), LEQ or MEMBER.
    is_nan_true: bool (N,), where a NaN goes. leaves: float64 (L,).
    is_zero_missing: bool (n_features,), features whose zeros are read as NaN.
    member_start: int64 (N + 1,), members: float64; the set of node i is members[start[i]:start[i + 1]].
    """

    n_features: int
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
    is_zero_missing: np.ndarray

    def __post_init__(self) -> None:
        n_nodes, n_leaves = len(self.feature), len(self.leaves)
        for name in ("split", "mode", "on_true", "on_false", "is_nan_true"):
            if len(getattr(self, name)) != n_nodes:
                raise ValueError(f"{name} must have {n_nodes} elements, got {len(getattr(self, name))}")
        if len(self.is_zero_missing) != self.n_features:
            raise ValueError(f"is_zero_missing must have {self.n_features} elements, got {len(self.is_zero_missing)}")
        if len(self.roots) == 0:
            raise ValueError("roots must be at least one, got none")
        self._check_links(n_nodes, n_leaves)
        if ((self.feature < 0) | (self.feature >= self.n_features)).any():
            raise ValueError(f"features must be among {self.n_features}")
        if not np.isin(self.mode, (LEQ, MEMBER)).all():
            raise ValueError(f"modes must be {LEQ} or {MEMBER}, got {sorted(set(self.mode.tolist()))}")
        if (len(self.member_start) != n_nodes + 1 or (np.diff(self.member_start) < 0).any()
                or self.member_start[0] != 0 or self.member_start[-1] != len(self.members)):
            raise ValueError(f"member_start must rise from 0 to {len(self.members)}")
        if ((np.diff(self.member_start) > 0) != (self.mode == MEMBER)).any() or not np.isfinite(self.members).all():
            raise ValueError("sets must belong to the member nodes and hold at least one finite value")
        # LightGBM parts NaN from all else with a split at +inf
        if not (self.split > -np.inf).all() or not (np.abs(self.leaves) <= LARGEST).all():
            raise ValueError(f"splits must be numbers above -inf and leaves within {LARGEST:g}")

    def _check_links(self, n_nodes: int, n_leaves: int) -> None:
        """Every node and leaf belongs to exactly one place, nodes after their parents: walks end, and are short."""
        children = np.concatenate([self.on_true, self.on_false])
        linked = np.concatenate([self.roots, children[children >= 0]])
        if not np.array_equal(np.sort(linked), np.arange(n_nodes)):
            raise ValueError(f"roots and children must name each of the {n_nodes} nodes once")
        if not np.array_equal(np.sort(~children[children < 0]), np.arange(n_leaves)):
            raise ValueError(f"children must name each of the {n_leaves} leaves once")
        if (children[children >= 0] <= np.tile(np.arange(n_nodes), 2)[children >= 0]).any():
            raise ValueError("children must come after their parents, so that every walk ends")
        if self.depth() > DEPTH_MAX:
            raise ValueError(f"trees must be at most {DEPTH_MAX} nodes deep")

    @classmethod
    def without_splits(cls, n_features: int) -> Forest:
        """A forest that scores 0 whatever it reads.

        >>> Forest.without_splits(3).depth()
        1
        """
        one, nothing = np.zeros(1, np.int64), np.empty(0)
        return cls(n_features, one, one, np.zeros(1), np.full(1, LEQ, np.uint8), ~one, ~one - 1, one > 0, np.zeros(2),
                   np.zeros(2, np.int64), nothing, np.zeros(n_features, bool))

    def with_spare(self) -> Forest:
        """The same trees, of one feature more, which none of them reads."""
        return replace(self, n_features=self.n_features + 1, is_zero_missing=np.append(self.is_zero_missing, False))

    def with_feature(self, place: int) -> Forest:
        """The same trees, of one feature more at `place`, which none of them reads."""
        return replace(self, n_features=self.n_features + 1, feature=self.feature + (self.feature >= place),
                       is_zero_missing=np.insert(self.is_zero_missing, place, False))

    def is_stepwise(self, idx_feature: int) -> bool:
        """True where the score is a step function of the feature: no sets on it, zeros not missing."""
        is_member = (self.feature == idx_feature) & (self.mode == MEMBER)
        return not is_member.any() and not self.is_zero_missing[idx_feature]

    def depth(self) -> int:
        """The most nodes on any way from a root to a leaf; counting ends beyond DEPTH_MAX."""
        level, depth = self.roots, 0
        while len(level) and depth <= DEPTH_MAX:
            level = np.concatenate([self.on_true[level], self.on_false[level]])
            level = level[level >= 0]
            depth += 1
        return depth

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Feature rows as the walks read them: NaN for zeros where zeros are missing values."""
        if not self.is_zero_missing.any():
            return features
        return np.where(self.is_zero_missing & (np.abs(features) <= ZERO), np.nan, features)

    def splits_on(self, idx_feature: int) -> np.ndarray:
        """The distinct finite thresholds on one feature, float64, increasing."""
        return np.unique(self.split[(self.feature == idx_feature) & (self.mode == LEQ) & (self.split < np.inf)])
