"""Runs that are in MLflow: found by their tags, read, copied to another store."""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.flows.outside.mlflow_pages import RUNS_VIEW
from sojourn.flows.outside.tracked_names import COMPARISON, EXPERIMENT, STUDY
from sojourn.flows.outside.tracking_client import TrackingClient, TrackingError
from sojourn.flows.settings.tracking_uri import TrackingUri, without_secrets


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as MLflow keeps it. parent: its run, None for one of its own. start_ms, ended_ms: since 1970, UTC."""

    run_id: str
    name: str
    status: str
    parent: str | None
    start_ms: int
    ended_ms: int | None
    artifact_uri: str
    tags: Mapping[str, str]


class RunReading(ABC):
    """The calls of `Tracker` that read runs; its URI, client and experiment are the tracker's."""

    uri: TrackingUri
    _client: TrackingClient

    @property
    @abstractmethod
    def _experiment(self) -> str:
        """The experiment's id; it is made if there is none."""

    @abstractmethod
    def _found_experiment(self) -> str | None:
        """The experiment's id; None where nothing was logged yet. Nothing is made."""

    def running(self) -> dict[str, dict[str, str]]:
        """The tags of each run that has not ended, by its id."""
        return {str(run.info.run_id): dict(run.data.tags) for run in self._pages("attributes.status = 'RUNNING'")}

    def tagged(self, tag: str, value: str) -> Iterator[RunRecord]:
        """The runs with this tag, latest first, however they ended."""
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
        """A run's text artifact; TrackingError where it is gone."""
        with tempfile.TemporaryDirectory() as folder:
            source = f"{self._client.get_run(run_id).info.artifact_uri}/{name}"
            return self.download(source, Path(folder), f"run {run_id}").read_text()

    def page(self, run_id: str) -> str | None:
        """The address of a run's page on a tracking server, without its secrets; None where there is no server."""
        base = str(self.uri).rstrip("/")
        return f"{base}/#/experiments/{self._experiment}/runs/{run_id}" if self.uri.is_server else None

    def runs_page(self, server: str) -> str:
        """The address of the list of runs; the server's own where nothing has been logged. server: its address."""
        found = self._client.get_experiment_by_name(EXPERIMENT)
        return server if found is None else f"{server}/#/experiments/{found.experiment_id}?{RUNS_VIEW}"

    def artifact_uri(self, run_id: str) -> str:
        """Where a run's artifacts are."""
        return str(self._client.get_run(run_id).info.artifact_uri)

    def run_metrics(self, run_id: str) -> dict[str, float]:
        """A run's metrics by name; {} where the run is gone."""
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
        """Copy an artifact's folder into `folder`; returns where it is. what: whose it is, for an error."""
        try:
            return self._client.download(source, folder)
        except TrackingError as error:
            message = f"the artifacts of {what} must be readable at {without_secrets(source)}: {error}"
            raise TrackingError(message, error.code, is_away=error.is_away) from error

    def _latest(self, kind: str, tags: Sequence[str]) -> list[dict[str, Any]]:
        latest: dict[tuple[str, ...], dict[str, Any]] = {}
        for run in self._pages(f"tags.kind = '{kind}' and attributes.status = 'FINISHED'"):
            key = tuple(run.data.tags[tag] for tag in tags)
            if key not in latest:
                latest[key] = self._document(run.info.artifact_uri, f"{kind}.json")
        return list(latest.values())

    def _pages(self, wanted: str) -> Iterator[Any]:
        """The runs that a filter lets through, latest first."""
        experiment = self._found_experiment()
        token: str | None = None if experiment is not None else ""
        while token != "":
            page = self._client.search_runs([experiment], wanted, order_by=["attributes.start_time DESC"],
                                            page_token=token)
            yield from page
            token = page.token or ""

    def _document(self, artifacts: str, name: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            found: dict[str, Any] = json.loads(self._client.download(f"{artifacts}/{name}", Path(folder)).read_text())
        return found


def _record(run: Any) -> RunRecord:
    info = run.info
    return RunRecord(str(info.run_id), str(info.run_name), str(info.status), run.data.tags.get("mlflow.parentRunId"),
                     int(info.start_time), None if info.end_time is None else int(info.end_time),
                     str(info.artifact_uri), dict(run.data.tags))
