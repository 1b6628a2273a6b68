"""The tracker: runs are begun, logged and ended in MLflow, and the parts of a trace that a run reads are MLflow's
datasets, so that runs on the same data are found by them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sojourn.flows.process import exit_on_sigterm
from sojourn.flows.settings.tracking_uri import TrackingUri, possible_uri, without_secrets
from sojourn.flows.tracking.artifacts import check_place, local_folder
from sojourn.flows.tracking.client import TrackingClient, TrackingError, answering
from sojourn.flows.tracking.databases import ready_database
from sojourn.flows.tracking.registry import BUNDLE, EXPERIMENT, EXPERIMENT_TAGS, VersionRegistry, tag_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sojourn.flows.settings.trace import TraceSource

_PARAM_LIMIT, _BATCH_LIMIT = 500, 1_000
TRAIN, TEST, REPLAY = "train", "test", "replay"
"""What a run read a window for."""


class Tracker(VersionRegistry):
    """MLflow's tracking store and registry at one URI.

    A server keeps the artifacts itself. Those of a database lie in a folder beside the store, which every reader of
    the database must then share. Opening asks the store, a server only where `is_asked`; TrackingError, here and in
    all methods, where it does not answer. An SQLite file is made or upgraded before it is opened.
    artifacts: that folder, or a URL; ValueError where the store has kept them at another URL so far, or where another
    store has bound the database to a folder of its own.
    run_tags: on every run that is begun here.
    """

    def __init__(self, uri: TrackingUri, artifacts: Path | str, *, is_asked: bool = True,
                 run_tags: Mapping[str, str] = MappingProxyType({})) -> None:
        from mlflow.entities import Metric, Param, RunTag

        possible_uri(uri)
        if uri.database is not None:
            own = uri.database.parent / "artifacts"
            ready_database(uri.database, artifacts if isinstance(artifacts, Path) else own)
        self.uri = uri
        self._run_tags = run_tags
        self._ended: set[str] = set()
        self._client = TrackingClient(uri, is_asked=is_asked)
        self._metric, self._param, self._tag = Metric, Param, RunTag
        self._artifacts = artifacts

    @cached_property
    def _experiment(self) -> str:
        location = None if self.uri.is_server else _uri(self._artifacts)
        while (found := self._found_experiment()) is None:
            try:
                return str(self._client.create_experiment(EXPERIMENT, artifact_location=location,
                                                          tags=dict(EXPERIMENT_TAGS)))
            except TrackingError as error:
                if error.code != "RESOURCE_ALREADY_EXISTS":  # by a run that began at the same time
                    raise
        return found

    def _found_experiment(self) -> str | None:
        found = self._client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            return None
        self._check_bound(found.artifact_location)
        return str(found.experiment_id)

    def check_artifacts(self) -> None:
        """See that artifacts of new runs can be kept where those of earlier runs of this database are.

        ValueError where that is another place than this store's; ValueError or OSError where it can't be used.
        """
        if self.uri.is_server:
            return
        found = self._client.get_experiment_by_name(EXPERIMENT)
        if found is not None:
            self._check_bound(found.artifact_location)
            check_place(self.uri, found.artifact_location)

    def _check_bound(self, bound: str) -> None:
        if self.uri.is_server:
            return
        if isinstance(self._artifacts, str):
            if _place(bound) != _place(self._artifacts):
                raise ValueError(f"artifacts must be {without_secrets(bound)}, where this store has kept them from its "
                                 f"first run on, got {self._artifacts}: another place needs another store")
            return
        database, store = self.uri.database, self._artifacts.absolute().parent
        is_own = database is not None and database.absolute().parent == store
        # a URL is one place for all hosts; a folder of another store may be another disk here
        if not is_own and local_folder(bound) is not None and _place(bound) != _place(_uri(self._artifacts)):
            raise ValueError(f"artifacts must be {without_secrets(bound)}, where the runs of this database are kept, "
                             f"got this store's own folder {self._artifacts.absolute()}: where that folder is shared "
                             f'with this host, set artifacts = "{without_secrets(bound)}" (SOJOURN_ARTIFACTS); else '
                             "take another database")

    @contextmanager
    def run(self, name: str, tags: Mapping[str, str], parent: str | None = None,
            data: Sequence[DataWindow] = ()) -> Iterator[str]:
        """The id of a run (a child of `parent`) that ends with the block, however that ends.

        FINISHED; FAILED after an exception; KILLED after an interrupt, an exit or SIGTERM. data: what the run reads.
        """
        with exit_on_sigterm():
            run_id = self.start(name, tags, parent)
            try:
                if data:
                    self.log_data(run_id, data)
                yield run_id
            except Exception:
                self._end_anyway(run_id, "FAILED")
                raise
            except BaseException:
                self._end_anyway(run_id, "KILLED")
                raise
            if run_id not in self._ended:
                self.end(run_id)

    @contextmanager
    def system_metrics(self, run_id: str) -> Iterator[None]:
        """MLflow samples CPU, memory, disk and network of this machine meanwhile: the run's metrics `system/...`."""
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        monitor: Any = SystemMetricsMonitor(run_id, tracking_uri=self.uri.plain)  # type: ignore[no-untyped-call]
        monitor.start()
        try:
            yield
        finally:
            monitor.finish()

    def _end_anyway(self, run_id: str, status: str) -> None:
        with suppress(Exception):  # the error that ended the run is the one to tell
            self.end(run_id, status)

    def start(self, name: str, tags: Mapping[str, str], parent: str | None = None) -> str:
        """Begin a run (a child of `parent`); returns its id. `run` ends it, too."""
        tags = {**self._run_tags, **tags}
        if parent is not None:
            tags["mlflow.parentRunId"] = parent
        run = self._client.create_run(self._experiment, tags={key: str(value) for key, value in tags.items()},
                                      run_name=name)
        return str(run.info.run_id)

    def log(self, run_id: str, params: Mapping[str, Any] | None = None,
            metrics: Mapping[str, float] | None = None) -> None:
        """Log parameters and finite metrics in one call."""
        now_ms = int(time.time() * 1000)
        self._client.log_batch(
            run_id,
            metrics=[self._metric(tag_name(name), float(value), now_ms, 0)
                     for name, value in (metrics or {}).items() if math.isfinite(value)],
            params=[self._param(name, without_secrets(str(value))[:_PARAM_LIMIT])
                    for name, value in (params or {}).items()],
        )  # fmt: skip

    def log_by_step(self, run_id: str, metrics: Mapping[int, Mapping[str, float]]) -> None:
        """Log finite metrics, each under several steps."""
        now_ms = int(time.time() * 1000)
        every = [self._metric(tag_name(name), float(value), now_ms, step)
                 for step, values in metrics.items() for name, value in values.items() if math.isfinite(value)]
        for first in range(0, len(every), _BATCH_LIMIT):
            self._client.log_batch(run_id, metrics=every[first:first + _BATCH_LIMIT])

    def log_figure(self, run_id: str, figure: Figure, name: str) -> None:
        """Log a matplotlib figure as a PNG artifact."""
        self._client.log_figure(run_id, figure, name)

    def tag(self, run_id: str, name: str, value: str) -> None:
        """Set a run's tag."""
        self._client.set_tag(run_id, name, value)

    def log_text(self, run_id: str, text: str, name: str) -> None:
        """Log a text artifact."""
        self._client.log_text(run_id, text, name)

    def log_data(self, run_id: str, windows: Iterable[DataWindow]) -> None:
        """Log what a run reads: MLflow's column *Dataset*."""
        self._client.log_inputs(run_id, datasets=[window.entity() for window in windows])

    def log_folder(self, run_id: str, folder: Path, beside: Mapping[str, str] = MappingProxyType({})) -> str:
        """Log the folder of a bundle or of a usage section; returns its URI. beside: further files, texts by name."""
        self._client.log_artifacts(run_id, str(folder), BUNDLE)
        for name, text in beside.items():
            self._client.log_text(run_id, text, f"{BUNDLE}/{name}")
        return f"{self._client.get_run(run_id).info.artifact_uri}/{BUNDLE}"

    def end(self, run_id: str, status: str = "FINISHED") -> None:
        """End a run; within `run`, to give it another end than FINISHED."""
        self._client.set_terminated(run_id, status)
        self._ended.add(run_id)

    def rename(self, run_id: str, name: str) -> None:
        """Give a run another name."""
        self._client.update_run(run_id, name=name)

    def delete_run(self, run_id: str) -> None:
        """Delete a run: from a database with all its rows, on a server as MLflow does, until somebody collects it."""
        from mlflow.tracking._tracking_service.utils import _get_store

        if self.uri.is_server:
            self._client.delete_run(run_id)
        else:
            store = _get_store(self.uri.plain)  # type: ignore[no-untyped-call]
            with answering(self.uri):
                store._hard_delete_run(run_id)  # noqa: SLF001  (as `mlflow gc` does)


def _uri(artifacts: Path | str) -> str:
    return artifacts if isinstance(artifacts, str) else artifacts.absolute().as_uri()


def _place(uri: str) -> Path | str:
    """Two URIs of one place have the same."""
    folder = local_folder(uri)
    return uri.rstrip("/") if folder is None else folder.resolve()


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
