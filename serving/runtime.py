"""The one module that talks to ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort

from sojourn.serving.errors import BundleError


class OnnxForest:
    """A tree ensemble in ONNX Runtime, on one thread, so that sums keep their order.

    scores(rows): float64 (n, n_features) -> raw scores float64 (n,).
    """

    def __init__(self, model: bytes, n_features: int, source: str = "model.onnx") -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime raises its own types, one for each stage of loading
            reason = str(error).splitlines()[0][:200]
            raise BundleError(f"{source} must be a model that ONNX Runtime can load, got {reason}") from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if (len(inputs) != 1 or len(outputs) != 1 or inputs[0].type != "tensor(double)"
                or len(inputs[0].shape) != 2 or inputs[0].shape[1] != n_features):
            raise BundleError(f"{source} must take doubles of shape (n, {n_features}) and give one output, "
                              f"got {[(i.type, i.shape) for i in inputs]}")
        self._input, self._output = inputs[0].name, [outputs[0].name]

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Raw scores, float64 (n,), of float64 rows (n, n_features); bit-equal to LightGBM's."""
        result: Any = self._session.run(self._output, {self._input: rows})[0]
        scores: np.ndarray = result.reshape(-1)
        return scores
