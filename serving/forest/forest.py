"""A tree ensemble as flat arrays for the kernels, read from our ONNX file without the onnx package.

Only the graph of `models.onnx_export` is accepted, and each field is checked. So ONNX Runtime
(native code) never gets indices out of range, and both read the same trees. Field numbers are those
of onnx.proto3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sojourn.serving.errors import BundleError

LEQ, MEMBER = 0, 6
"""Node modes of `ai.onnx.ml` TreeEnsemble: value <= split goes to the true child; value in a set does."""
ZERO = float(np.float32(1e-35))
"""LightGBM's kZeroThreshold: it reads smaller absolute values as zero."""
LARGEST = 1e12
"""The largest leaf, so that sums stay finite."""
DEPTH_MAX = 1_000
"""The deepest tree: ONNX Runtime builds trees by recursion, and 40,000 nodes in a row overflow its stack."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees in the semantics of ONNX TreeEnsemble (opset 5); raw score = sum of leaves in tree order.

    roots: int64 (T,). feature, on_true, on_false: int64 (N,); a child c < 0 is the leaf ~c.
    split: float64 (N,); for MEMBER nodes the value is unused. mode: uint8 (N,), LEQ or MEMBER.
    is_nan_true: bool (N,), True = a NaN goes to the true child. leaves: float64 (L,).
    is_zero_missing: bool (n_features,), zeros of these features are read as NaN.
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
        # LightGBM separates NaN from all else by a split at +inf
        if not (self.split > -np.inf).all() or not (np.abs(self.leaves) <= LARGEST).all():
            raise ValueError(f"splits must be numbers above -inf and leaves within {LARGEST:g}")

    def _check_links(self, n_nodes: int, n_leaves: int) -> None:
        """Check that each node and leaf has exactly one parent, before it: so walks end."""
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
        """A forest with score 0 for all inputs.

        >>> Forest.without_splits(3).depth()
        1
        """
        one, nothing = np.zeros(1, np.int64), np.empty(0)
        return cls(n_features, one, one, np.zeros(1), np.full(1, LEQ, np.uint8), ~one, ~one - 1, one > 0, np.zeros(2),
                   np.zeros(2, np.int64), nothing, np.zeros(n_features, bool))

    def with_spare(self) -> Forest:
        """The same trees with one more feature, which no tree reads."""
        return replace(self, n_features=self.n_features + 1, is_zero_missing=np.append(self.is_zero_missing, False))

    def with_feature(self, place: int) -> Forest:
        """The same trees with one more feature at `place`, which no tree reads."""
        return replace(self, n_features=self.n_features + 1, feature=self.feature + (self.feature >= place),
                       is_zero_missing=np.insert(self.is_zero_missing, place, False))

    def is_stepwise(self, idx_feature: int) -> bool:
        """True if the score is a step function of the feature: no sets on it, zeros not missing."""
        is_member = (self.feature == idx_feature) & (self.mode == MEMBER)
        return not is_member.any() and not self.is_zero_missing[idx_feature]

    def depth(self) -> int:
        """The most nodes on a path from a root to a leaf; counting stops beyond DEPTH_MAX."""
        level, depth = self.roots, 0
        while len(level) and depth <= DEPTH_MAX:
            level = np.concatenate([self.on_true[level], self.on_false[level]])
            level = level[level >= 0]
            depth += 1
        return depth

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Feature rows as the walks read them: NaN for zeros that are missing values."""
        if not self.is_zero_missing.any():
            return features
        return np.where(self.is_zero_missing & (np.abs(features) <= ZERO), np.nan, features)

    def splits_on(self, idx_feature: int) -> np.ndarray:
        """The distinct finite thresholds on one feature, float64, increasing."""
        return np.unique(self.split[(self.feature == idx_feature) & (self.mode == LEQ) & (self.split < np.inf)])


_MODEL = {1: "ir_version", 7: "graph", 8: "opset_import"}
_GRAPH = {1: "node", 2: "name", 5: "initializer", 11: "input", 12: "output"}
_VALUE = {1: "name", 2: "type"}
_NODE = {1: "input", 2: "output", 4: "op_type", 5: "attribute", 7: "domain"}
_ATTRIBUTE = {1: "name", 3: "i", 5: "t", 8: "ints", 20: "type"}
_TENSOR = {1: "dims", 2: "data_type", 8: "name", 9: "raw_data"}
_OPSET = {1: "domain", 2: "version"}
_DTYPES = {2: np.dtype("uint8"), 9: np.dtype("bool"), 11: np.dtype("<f8")}
_INT, _TENSOR_TYPE, _INTS = 2, 4, 7
_OPSETS = {(b"ai.onnx.ml", 5), (b"", 21)}
_TREES = (b"TreeEnsemble", [b"scores"], b"ai.onnx.ml")
_PLAIN = [(*_TREES, [b"rows"])]
_ZEROS_MARKED = [
    (b"Abs", [b"sizes"], b"", [b"rows"]),
    (b"LessOrEqual", [b"is_zero"], b"", [b"sizes", b"zero"]),
    (b"And", [b"is_missing"], b"", [b"is_zero", b"is_zero_missing"]),
    (b"Where", [b"marked"], b"", [b"is_missing", b"nan", b"rows"]),
    (*_TREES, [b"marked"]),
]
_FIXED = {"n_targets": 1, "aggregate_function": 1, "post_transform": 0}
_ARRAYS = {
    "tree_roots", "nodes_featureids", "nodes_splits", "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids",
    "nodes_trueleafs", "nodes_falseleafs", "nodes_missing_value_tracks_true", "leaf_targetids", "leaf_weights",
}  # fmt: skip
_TENSORS = {"nodes_splits", "nodes_modes", "leaf_weights"}


def read_forest(model: bytes, n_features: int, source: str = "model.onnx") -> Forest:
    """The forest in an ONNX file with one double TreeEnsemble node; BundleError for other files."""
    try:
        return _forest(model, n_features)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise BundleError(f"{source} must hold one double TreeEnsemble, got {type(error).__name__}: {error}") from error


def _forest(model: bytes, n_features: int) -> Forest:
    parts = _message(model, _MODEL)
    opsets = {(_one(opset, "domain", b""), _one(opset, "version"))
              for opset in (_message(payload, _OPSET) for payload in parts["opset_import"])}
    if opsets != _OPSETS:
        raise ValueError(f"operator sets {sorted(opsets)}")
    graph = _message(_one(parts, "graph"), _GRAPH)
    ends = [_one(_message(_one(graph, side), _VALUE), "name") for side in ("input", "output")]
    if ends != [b"rows", b"scores"] or not _one(graph, "name").isascii():
        raise ValueError(f"inputs and outputs {ends!r}")
    nodes = [_message(payload, _NODE) for payload in graph["node"]]
    wires = [(_one(node, "op_type"), node["output"], _one(node, "domain", b""), node["input"]) for node in nodes]
    constants = dict(_tensor(payload) for payload in graph["initializer"])
    if wires == _PLAIN:
        is_zero_missing = np.zeros(n_features, bool)
        is_expected = not constants
    elif wires == _ZEROS_MARKED and len(constants) == len(graph["initializer"]) == 3:
        is_zero_missing = constants[b"is_zero_missing"].astype(bool)
        is_expected = constants[b"zero"].tolist() == [ZERO] and math.isnan(*constants[b"nan"])
    else:
        raise ValueError(f"operators {[wire[0] for wire in wires]!r}, wired otherwise")
    if not is_expected or any(node["attribute"] for node in nodes[:-1]):
        raise ValueError("constants or attributes other than ours")
    return _trees(dict(_attributes(nodes[-1]["attribute"])), n_features, is_zero_missing)


def _trees(attributes: dict[str, Any], n_features: int, is_zero_missing: np.ndarray) -> Forest:
    values = attributes.pop("membership_values", np.zeros(0))
    if set(attributes) != _ARRAYS | set(_FIXED) or {name: attributes[name] for name in _FIXED} != _FIXED:
        raise ValueError(f"attributes {sorted(attributes)}, or more than a plain sum for one target")
    if any(attributes[name].dtype != np.int64 for name in _ARRAYS - _TENSORS):
        raise ValueError("numbers other than whole ones for trees and nodes")
    leaves, mode = attributes["leaf_weights"], attributes["nodes_modes"]
    if leaves.dtype != "<f8" or attributes["nodes_splits"].dtype != "<f8" or mode.dtype != "uint8":
        raise ValueError("splits and weights must be doubles, modes bytes")
    if attributes["leaf_targetids"].tolist() != [0] * len(leaves):
        raise ValueError("leaves of another target")
    ends = np.flatnonzero(np.isnan(values))
    is_member = mode == MEMBER
    if len(ends) != int(is_member.sum()) or (len(values) and ends[-1] != len(values) - 1):
        raise ValueError(f"{len(ends)} member sets for {int(is_member.sum())} member nodes")
    sizes = np.zeros(len(mode), np.int64)
    sizes[is_member] = np.diff(np.concatenate([[-1], ends])) - 1
    return Forest(
        n_features, attributes["tree_roots"], attributes["nodes_featureids"], attributes["nodes_splits"], mode,
        _children(attributes, "true"), _children(attributes, "false"),
        _flags(attributes["nodes_missing_value_tracks_true"]), leaves,
        np.concatenate([[0], np.cumsum(sizes)]), values[~np.isnan(values)], is_zero_missing,
    )  # fmt: skip


def _children(attributes: dict[str, Any], side: str) -> np.ndarray:
    ids = attributes[f"nodes_{side}nodeids"]
    if (ids < 0).any():
        raise ValueError("ids below 0")
    return np.where(_flags(attributes[f"nodes_{side}leafs"]), ~ids, ids)


def _flags(values: np.ndarray) -> np.ndarray:
    if not np.isin(values, (0, 1)).all():
        raise ValueError("flags other than 0 and 1")
    return values == 1


def _attributes(payloads: list[bytes]) -> Iterator[tuple[str, Any]]:
    names = set()
    for payload in payloads:
        parts = _message(payload, _ATTRIBUTE)
        name, kind = _one(parts, "name").decode(), _one(parts, "type")
        if name in names:
            raise ValueError(f"attribute {name} twice")
        names.add(name)
        filled = {part for part in ("i", "t", "ints") if parts[part]}
        if kind == _INT and filled == {"i"}:
            yield name, _one(parts, "i")
        elif kind == _INT and not filled:
            yield name, 0
        elif kind == _TENSOR_TYPE and filled == {"t"}:
            yield name, _tensor(_one(parts, "t"))[1]
        elif kind == _INTS and filled <= {"ints"}:
            yield name, _ints(parts["ints"])
        else:
            raise ValueError(f"attribute {name} of type {kind}")


def _tensor(payload: bytes) -> tuple[bytes, np.ndarray]:
    parts = _message(payload, _TENSOR)
    data, shape = _one(parts, "raw_data", b""), _ints(parts["dims"]).tolist()
    values = np.frombuffer(data, _DTYPES[_one(parts, "data_type")]).copy()
    if shape != [len(values)] and not (shape == [] and len(values) == 1):
        raise ValueError(f"{len(values)} numbers of shape {shape}")
    if values.dtype == bool and not set(data) <= {0, 1}:
        raise ValueError("truth values other than 0 and 1")
    return _one(parts, "name"), values


def _ints(fields: list[int | bytes]) -> np.ndarray:
    if len(fields) == 1 and isinstance(fields[0], bytes):
        return _varints(fields[0])
    if not all(isinstance(field, int) for field in fields):
        raise ValueError("numbers packed in parts")
    return np.array(fields, np.int64)


def _one(parts: dict[str, list[Any]], name: str, default: Any = None) -> Any:
    values = parts[name]
    if not values and default is not None:
        return default
    if len(values) != 1:
        raise ValueError(f"{len(values)} fields {name}")
    return values[0]


def _message(payload: bytes, names: dict[int, str]) -> dict[str, list[Any]]:
    """The fields of a message by name, each a list; ValueError for a field that is not among `names`."""
    parts: dict[str, list[Any]] = {name: [] for name in names.values()}
    for number, value in _fields(payload):
        if number not in names:
            raise ValueError(f"field number {number}")
        parts[names[number]].append(value)
    return parts


def _fields(payload: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (number, value): an int for a varint, bytes for a length-delimited field."""
    position, end = 0, len(payload)
    while position < end:
        tag, position = _varint(payload, position)
        kind = tag & 7
        if kind == 0:
            value, position = _varint(payload, position)
            yield tag >> 3, value - (1 << 64) if value >> 63 else value
        elif kind == 2:
            size, position = _varint(payload, position)
            if position + size > end:
                raise ValueError(f"a field of {size} bytes where {end - position} are left")
            yield tag >> 3, payload[position:position + size]
            position += size
        else:
            raise ValueError(f"wire type {kind}")


def _varint(payload: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = payload[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 64:
                raise ValueError("a number of more than 64 bits")
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _varints(payload: bytes) -> np.ndarray:
    data = np.frombuffer(payload, np.uint8)
    ends = np.flatnonzero(data < 128)
    if len(data) == 0:
        return np.zeros(0, np.int64)
    if len(ends) == 0 or ends[-1] != len(data) - 1:
        raise ValueError("a number cut off")
    starts = np.concatenate([[0], ends[:-1] + 1])
    sizes = ends - starts + 1
    if sizes.max() > 10:
        raise ValueError("a number of more than 64 bits")
    values = np.zeros(len(ends), np.uint64)
    for place in range(int(sizes.max())):
        is_longer = sizes > place
        digits = (data[starts[is_longer] + place] & 127).astype(np.uint64)
        values[is_longer] |= digits << np.uint64(7 * place)
    return values.view(np.int64)
