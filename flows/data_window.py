"""The parts of a trace that a run read, as MLflow's datasets: so that runs on the same data are found by it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sojourn.flows.config import RetrainConfig

TRAIN, TEST, REPLAY = "train", "test", "replay"
"""What a run read a window for."""


@dataclass(frozen=True, slots=True)
class DataWindow:
    """One window of a trace.

    name, digest: which window of which trace's content; equal ones are one dataset. context: TRAIN, TEST or REPLAY.
    source_type, source: MLflow's words for where it came from, JSON. n_rows: requests; None = not counted.
    """

    name: str
    digest: str
    context: str
    source_type: str
    source: str
    n_rows: int | None = None

    def entity(self) -> Any:
        """MLflow's DatasetInput."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        profile = None if self.n_rows is None else json.dumps({"num_rows": self.n_rows})
        return DatasetInput(Dataset(self.name, self.digest, self.source_type, self.source, None, profile),
                            [InputTag("mlflow.data.context", self.context)])


def train_and_test(settings: RetrainConfig, trace: str, data_hash: str, test_from_s: int, n_past: int,
                   n_test: int) -> tuple[DataWindow, DataWindow]:
    """The windows before and after the cut. trace, data_hash: its name, and the hash that stands for its content."""
    source, digest = _source(settings), data_hash[:12]
    return (DataWindow(f"{trace} before {test_from_s} s", digest, TRAIN, *source, n_past),
            DataWindow(f"{trace} from {test_from_s} s on", digest, TEST, *source, n_test))


def whole_trace(settings: RetrainConfig, trace: str, data_hash: str) -> DataWindow:
    """A whole trace that is replayed."""
    name = trace if settings.trace is not None else f"{trace}, seed {settings.seed}"
    return DataWindow(name, data_hash[:12], REPLAY, *_source(settings))


def _source(settings: RetrainConfig) -> tuple[str, str]:
    if settings.trace is not None:
        return "local", json.dumps({"uri": str(settings.trace.absolute())})
    made = {"generator": "sojourn.features.synthetic", "n_requests": str(settings.n_requests),
            "seed": str(settings.seed)}
    return "code", json.dumps({"tags": made})
