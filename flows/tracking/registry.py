"""Runs and versions of registered models in MLflow: registered, named by aliases, tagged, fetched, and found by
tags. Their names stand here: the experiment, kinds of runs, aliases, tags."""

from __future__ import annotations

import json
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sojourn.flows.settings.tracking_uri import TrackingUri, without_secrets
from sojourn.flows.tracking.client import TrackingClient, TrackingError

USAGE = "usage"
"""Kind of a run, and of a version, that answers about usage and not about lifetimes."""
EXPERIMENT_TAGS = MappingProxyType({
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.note.content": "Runs of Sojourn: retrains with a child for each family, studies, comparisons, checks. The "
                           "tag `kind` tells them apart; a retrain's name begins with its verdict.",
})
RUNS_VIEW = "workflowType=machine_learning"
"""Of an experiment's address: MLflow 3.17 opens on the runs then. Else it goes by what the browser showed last, at
first an overview of traces of language models, whatever `mlflow.experimentKind` says."""
EXPERIMENT = "sojourn-lifetime"
CHAMPION, CHALLENGER = "champion", "challenger"
"""Aliases of versions."""
BUNDLE = "bundle"
"""A bundle's folder among a run's artifacts."""
RETRAIN, FAMILY = "retrain", "family"
STUDY = "study"
COMPARISON = "comparison"
ROLLBACK = "rollback"
"""Kinds of runs, for the tag `kind`; of a study and of a comparison artifacts have this name, too."""
CLEANED_TAG = "cleaned"
"""On a run and on a version: when `sojourn clean` removed its artifacts."""
LEFT_TAG = "rolled_back"
"""On a version that was left for another one: why. The same bytes do not become champion again by themselves."""


def model_page(name: str, version_tags: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Tags and description of a registered model."""
    is_usage = version_tags.get("kind") == USAGE
    answers = ("how a request uses its cores over time: pulse waves and workload classes" if is_usage else
               "how long a request (VM, pod, job) stays, at any age")
    text = (f"Tells {answers}. Made by Sojourn.\n\n"
            "- `champion`: passed every gate; this one serves.\n- `challenger`: the latest that failed one; not to be "
            "deployed.\n\nA version's description begins with its verdict and says how to load it. Figures of "
            "two versions are comparable where their tag `judged_on` is the same, which "
            f"`sojourn versions {name}` shows.")
    return {"made_by": "sojourn", "answers": "usage" if is_usage else "lifetime",
            "trace": version_tags.get("trace", "")}, text


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
            raise TrackingError(message, error.code) from error

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


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """A registered version as MLflow keeps it. created_ms: since 1970, UTC."""

    version: int
    created_ms: int
    run_id: str
    tags: Mapping[str, str]


class VersionRegistry(RunReading):
    """The calls of `Tracker` about versions."""

    def register(self, name: str, source: str, run_id: str, description: str, tags: Mapping[str, str]) -> int:
        """Register a version of a model from a run's artifact; returns the version's number.

        A run has one version of a model: where it is registered already, that one's number.
        """
        version_tags = {tag_name(key): str(value) for key, value in tags.items()}
        try:
            self._client.create_registered_model(name, *model_page(name, version_tags))
        except TrackingError as error:
            if error.code != "RESOURCE_ALREADY_EXISTS":
                raise
        found = self.version_of_run(name, run_id)  # by an earlier call, whose answer was lost
        if found is not None:
            return found
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
        """The version that was registered from a run; None where there is none."""
        found = self._client.search_model_versions(f"name = '{name}' and run_id = '{run_id}'")
        return min((int(version.version) for version in found), default=None)

    def versions_of_run(self, run_id: str) -> list[tuple[str, int]]:
        """Names and numbers of the versions that were registered from a run."""
        return [(str(found.name), int(found.version))
                for found in self._client.search_model_versions(f"run_id = '{run_id}'")]

    def version_tags(self, name: str, version: int) -> dict[str, str]:
        """A version's tags."""
        return dict(self._client.get_model_version(name, str(version)).tags)

    def tag_version(self, name: str, version: int, tag: str, value: str) -> None:
        """Set a version's tag."""
        self._client.set_model_version_tag(name, str(version), tag, value)

    def untag_version(self, name: str, version: int, tag: str) -> None:
        """Remove a version's tag, where it has it."""
        if tag in self.version_tags(name, version):
            self._client.delete_model_version_tag(name, str(version), tag)

    def run_of(self, name: str, version: int) -> str:
        """The run that a version was registered from."""
        return str(self._client.get_model_version(name, str(version)).run_id)

    def aliases(self, name: str) -> dict[str, int] | None:
        """The versions that a registered model's aliases point at; None where there is no such model."""
        try:
            found = self._client.get_registered_model(name).aliases
        except TrackingError as error:
            if error.code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None
        return {alias: int(version) for alias, version in sorted(found.items())}

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
            records += [VersionRecord(int(found.version), int(found.creation_timestamp), str(found.run_id),
                                      dict(found.tags)) for found in page]
            token = page.token or ""
        return records

    def fetch(self, name: str, version: int, folder: Path) -> Path:
        """Copy a version's bundle into `folder`; returns the bundle's folder. OSError where that fails."""
        folder.mkdir(parents=True, exist_ok=True)
        source = self._client.get_model_version_download_uri(name, str(version))
        try:
            return self.download(source, folder, f"version {version}")
        except TrackingError as error:
            cleaned = self.version_tags(name, version).get(CLEANED_TAG)
            if cleaned is None:
                raise
            raise TrackingError(f"the artifacts of {name} version {version} must be there, got none: `sojourn clean` "
                                f"removed them on {cleaned}", error.code) from error


def tag_name(name: str) -> str:
    """The name with what MLflow refuses in names left out."""
    return re.sub(r"[^\w \-./:]", "", name)
