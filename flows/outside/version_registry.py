"""Versions of registered models in MLflow: registered, named by aliases, tagged, fetched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sojourn.flows.outside.mlflow_pages import model_page
from sojourn.flows.outside.postgres_database import advisory_lock
from sojourn.flows.outside.run_reading import RunReading
from sojourn.flows.outside.tracked_names import CHALLENGER, CHAMPION, CLEANED_TAG, tag_name
from sojourn.flows.outside.tracking_client import TrackingError


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
        def registered() -> int:
            found = self.version_of_run(name, run_id)  # by an earlier question, whose answer was lost
            if found is not None:
                return found
            return int(self._client.create_model_version(name, source, run_id, description=description,
                                                         tags=version_tags).version)

        return self._client.patiently(registered)

    @contextmanager
    def alone_with(self, name: str) -> Iterator[None]:
        """No other store that shares a PostgreSQL database promotes or rolls back this model meanwhile.

        Elsewhere it holds nothing: an SQLite file is covered by the lock of its store, and a server has no locks.
        """
        if not self.uri.is_postgres:
            yield
            return
        with advisory_lock(self.uri, f"model {name}"):
            yield

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
            cleaned = self.version_tags(name, version).get(CLEANED_TAG) if not error.is_away else None
            if cleaned is None:
                raise
            raise TrackingError(f"the artifacts of {name} version {version} must be there, got none: `sojourn clean` "
                                f"removed them on {cleaned}", error.code) from error
