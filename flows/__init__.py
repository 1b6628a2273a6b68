"""How a team runs it: Prefect flows, MLflow tracking, configuration, the command line.

Importing it sets the environment of the libraries that it uses, before any of them is imported: what they would do
otherwise, unless the environment says so. They are offline, quiet and good neighbours; a variable that the user has set
is left alone.
"""

import os

__all__ = ["QUIET", "be_quiet"]

QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
    "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
    "PREFECT_TASKS_DEFAULT_NO_CACHE": "true",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "MPLBACKEND": "Agg",
}  # fmt: skip
"""MLflow prints a run's address with the password of its server. Prefect writes a failed run's exception by its
serializer, by default as a pickle; and for its caches, of which none is used here, it would pickle and hash each
task's arguments. MLflow's own 7 retries take minutes, in which nothing is said."""


def be_quiet() -> None:
    """Set what is not set yet."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


be_quiet()
