"""Settings of the jobs that can be scheduled; read before Prefect is imported, which makes its home then."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from sojourn.flows.settings.other_jobs import MonitorConfig, TrainUsageConfig
from sojourn.flows.settings.retrain import RetrainConfig

Scheduled: TypeAlias = MonitorConfig | RetrainConfig | TrainUsageConfig
JOBS: Mapping[str, type[Scheduled]] = MappingProxyType({
    "monitor": MonitorConfig, "retrain": RetrainConfig, "train-usage": TrainUsageConfig})
"""The jobs that can be scheduled, and their settings."""
_NO_PARAMETERS = ("tracking_uri",)
_PATHS = ("store", "trace", "usage_trace", "log", "retrain_config")


def parameter_schema(settings: type[Scheduled]) -> dict[str, Any]:
    """The JSON schema of a deployment's parameters: a job's settings, but for the address of a tracking server.

    >>> schema = parameter_schema(RetrainConfig)
    >>> schema["additionalProperties"], "load" in schema["properties"], "tracking_uri" in schema["properties"]
    (False, True, False)
    """
    schema = settings.model_json_schema()
    return {**schema, "properties": {name: value for name, value in schema["properties"].items()
                                     if name not in _NO_PARAMETERS}}


def settings_document(settings: Scheduled) -> dict[str, Any]:
    """The settings as JSON values for a deployment's parameters: paths absolute, no address of a tracking server.

    The address may hold a password, and Prefect keeps parameters in its database. Runs get it from the environment.

    >>> settings_document(RetrainConfig(store=Path("/s"), tracking_uri="http://me:secret@host", load=0.5))
    {'store': '/s', 'load': 0.5}
    """
    document = settings.model_dump(mode="json", exclude={*_NO_PARAMETERS}, exclude_defaults=True)
    document["store"] = str(settings.store)
    return {name: str(Path(value).absolute()) if name in _PATHS else value for name, value in document.items()}
