"""MLflow's client behind one door: an error of the tracking store is one line, without the secrets of its URI."""

from __future__ import annotations

import http.client
import logging
import os
import re
import socket
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from sojourn.flows.settings.tracking_uri import TrackingUri, without_secrets

_AT_FIRST = MappingProxyType({"MLFLOW_HTTP_REQUEST_TIMEOUT": "10"})
"""How a server is asked for the first time."""
_OF_ARTIFACTS = frozenset({"aiohttp", "azure", "boto3", "botocore", "google", "paramiko", "s3transfer"})
"""Packages that MLflow keeps artifacts with, and whose own errors it passes on."""
_REASON_LIMIT = 1_000
_ASK_S = 5.0
"""How long a server may take, at first, to say anything at all."""
_BOILERPLATE = re.compile(r"\[SQL: .*?(?=\(Background on this error at: |\Z)|\(Background on this error at: \S*\)",
                          re.DOTALL)
"""SQLAlchemy's statement with all its parameters, and its link."""
_LOGGING = frozenset({"alembic", "distributed", "mlflow", "optuna", "prefect", "sqlalchemy"})
"""Packages that may log a URI."""
_SQL_LOG = "mlflow.store.db.utils"
"""Where MLflow logs a database's error with the whole statement, before it raises the same."""


class TrackingError(OSError):
    """The tracking store did not do as asked. code: MLflow's word for why, such as RESOURCE_DOES_NOT_EXIST, or ""."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class TrackingClient:
    """An `MlflowClient`, by its methods' names, whose failures are a TrackingError.

    Opening asks the store once, with few retries, so that a server that is away is known before any work is done.
    is_asked: False = a server need not answer yet.
    """

    def __init__(self, uri: TrackingUri, *, is_asked: bool = True) -> None:
        import mlflow

        logging.getLogger("urllib3").setLevel(logging.ERROR)  # it warns of each attempt, the address with it
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        _clean_logs()
        logging.getLogger(_SQL_LOG).setLevel(logging.CRITICAL)
        self._uri = uri
        if uri.database is not None:
            uri.database.parent.mkdir(parents=True, exist_ok=True)
        with answering(uri), _hurried():
            self._client = mlflow.MlflowClient(tracking_uri=uri.plain, registry_uri=uri.plain)
            if uri.is_server and is_asked:
                self._client.search_experiments(max_results=1)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._client, name)

        @wraps(method)
        def asked(*args: Any, **kwargs: Any) -> Any:
            with answering(self._uri):
                return method(*args, **kwargs)

        return asked

    def download(self, artifact_uri: str, folder: Path) -> Path:
        """Copy an artifact into a folder; returns where it is."""
        from mlflow.artifacts import download_artifacts

        with answering(self._uri):
            return Path(download_artifacts(artifact_uri=artifact_uri, dst_path=str(folder),
                                           tracking_uri=self._uri.plain))


@contextmanager
def answering(uri: TrackingUri) -> Iterator[None]:
    """What MLflow, SQLAlchemy and alembic raise within is one TrackingError, and so is any other error that holds a
    secret of the URI.

    The traceback stands in its notes, without secrets. It is not chained: the messages of the errors before it may
    hold the URI.
    """
    from alembic.util import CommandError
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except Exception as error:
        told = "".join(traceback.format_exception(error))
        if not isinstance(error, MlflowException | SQLAlchemyError | CommandError | RequestException | ImportError) \
                and type(error).__module__.partition(".")[0] not in _OF_ARTIFACTS and uri.public(told) == told:
            raise
        reason = uri.public(_on_one_line(str(error)) or type(error).__name__)
        code = str(getattr(error, "error_code", "") or "")
        problem = TrackingError(f"the tracking store must answer at {uri}, got {reason}", code)
        problem.add_note(uri.public(told))
        raise problem from None


def ask(uri: TrackingUri) -> None:
    """TrackingError where nothing answers at a server's URI; without MLflow.

    Any answer will do, a refusal too: what is refused, and by whom, MLflow says better. Behind a proxy, MLflow alone
    knows the way.
    """
    if not uri.is_server:
        return
    place = urlsplit(str(uri))  # without user and password, which no server is told here
    host, is_tls = place.hostname or "", place.scheme == "https"
    if place.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        return
    try:
        port = place.port or (443 if is_tls else 80)
        with socket.create_connection((host, port), _ASK_S) as door:
            if not is_tls:
                door.sendall(f"GET /health HTTP/1.0\r\nHost: {place.netloc}\r\n\r\n".encode())
                http.client.HTTPResponse(door).begin()
    except TimeoutError:
        raise TrackingError(f"the tracking store must answer at {uri}, got no answer within {_ASK_S:g} s") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise TrackingError(f"the tracking store must answer at {uri}, got {_on_one_line(str(error))}") from None


def _on_one_line(text: str) -> str:
    """The text without line breaks, SQLAlchemy's statement, its parameters and its link; whole, unless it is a page."""
    line = " ".join(_BOILERPLATE.sub("", text).split())
    return line if len(line) <= _REASON_LIMIT else f"{line[:_REASON_LIMIT].rpartition(' ')[0]} ..."


@contextmanager
def _hurried() -> Iterator[None]:
    """MLflow asks a server with `_AT_FIRST`, where the user has not set it otherwise."""
    fresh = [name for name in _AT_FIRST if name not in os.environ]
    os.environ.update({name: _AT_FIRST[name] for name in fresh})
    try:
        yield
    finally:
        for name in fresh:
            os.environ.pop(name, None)


def _clean_logs() -> None:
    """Leave secrets out of what the libraries log from now on, tracebacks included."""
    known = logging.root.manager.loggerDict
    for name in [each for each in known if each.partition(".")[0] in _LOGGING]:
        for handler in logging.getLogger(name).handlers:
            handler.addFilter(_public)  # the same one again changes nothing


def _public(record: logging.LogRecord) -> bool:
    record.msg, record.args = without_secrets(record.getMessage()), ()
    if record.exc_info and not record.exc_text:  # a formatter takes the text that is there
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    record.exc_text = without_secrets(record.exc_text) if record.exc_text else None
    return True
