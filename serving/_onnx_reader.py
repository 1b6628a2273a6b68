"""Reads the trees of our ONNX file without the onnx package: protobuf wire format, nothing else.

Field numbers are those of onnx.proto3: ModelProto.graph 7, GraphProto.node 1 and initializer 5, NodeProto.op_type 4 and
attribute 5, AttributeProto.name 1, i 3, t 5, ints 8, TensorProto.data_type 2, name 8 and
raw_data 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sojourn.serving.errors import BundleError
from sojourn.serving.forest import MEMBER, Forest

_DTYPES = {2: np.dtype("uint8"), 9: np.dtype("bool"), 11: np.dtype("<f8")}


def read_forest(model: bytes, n_features: int, source: str = "model.onnx") -> Forest:
    """The forest in an ONNX file with one double TreeEnsemble node; BundleError where it is not that."""
    try:
        return _forest(model, n_features)
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise BundleError(f"{source} must hold one double TreeEnsemble, got {type(error).__name__}: {error}") from error


def _forest(model: bytes, n_features: int) -> Forest:
    graph = _only(model, 7)
    nodes = [payload for number, payload in _fields(graph) if number == 1]
    operators = [_only(node, 4) for node in nodes]
    if operators not in ([b"TreeEnsemble"], [b"Abs", b"LessOrEqual", b"And", b"Where", b"TreeEnsemble"]):
        raise ValueError(f"operators {operators!r}")
    node = nodes[-1]
    constants = {_only(payload, 8): payload for number, payload in _fields(graph) if number == 5}
    is_zero_missing = np.zeros(n_features, bool)
    if len(nodes) > 1:
        is_zero_missing = _tensor(constants[b"is_zero_missing"]).astype(bool)
    attributes = dict(_attribute(payload) for number, payload in _fields(node) if number == 5)
    if attributes["n_targets"] != 1 or attributes["aggregate_function"] != 1:
        raise ValueError("more than one target, or no plain sum")
    mode = attributes["nodes_modes"]
    on_true = np.where(attributes["nodes_trueleafs"] != 0, ~attributes["nodes_truenodeids"],
                       attributes["nodes_truenodeids"])
    on_false = np.where(attributes["nodes_falseleafs"] != 0, ~attributes["nodes_falsenodeids"],
                        attributes["nodes_falsenodeids"])
    values = attributes.get("membership_values", np.zeros(0))
    ends = np.flatnonzero(np.isnan(values))
    is_member = mode == MEMBER
    if len(ends) != int(is_member.sum()):
        raise ValueError(f"{len(ends)} member sets for {int(is_member.sum())} member nodes")
    sizes = np.zeros(len(mode), np.int64)
    sizes[is_member] = np.diff(np.concatenate([[-1], ends])) - 1
    return Forest(
        n_features, attributes["tree_roots"], attributes["nodes_featureids"], attributes["nodes_splits"], mode,
        on_true, on_false, attributes["nodes_missing_value_tracks_true"] != 0, attributes["leaf_weights"],
        np.concatenate([[0], np.cumsum(sizes)]), values[~np.isnan(values)], is_zero_missing,
    )  # fmt: skip


def _attribute(payload: bytes) -> tuple[str, Any]:
    name, value, ints = "", None, []
    for number, field in _fields(payload):
        if number == 1:
            name = field.decode()
        elif number == 3:
            value = field
        elif number == 5:
            value = _tensor(field)
        elif number == 8:
            ints += [field] if isinstance(field, int) else _varints(field)
    return name, value if value is not None else np.array(ints, np.int64)


def _tensor(payload: bytes) -> np.ndarray:
    fields = dict(_fields(payload))
    return np.frombuffer(fields.get(9, b""), _DTYPES[fields[2]]).copy()


def _only(payload: bytes, number: int) -> Any:
    found = [field for field_number, field in _fields(payload) if field_number == number]
    if len(found) != 1:
        raise ValueError(f"{len(found)} fields number {number}")
    return found[0]


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
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")


def _varint(payload: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = payload[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _varints(payload: bytes) -> list[int]:
    values, position = [], 0
    while position < len(payload):
        value, position = _varint(payload, position)
        values.append(value - (1 << 64) if value >> 63 else value)
    return values

