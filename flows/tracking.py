"""The one module that talks to MLflow: runs, figures, the registry and its aliases."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPERIMENT = "sojourn-lifetime"
CHAMPION, CHALLENGER = "champion", "challenger"
STUDY = "study"
COMPARISON = "comparison"
"""Tags and artifact names of a study's and of a comparison's run."""
_PARAM_LIMIT, _BATCH_LIMIT = 500, 1_000
_ML_MODEL = """\
artifact_path: bundle
flavors:
  onnx:
    data: model.onnx
    providers: [CPUExecutionProvider]
run_id: {run_id}
signature:
  inputs: '[{{"name": "rows", "type": "tensor", "tensor-spec": {{"dtype": "float64", "shape": [-1, {n_features}]}}}}]'
  outputs: '[{{"name": "scores", "type": "tensor", "tensor-spec": {{"dtype": "float64", "shape": [-1, 1]}}}}]'
"""


class Tracker:
    """MLflow's tracking store and registry at one URI; artifacts lie in a folder beside the store."""

    def __init__(self, uri: str, artifacts: Path) -> None:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        logging.getLogger("alembic").setLevel(logging.WARNING)
        import mlflow
        from mlflow.entities import Metric, Param, RunTag

        if uri.startswith("sqlite:///"):
            Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        self.uri = uri
        self._client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
        self._metric, self._param, self._tag = Metric, Param, RunTag
        self._artifacts = artifacts

    @cached_property
    def _experiment(self) -> str:
        found = self._client.get_experiment_by_name(EXPERIMENT)
        return found.experiment_id if found else self._client.create_experiment(
            EXPERIMENT, artifact_location=self._artifacts.absolute().as_uri())

    def start(self, name: str, tags: Mapping[str, str], parent: str | None = None) -> str:
        """Begin a run (a child of `parent`); returns its id."""
        if parent is not None:
            tags = {**tags, "mlflow.parentRunId": parent}
        run = self._client.create_run(self._experiment, tags={key: str(value) for key, value in tags.items()},
                                      run_name=name)
        return str(run.info.run_id)

    def log(self, run_id: str, params: Mapping[str, Any] | None = None,
            metrics: Mapping[str, float] | None = None) -> None:
        """Log parameters and finite metrics in one call."""
        now_ms = int(time.time() * 1000)
        self._client.log_batch(
            run_id,
            metrics=[self._metric(_tag_name(name), float(value), now_ms, 0)
                     for name, value in (metrics or {}).items() if math.isfinite(value)],
            params=[self._param(name, str(value)[:_PARAM_LIMIT]) for name, value in (params or {}).items()],
        )  # fmt: skip

    def log_by_step(self, run_id: str, metrics: Mapping[int, Mapping[str, float]]) -> None:
        """Log finite metrics, each under several steps."""
        now_ms = int(time.time() * 1000)
        every = [self._metric(_tag_name(name), float(value), now_ms, step)
                 for step, values in metrics.items() for name, value in values.items() if math.isfinite(value)]
        for first in range(0, len(every), _BATCH_LIMIT):
            self._client.log_batch(run_id, metrics=every[first:first + _BATCH_LIMIT])

    def log_figure(self, run_id: str, figure: Figure, name: str) -> None:
        """Log a matplotlib figure as a PNG artifact."""
        self._client.log_figure(run_id, figure, name)

    def log_text(self, run_id: str, text: str, name: str) -> None:
        """Log a text artifact."""
        self._client.log_text(run_id, text, name)

    def log_bundle(self, run_id: str, folder: Path, n_features: int) -> str:
        """Log a bundle folder with an MLmodel file beside it (signature, ONNX flavour); returns its URI.

        The bundle's own files stay as they are; the predictor reads only these.
        """
        self._client.log_artifacts(run_id, str(folder), "bundle")
        self._client.log_text(run_id, _ML_MODEL.format(run_id=run_id, n_features=n_features), "bundle/MLmodel")
        return f"{self._client.get_run(run_id).info.artifact_uri}/bundle"

    def end(self, run_id: str, status: str = "FINISHED") -> None:
        """End a run."""
        self._client.set_terminated(run_id, status)

    def register(self, name: str, source: str, run_id: str, description: str, tags: Mapping[str, str]) -> int:
        """Register a version of a model from a run's artifact; returns the version's number."""
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        version = self._client.create_model_version(name, source, run_id, description=description,
                                                    tags={_tag_name(key): str(value) for key, value in tags.items()})
        return int(version.version)

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Point an alias at a version; the last step of a promotion."""
        self._client.set_registered_model_alias(name, alias, str(version))

    def version_of(self, name: str, alias: str) -> int | None:
        """The version that an alias points at, or None; a store that does not answer is an OSError, not "none"."""
        return (self.aliases(name) or {}).get(alias)

    def aliases(self, name: str) -> dict[str, int] | None:
        """The versions that a registered model's aliases point at; None where there is no such model."""
        from mlflow.exceptions import MlflowException

        with self._answering():
            try:
                found = self._client.get_registered_model(name).aliases
            except MlflowException as error:
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
                return None
        return {alias: int(version) for alias, version in sorted(found.items())}

    def models(self) -> list[str]:
        """The names of all registered models, sorted."""
        names: list[str] = []
        token: str | None = None
        with self._answering():
            while token != "":
                page = self._client.search_registered_models(page_token=token)
                names += [model.name for model in page]
                token = page.token or ""
        return sorted(names)

    def versions(self, name: str) -> list[int]:
        """The numbers of a registered model's versions, rising."""
        numbers: list[int] = []
        token: str | None = None
        with self._answering():
            while token != "":
                page = self._client.search_model_versions(f"name = '{name}'", page_token=token)
                numbers += [int(version.version) for version in page]
                token = page.token or ""
        return sorted(numbers)

    def studies(self) -> list[dict[str, Any]]:
        """The latest finished study of each trace, as logged."""
        return self._latest(STUDY, ("trace",))

    def comparisons(self) -> list[dict[str, Any]]:
        """The latest finished comparison of each trace and name, as logged."""
        return self._latest(COMPARISON, ("trace", "comparison"))

    def _latest(self, kind: str, tags: Sequence[str]) -> list[dict[str, Any]]:
        from mlflow.artifacts import load_dict

        latest: dict[tuple[str, ...], dict[str, Any]] = {}
        token: str | None = None
        while token != "":
            page = self._client.search_runs([self._experiment], f"tags.kind = '{kind}' and "
                                            "attributes.status = 'FINISHED'",
                                            order_by=["attributes.start_time DESC"], page_token=token)
            for run in page:
                key = tuple(run.data.tags[tag] for tag in tags)
                if key not in latest:
                    latest[key] = load_dict(f"{run.info.artifact_uri}/{kind}.json")
            token = page.token or ""
        return list(latest.values())

    def fetch(self, name: str, version: int, folder: Path) -> Path:
        """Copy a version's bundle into `folder`; returns the bundle's folder. OSError where that fails."""
        from mlflow.artifacts import download_artifacts
        from mlflow.exceptions import MlflowException

        folder.mkdir(parents=True, exist_ok=True)
        with self._answering():
            source = self._client.get_model_version_download_uri(name, str(version))
        try:
            return Path(download_artifacts(artifact_uri=source, dst_path=str(folder), tracking_uri=self.uri))
        except MlflowException as error:
            message = f"the artifacts of version {version} must be readable at {source}: {error}"
            raise OSError(_public(message)) from error

    @contextmanager
    def _answering(self) -> Iterator[None]:
        from mlflow.exceptions import MlflowException

        try:
            yield
        except MlflowException as error:
            reason = str(error).splitlines()[0][:300]
            raise OSError(_public(f"the tracking store must answer at {self.uri}, got {reason}")) from error


def _tag_name(name: str) -> str:
    """The name with what MLflow refuses in names left out."""
    return re.sub(r"[^\w \-./:]", "", name)


def _public(message: str) -> str:
    """The message with user names and passwords left out of its URIs.

    >>> _public("no answer at http://me:secret@host/path")
    'no answer at http://host/path'
    """
    return re.sub(r"//[^/@\s]*@", "//", message)
