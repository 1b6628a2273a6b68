"""The only module that calls ONNX Runtime."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # from 1.31 on it reports sessions over the net by default
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
        except Exception as error:  # the runtime has an error class for each stage of loading
            raise BundleError(f"{source} must be a model that ONNX Runtime can load, got {_reason(error)}") from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if (len(inputs) != 1 or len(outputs) != 1 or inputs[0].type != "tensor(double)"
                or len(inputs[0].shape) != 2 or inputs[0].shape[1] != n_features):
            raise BundleError(f"{source} must take doubles of shape (n, {n_features}) and give one output, "
                              f"got {[(i.type, i.shape) for i in inputs]}")
        self._input, self._output = inputs[0].name, [outputs[0].name]
        for n in (1, 2):  # some errors appear only in a run
            try:
                n_scores = len(self.scores(np.full((n, n_features), np.nan)))
            except Exception as error:
                raise BundleError(f"{source} must be one that ONNX Runtime can run, got {_reason(error)}") from error
            if n_scores != n:
                raise BundleError(f"{source} must give one score for each row, got {n_scores} for {n}")

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Raw scores, float64 (n,), of float64 rows (n, n_features); bit-equal to LightGBM's."""
        result: Any = self._session.run(self._output, {self._input: rows})[0]
        scores: np.ndarray = result.reshape(-1)
        return scores

    def bound(self, rows: np.ndarray) -> Callable[[], np.ndarray]:
        """A function that scores the present content of `rows`; float64 (n,), a new array.

        rows: float64 (n, n_features), C order. For one thread at a time.
        """
        scores = np.empty(len(rows))
        session, binding = self._session, self._session.io_binding()
        binding.bind_input(self._input, "cpu", 0, np.float64, rows.shape, rows.ctypes.data)
        binding.bind_output(self._output[0], "cpu", 0, np.float64, (len(rows), 1), scores.ctypes.data)

        def run(array: np.ndarray = rows) -> np.ndarray:  # the binding holds the rows' address, not the rows
            session.run_with_iobinding(binding)
            return scores.copy()

        return run


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
