"""Runs and registered versions in MLflow: begin, log, end and search runs by tags; register, alias, tag
and fetch versions; and their names: the experiment, kinds of runs, aliases, tags.

The parts of a trace that a run reads are MLflow's datasets, by which runs on the same data can be searched."""

from __future__ import annotations

import json
import math
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sojourn.flows.process import exit_on_sigterm
from sojourn.flows.settings.store import TrackingUri, possible_uri, without_secrets
from sojourn.flows.tracking.client import TrackingClient, TrackingError, answering, check_place, local_folder
from sojourn.flows.tracking.databases import ready_database

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sojourn.flows.settings.trace import TraceSource

USAGE = "usage"
"""Kind of a run, and of a version, of a usage model."""
NOTE = "mlflow.note.content"
"""The tag that MLflow shows as the description of a run or of an experiment."""
SYSTEM = "system"
"""Folder among a run's artifacts: files that programs read and few persons do."""
GATES_FAILED = "gates_failed"
SHOWN_METRICS = (GATES_FAILED, "host_gain_pp", "vs_champ_pct", "vs_km_pct")
"""Columns of the run list, of a retrain (docs/versions.md); whatever judged a run, they have the same names."""
_VIEW = "sojourn"
EXPERIMENT_TAGS = MappingProxyType({
    "mlflow.experimentKind": "custom_model_development",
    NOTE: "Runs of Sojourn: retrains with a child for each family, studies, comparisons, checks. The tag `kind` tells "
          "them apart. A retrain's name begins with its verdict: ✓ it became champion, ✗ a gate failed, = it made the "
          "champion's bytes again. Its description has the gates.",
    f"mlflow.sharedViewState.{_VIEW}": json.dumps({
        "selectedColumns": ["attributes.`Created`", *(f"metrics.`{name}`" for name in SHOWN_METRICS), "params.`family`",
                            "attributes.`Duration`"]}),
})
RUNS_VIEW = f"workflowType=machine_learning&viewStateShareKey={_VIEW}"
"""Part of an experiment's address: with it MLflow 3.17 opens on the runs, with the columns of `EXPERIMENT_TAGS`. Else
it opens on the browser's last view, at first an overview of traces of language models, or runs without metrics."""
NAME_LIMIT = 25
"""Letters of a run's name that MLflow's list shows."""
EXPERIMENT = "sojourn-lifetime"
CHAMPION, CHALLENGER = "champion", "challenger"
"""Aliases of versions."""
BUNDLE = "bundle"
"""A bundle's folder among a run's artifacts."""
RETRAIN, FAMILY = "retrain", "family"
STUDY = "study"
COMPARISON = "comparison"
ROLLBACK = "rollback"
"""Kinds of runs, for the tag `kind`; artifacts of a study and of a comparison have this name, too."""
CLEANED_TAG = "cleaned"
"""Tag of a run and a version: when `sojourn store clean` removed its artifacts."""
LEFT_TAG = "rolled_back"
"""Tag of a version that was rolled back: why. No run promotes the same bytes again."""


def run_name(trace: str, day: date, *, before: str = "", after: str = "") -> str:
    """A name that the list of runs shows, what matters first, since a narrow window cuts its end. before, after: words;
    without the first there is room for a mark and a space. A long trace's name is cut, between two parts if possible.

    >>> run_name("NASA-iPSC-1993-3.1-cln.swf.gz", date(2026, 11, 25), after="mixture")
    'NASA-iPSC 11-25 mixture'
    """
    others = [before[:NAME_LIMIT - 6], f"{day:%m-%d}", after]
    room = NAME_LIMIT - 2 * (not before) - sum(len(part) + 1 for part in others if part)
    whole = max((match.start() for match in re.finditer(r"[-_. ]|$", trace) if match.start() <= room), default=0)
    return " ".join(filter(None, (others[0], trace[:whole or max(room, 0)], *others[1:])))


def model_page(name: str, version_tags: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Tags and description of a registered model."""
    is_usage = version_tags.get("kind") == USAGE
    answers = ("how a request uses its cores over time: pulse waves and workload classes" if is_usage else
               "how long a request (VM, pod, job) stays, at any age")
    text = (f"Tells {answers}. Made by Sojourn.\n\n"
            "- `champion`: passed every gate; this one serves.\n- `challenger`: the latest that failed one; not to be "
            "deployed.\n\nA version's description begins with its verdict and says how to load it. Figures of "
            "two versions are comparable where their tag `judged_on` is the same, which "
            f"`sojourn model list {name}` shows.")
    return {"made_by": "sojourn", "answers": "usage" if is_usage else "lifetime",
            "trace": version_tags.get("trace", "")}, text
_PARAM_LIMIT, _BATCH_LIMIT = 500, 1_000
TRAIN, TEST, REPLAY = "train", "test", "replay"
"""Uses of a window by a run."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run in MLflow. parent: its parent run, or None. start_ms, ended_ms: since 1970, UTC."""

    run_id: str
    name: str
    status: str
    parent: str | None
    start_ms: int
    ended_ms: int | None
    artifact_uri: str
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """A registered version in MLflow. created_ms: since 1970, UTC."""

    version: int
    created_ms: int
    run_id: str
    tags: Mapping[str, str]


class Tracker:
    """MLflow's tracking store and registry at one URI.

    A server keeps the artifacts itself. Those of a database are in a folder beside the store, which all readers of the
    database must share. Opening contacts the store, a server only if `is_asked`; TrackingError, here and in all
    methods, if it does not answer. An SQLite file is made or upgraded before it is opened. artifacts: that folder, or a
    URL; ValueError if the store has kept them at another URL so far, or if another store has bound the database to its
    folder. run_tags: on every run that begins here.
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
        while (experiment := self._known_experiment()) is None:
            try:
                return str(self._client.create_experiment(EXPERIMENT, artifact_location=location,
                                                          tags=dict(EXPERIMENT_TAGS)))
            except TrackingError as error:
                if error.code != "RESOURCE_ALREADY_EXISTS":  # by a run that began at the same time
                    raise
        return experiment

    def _known_experiment(self) -> str | None:
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        if experiment is None:
            return None
        self._check_bound(experiment.artifact_location)
        return str(experiment.experiment_id)

    def check_artifacts(self) -> None:
        """Check that new runs can put artifacts at the place of this database's earlier runs.

        ValueError if that is not this store's place; ValueError or OSError if it can't be used.
        """
        if self.uri.is_server:
            return
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        if experiment is not None:
            self._check_bound(experiment.artifact_location)
            check_place(self.uri, experiment.artifact_location)

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
        """The id of a run (a child of `parent`) that ends with the block.

        FINISHED; FAILED after an exception; KILLED after an interrupt, an exit or SIGTERM. data: windows that it reads.
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
        with suppress(Exception):  # the error that ended the run is the one to report
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

    def run_link(self, run_id: str, artifact: str = "") -> str:
        """The address of a run's page, or of one of its artifacts, within MLflow's pages."""
        return f"#/experiments/{self._experiment}/runs/{run_id}{f'/artifacts/{artifact}' if artifact else ''}"

    def log_text(self, run_id: str, text: str, name: str) -> None:
        """Log a text artifact."""
        self._client.log_text(run_id, text, name)

    def log_data(self, run_id: str, windows: Iterable[DataWindow]) -> None:
        """Log the windows that a run reads: MLflow's column *Dataset*."""
        self._client.log_inputs(run_id, datasets=[window.entity() for window in windows])

    def log_folder(self, run_id: str, folder: Path, beside: Mapping[str, str] = MappingProxyType({})) -> str:
        """Log the folder of a bundle or usage section; its URI. beside: further files by name."""
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

    def running(self) -> dict[str, dict[str, str]]:
        """The tags of each run that has not ended, by its id."""
        return {str(run.info.run_id): dict(run.data.tags) for run in self._pages("attributes.status = 'RUNNING'")}

    def tagged(self, tag: str, value: str) -> Iterator[RunRecord]:
        """The runs with this tag and any end, latest first."""
        yield from map(_record, self._pages(f"tags.{tag} = '{value}'"))

    def finished(self, tag: str, value: str) -> Iterator[RunRecord]:
        """The finished runs with this tag, latest first."""
        for run in self._pages(f"tags.{tag} = '{value}' and attributes.status = 'FINISHED'"):
            yield _record(run)

    def run_records(self) -> list[RunRecord]:
        """All runs, latest first."""
        return [_record(run) for run in self._pages("")]

    def children(self, run_id: str) -> list[RunRecord]:
        """The runs below a run, latest first."""
        return [record for record in self.run_records() if record.parent == run_id]

    def text(self, run_id: str, name: str) -> str:
        """A run's text artifact; TrackingError if it is gone."""
        with tempfile.TemporaryDirectory() as folder:
            source = f"{self._client.get_run(run_id).info.artifact_uri}/{name}"
            return self.download(source, Path(folder), f"run {run_id}").read_text()

    def page(self, run_id: str) -> str | None:
        """The address of a run's page on a tracking server, without secrets; else None."""
        base = str(self.uri).rstrip("/")
        return f"{base}/#/experiments/{self._experiment}/runs/{run_id}" if self.uri.is_server else None

    def runs_page(self, server: str) -> str:
        """The address of the list of runs; `server` if nothing has been logged."""
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        return server if experiment is None else f"{server}/#/experiments/{experiment.experiment_id}/runs?{RUNS_VIEW}"

    def artifact_uri(self, run_id: str) -> str:
        """The URI of a run's artifacts."""
        return str(self._client.get_run(run_id).info.artifact_uri)

    def run_metrics(self, run_id: str) -> dict[str, float]:
        """A run's metrics by name; {} if the run is gone."""
        try:
            return dict(self._client.get_run(run_id).data.metrics)
        except TrackingError as error:
            if error.code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise
            return {}

    def studies(self) -> list[dict[str, Any]]:
        """The latest finished study of each trace, as logged."""
        return self._latest(STUDY, ("trace",))

    def comparisons(self) -> list[dict[str, Any]]:
        """The latest finished comparison of each trace and name, as logged."""
        return self._latest(COMPARISON, ("trace", "comparison"))

    def download(self, source: str, folder: Path, what: str) -> Path:
        """Copy an artifact's folder into `folder`; its path. what: its owner, for an error."""
        try:
            return self._client.download(source, folder)
        except TrackingError as error:
            message = f"the artifacts of {what} must be readable at {without_secrets(source)}: {error}"
            raise TrackingError(message, error.code) from error

    def _latest(self, kind: str, tags: Sequence[str]) -> list[dict[str, Any]]:
        latest: dict[tuple[str, ...], dict[str, Any]] = {}
        for run in self._pages(f"tags.kind = '{kind}' and attributes.status = 'FINISHED'"):
            key = tuple(run.data.tags[tag] for tag in tags)
            if key not in latest:
                latest[key] = self._document(run.info.artifact_uri, f"{SYSTEM}/{kind}.json")
        return list(latest.values())

    def _pages(self, condition: str) -> Iterator[Any]:
        experiment = self._known_experiment()
        token: str | None = None if experiment is not None else ""
        while token != "":
            page = self._client.search_runs([experiment], condition, order_by=["attributes.start_time DESC"],
                                            page_token=token)
            yield from page
            token = page.token or ""

    def _document(self, artifacts: str, name: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            file = self._client.download(f"{artifacts}/{name}", Path(folder))
            document: dict[str, Any] = json.loads(file.read_text())
        return document

    def register(self, name: str, source: str, run_id: str, description: str, tags: Mapping[str, str]) -> int:
        """Register a version of a model from a run's artifact; returns the version's number.

        A run has one version of a model: if it is registered already, its number.
        """
        version_tags = {tag_name(key): str(value) for key, value in tags.items()}
        try:
            self._client.create_registered_model(name, *model_page(name, version_tags))
        except TrackingError as error:
            if error.code != "RESOURCE_ALREADY_EXISTS":
                raise
        version = self.version_of_run(name, run_id)  # of an earlier call with a lost answer
        if version is not None:
            return version
        return int(self._client.create_model_version(name, source, run_id, description=description,
                                                     tags=version_tags).version)

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Point an alias at a version. One version is never both: the champion is no challenger any more."""
        if alias == CHALLENGER and self.version_of(name, CHAMPION) == version:
            return
        if alias == CHAMPION and self.version_of(name, CHALLENGER) == version:
            self._client.delete_registered_model_alias(name, CHALLENGER)
        self._client.set_registered_model_alias(name, alias, str(version))

    def version_of(self, name: str, alias: str) -> int | None:
        """The version that an alias points at, or None; a store that does not answer is an OSError, not "none"."""
        return (self.aliases(name) or {}).get(alias)

    def version_of_run(self, name: str, run_id: str) -> int | None:
        """The version that was registered from a run, or None."""
        versions = self._client.search_model_versions(f"name = '{name}' and run_id = '{run_id}'")
        return min((int(version.version) for version in versions), default=None)

    def versions_of_run(self, run_id: str) -> list[tuple[str, int]]:
        """Names and numbers of the versions that were registered from a run."""
        return [(str(version.name), int(version.version))
                for version in self._client.search_model_versions(f"run_id = '{run_id}'")]

    def version_tags(self, name: str, version: int) -> dict[str, str]:
        """A version's tags."""
        return dict(self._client.get_model_version(name, str(version)).tags)

    def tag_version(self, name: str, version: int, tag: str, value: str) -> None:
        """Set a version's tag."""
        self._client.set_model_version_tag(name, str(version), tag, value)

    def untag_version(self, name: str, version: int, tag: str) -> None:
        """Remove a version's tag, if it has it."""
        if tag in self.version_tags(name, version):
            self._client.delete_model_version_tag(name, str(version), tag)

    def run_of(self, name: str, version: int) -> str:
        """The run that a version was registered from."""
        return str(self._client.get_model_version(name, str(version)).run_id)

    def aliases(self, name: str) -> dict[str, int] | None:
        """The versions that a registered model's aliases point at; None if there is no such model."""
        try:
            versions = self._client.get_registered_model(name).aliases
        except TrackingError as error:
            if error.code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None
        return {alias: int(version) for alias, version in sorted(versions.items())}

    def models(self) -> list[str]:
        """The names of all registered models, sorted."""
        names: list[str] = []
        token: str | None = None
        while token != "":
            page = self._client.search_registered_models(page_token=token)
            names += [model.name for model in page]
            token = page.token or ""
        return sorted(names)

    def versions(self, name: str) -> list[int]:
        """The numbers of a registered model's versions, rising."""
        return sorted(record.version for record in self.version_records(name))

    def version_records(self, name: str) -> list[VersionRecord]:
        """A registered model's versions, in no order."""
        records: list[VersionRecord] = []
        token: str | None = None
        while token != "":
            page = self._client.search_model_versions(f"name = '{name}'", page_token=token)
            records += [VersionRecord(int(version.version), int(version.creation_timestamp), str(version.run_id),
                                      dict(version.tags)) for version in page]
            token = page.token or ""
        return records

    def fetch(self, name: str, version: int, folder: Path) -> Path:
        """Copy a version's bundle into `folder`; the bundle's folder. OSError if that fails."""
        folder.mkdir(parents=True, exist_ok=True)
        source = self._client.get_model_version_download_uri(name, str(version))
        try:
            return self.download(source, folder, f"version {version}")
        except TrackingError as error:
            cleaned = self.version_tags(name, version).get(CLEANED_TAG)
            if cleaned is None:
                raise
            raise TrackingError(f"the artifacts of {name} version {version} must be there, got none: "
                                f"`sojourn store clean` removed them on {cleaned}", error.code) from error


def _record(run: Any) -> RunRecord:
    info = run.info
    return RunRecord(str(info.run_id), str(info.run_name), str(info.status), run.data.tags.get("mlflow.parentRunId"),
                     int(info.start_time), None if info.end_time is None else int(info.end_time),
                     str(info.artifact_uri), dict(run.data.tags))


def tag_name(name: str) -> str:
    """The name without characters that MLflow refuses."""
    return re.sub(r"[^\w \-./:]", "", name)


def _uri(artifacts: Path | str) -> str:
    return artifacts if isinstance(artifacts, str) else artifacts.absolute().as_uri()


def _place(uri: str) -> Path | str:
    """A form of the URI that is equal for two URIs of one place."""
    folder = local_folder(uri)
    return uri.rstrip("/") if folder is None else folder.resolve()


@dataclass(frozen=True, slots=True)
class DataWindow:
    """One window of a trace.

    name, digest: the window, and the trace's content; equal ones are one dataset. context: TRAIN,
    TEST or REPLAY. source_type, source: MLflow's origin, JSON. n_rows: requests; None = unknown.
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
    """The windows before and after the cut. trace, data_hash: name, and hash of the inputs."""
    origin, digest = _origin(source), data_hash[:12]
    later = origin if source.later is None else _origin(source.later.source)
    return (DataWindow(f"{trace} before {test_from_s} s", digest, TRAIN, *origin, n_past),
            DataWindow(f"{trace} from {test_from_s} s on", digest, TEST, *later, n_test))


def whole_trace(source: TraceSource, trace: str, data_hash: str) -> DataWindow:
    """A whole trace that is replayed."""
    name = trace if source.file is not None else f"{trace}, seed {source.seed}"
    return DataWindow(name, data_hash[:12], REPLAY, *_origin(source))


def _origin(source: TraceSource) -> tuple[str, str]:
    if source.file is not None:
        return "local", json.dumps({"uri": str(source.file.absolute())})
    settings = {"generator": "sojourn.features.synthetic", "n_requests": str(source.n_requests),
                "seed": str(source.seed)}
    return "code", json.dumps({"tags": settings})
