"""The exact export: a Forest as one ONNX `TreeEnsemble` (ai.onnx.ml opset 5) in double precision.

The usual converters write float32 thresholds, which changes rows on or near a threshold.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from sojourn.serving.forest import MEMBER, ZERO, Forest


def to_onnx(forest: Forest) -> bytes:
    """The ONNX file of a forest: input `rows` double (n, n_features), output `scores` double (n, 1).

    Scores are raw: sums of leaves in tree order, bit-equal to LightGBM's `predict(raw_score=True)`.
    """
    is_member = forest.mode == MEMBER
    sets = [np.append(forest.members[start:stop], np.nan)
            for start, stop in zip(forest.member_start[:-1][is_member], forest.member_start[1:][is_member],
                                   strict=True)]  # fmt: skip
    attributes = {
        "n_targets": 1,
        "aggregate_function": 1,
        "post_transform": 0,
        "tree_roots": forest.roots.tolist(),
        "nodes_featureids": forest.feature.tolist(),
        "nodes_splits": _tensor("splits", TensorProto.DOUBLE, forest.split),
        "nodes_modes": _tensor("modes", TensorProto.UINT8, forest.mode),
        "nodes_truenodeids": np.where(forest.on_true < 0, ~forest.on_true, forest.on_true).tolist(),
        "nodes_falsenodeids": np.where(forest.on_false < 0, ~forest.on_false, forest.on_false).tolist(),
        "nodes_trueleafs": (forest.on_true < 0).astype(int).tolist(),
        "nodes_falseleafs": (forest.on_false < 0).astype(int).tolist(),
        "nodes_missing_value_tracks_true": forest.is_nan_true.astype(int).tolist(),
        "leaf_targetids": [0] * len(forest.leaves),
        "leaf_weights": _tensor("weights", TensorProto.DOUBLE, forest.leaves),
    }
    if sets:
        attributes["membership_values"] = _tensor("members", TensorProto.DOUBLE, np.concatenate(sets))
    nodes, constants = _zeros_as_missing(forest.is_zero_missing)
    source = "marked" if nodes else "rows"
    nodes.append(helper.make_node("TreeEnsemble", [source], ["scores"], domain="ai.onnx.ml", **attributes))
    graph = helper.make_graph(
        nodes, "lifetime",
        [helper.make_tensor_value_info("rows", TensorProto.DOUBLE, [None, forest.n_features])],
        [helper.make_tensor_value_info("scores", TensorProto.DOUBLE, [None, 1])],
        initializer=constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 5),
                                                    helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _zeros_as_missing(is_zero_missing: np.ndarray) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Operators that turn zeros into NaN in the marked features; empty if no feature is marked."""
    if not is_zero_missing.any():
        return [], []
    constants = [
        helper.make_tensor("zero", TensorProto.DOUBLE, [], np.float64(ZERO).tobytes(), raw=True),
        helper.make_tensor("nan", TensorProto.DOUBLE, [], np.float64(np.nan).tobytes(), raw=True),
        helper.make_tensor("is_zero_missing", TensorProto.BOOL, [len(is_zero_missing)],
                           is_zero_missing.tobytes(), raw=True),
    ]
    return [
        helper.make_node("Abs", ["rows"], ["sizes"]),
        helper.make_node("LessOrEqual", ["sizes", "zero"], ["is_zero"]),
        helper.make_node("And", ["is_zero", "is_zero_missing"], ["is_missing"]),
        helper.make_node("Where", ["is_missing", "nan", "rows"], ["marked"]),
    ], constants


def _tensor(name: str, kind: int, values: np.ndarray) -> onnx.TensorProto:
    dtype = np.uint8 if kind == TensorProto.UINT8 else np.float64
    return helper.make_tensor(name, kind, [len(values)], values.astype(dtype).tobytes(), raw=True)
