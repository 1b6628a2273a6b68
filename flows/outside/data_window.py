"""The parts of a trace that a run read, as MLflow's datasets: so that runs on the same data are found by it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.flows.settings.trace import TraceSource

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


def train_and_test(source: TraceSource, trace: str, data_hash: str, test_from_s: int, n_past: int,
                   n_test: int) -> tuple[DataWindow, DataWindow]:
    """The windows before and after the cut. trace, data_hash: its name, and the hash that stands for its content."""
    where, digest = _where(source), data_hash[:12]
    later = where if source.later is None else _where(source.later.source)
    return (DataWindow(f"{trace} before {test_from_s} s", digest, TRAIN, *where, n_past),
            DataWindow(f"{trace} from {test_from_s} s on", digest, TEST, *later, n_test))


def whole_trace(source: TraceSource, trace: str, data_hash: str) -> DataWindow:
    """A whole trace that is replayed."""
    name = trace if source.file is not None else f"{trace}, seed {source.seed}"
    return DataWindow(name, data_hash[:12], REPLAY, *_where(source))


def _where(source: TraceSource) -> tuple[str, str]:
    if source.file is not None:
        return "local", json.dumps({"uri": str(source.file.absolute())})
    made = {"generator": "sojourn.features.synthetic", "n_requests": str(source.n_requests),
            "seed": str(source.seed)}
    return "code", json.dumps({"tags": made})
