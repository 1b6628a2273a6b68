"""Offline and quiet by default: each of these libraries makes a network call unless told otherwise.

Imported before Prefect and MLflow; a variable that the user has set is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

QUIET: Mapping[str, str] = MappingProxyType({
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "60",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "GIT_PYTHON_REFRESH": "quiet",
    "MPLBACKEND": "Agg",
})  # fmt: skip


def be_quiet() -> None:
    """Set what is not set yet."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
