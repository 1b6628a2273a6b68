"""Settings of the jobs that can be scheduled; read before Prefect is imported, which makes its home then."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from sojourn.flows.config import RetrainConfig
from sojourn.flows.usage_config import TrainUsageConfig

Scheduled: TypeAlias = RetrainConfig | TrainUsageConfig
JOBS: Mapping[str, type[Scheduled]] = MappingProxyType({"retrain": RetrainConfig, "train-usage": TrainUsageConfig})
"""The jobs that can be scheduled, and their settings."""
_PATHS = ("store", "trace", "usage_trace")


def settings_document(settings: Scheduled) -> dict[str, Any]:
    """The settings as JSON values for a deployment's parameters: paths absolute, no address of a tracking server.

    The address may hold a password, and Prefect keeps parameters in its database. Runs get it from the environment.

    >>> settings_document(RetrainConfig(store=Path("/s"), tracking_uri="http://me:secret@host", load=0.5))
    {'store': '/s', 'load': 0.5}
    """
    document = settings.model_dump(mode="json", exclude={"tracking_uri"}, exclude_defaults=True)
    document["store"] = str(settings.store)
    return {name: str(Path(value).absolute()) if name in _PATHS else value for name, value in document.items()}
