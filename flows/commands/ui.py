"""`sojourn ui`: MLflow's pages of a store."""

from __future__ import annotations

import os
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.options import plain_errors


@plain_errors
def ui(
    store: Annotated[Path | None, typer.Option(
        help="Folder of all stores; SOJOURN_TRACKING_URI may name a database. [default: .sojourn]")] = None,
    port: Annotated[int, typer.Option(help="Port on the loopback interface.")] = 5000,
) -> None:
    """Open the MLflow UI on the store, on the loopback interface only."""
    import_module("flask")  # of the whole MLflow: without it the server ends with a traceback
    from sojourn.flows.settings.store import StoreSettings, load_settings
    from sojourn.flows.versions.reading import read_store

    config = load_settings(StoreSettings, store=store)
    uri = config.mlflow_uri
    if uri.is_server:
        raise ValueError(f"ui must be given a store or a database: the tracking server has pages of its own, see {uri}")
    tracker = read_store(config)  # upgraded before it is opened
    _check_free(port)
    typer.echo(f"MLflow UI on {tracker.runs_page(f'http://127.0.0.1:{port}')} (Ctrl-C ends it)")
    # in the environment: every user of the machine sees command lines
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                   "MLFLOW_BACKEND_STORE_URI": uri.with_driver}
    arguments = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    os.execve(sys.executable, arguments, environment)


def _check_free(port: int) -> None:
    """OSError naming the port where nothing can listen on it: MLflow's own process would end, and its parent stay."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that was closed a moment ago is free
        try:
            tried.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise OSError(f"port must be one that is free, got {port} ({getattr(error, 'strerror', None) or error})"
                          ) from error
