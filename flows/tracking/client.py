"""MLflow's client: an error of the tracking store is one line, without the secrets of its URI.

It also checks that a place can keep artifacts, counts their bytes and removes them."""

from __future__ import annotations

import http.client
import logging
import os
import re
import shutil
import socket
import tempfile
import traceback
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from sojourn.flows.settings.store import TrackingUri, without_secrets

if TYPE_CHECKING:
    from mlflow.store.artifact.artifact_repo import ArtifactRepository


_AT_FIRST = MappingProxyType({"MLFLOW_HTTP_REQUEST_TIMEOUT": "10"})
"""Settings of the first request to a server."""
_OF_ARTIFACTS = frozenset({"aiohttp", "azure", "boto3", "botocore", "google", "paramiko", "s3transfer"})
"""Packages by which MLflow keeps artifacts; it passes on their errors."""
_REASON_LIMIT = 1_000
_ASK_S = 5.0
"""The longest time until a server's first answer."""
_BOILERPLATE = re.compile(r"\[SQL: .*?(?=\(Background on this error at: |\Z)|\(Background on this error at: \S*\)",
                          re.DOTALL)
"""SQLAlchemy's statement with all its parameters, and its link, in a message."""
_LOGGING = frozenset({"alembic", "distributed", "mlflow", "optuna", "prefect", "sqlalchemy"})
"""Packages that may log a URI."""
_SQL_LOG = "mlflow.store.db.utils"
"""MLflow's logger of database errors: it logs the whole statement of an error that it also raises."""


class TrackingError(OSError):
    """A call to the tracking store failed. code: MLflow's, as RESOURCE_DOES_NOT_EXIST, or ""."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class TrackingClient:
    """An `MlflowClient` with the same methods, which fail with TrackingError.

    Opening contacts the store once, with few retries, so that a missing server is known before any
    work is done. is_asked: False = a server need not answer yet.
    """

    def __init__(self, uri: TrackingUri, *, is_asked: bool = True) -> None:
        import mlflow

        logging.getLogger("urllib3").setLevel(logging.ERROR)  # it warns of each attempt, with the address
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
        def call(*args: Any, **kwargs: Any) -> Any:
            with answering(self._uri):
                return method(*args, **kwargs)

        return call

    def download(self, artifact_uri: str, folder: Path) -> Path:
        """Copy an artifact into a folder; returns its path."""
        from mlflow.artifacts import download_artifacts

        with answering(self._uri):
            return Path(download_artifacts(artifact_uri=artifact_uri, dst_path=str(folder),
                                           tracking_uri=self._uri.plain))


@contextmanager
def answering(uri: TrackingUri) -> Iterator[None]:
    """Turn errors of MLflow, SQLAlchemy and alembic, and those with a secret, into a TrackingError.

    Its notes have the traceback without secrets. It is not chained: causes may name the URI.
    """
    from alembic.util import CommandError
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except Exception as error:
        trace = "".join(traceback.format_exception(error))
        if not isinstance(error, MlflowException | SQLAlchemyError | CommandError | RequestException | ImportError) \
                and type(error).__module__.partition(".")[0] not in _OF_ARTIFACTS and uri.public(trace) == trace:
            raise
        reason = uri.public(_on_one_line(str(error)) or type(error).__name__)
        code = str(getattr(error, "error_code", "") or "")
        problem = TrackingError(f"the tracking store must answer at {uri}, got {reason}", code)
        problem.add_note(uri.public(trace))
        raise problem from None


def ask(uri: TrackingUri) -> None:
    """TrackingError if nothing answers at a server's URI; without MLflow.

    Any answer is enough, even a refusal: MLflow reports that better. A proxy gets MLflow alone.
    """
    if not uri.is_server:
        return
    place = urlsplit(str(uri))  # without user and password, which are not sent here
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
    """The text in one line, without SQLAlchemy's statement, parameters and link; cut if long."""
    line = " ".join(_BOILERPLATE.sub("", text).split())
    return line if len(line) <= _REASON_LIMIT else f"{line[:_REASON_LIMIT].rpartition(' ')[0]} ..."


@contextmanager
def _hurried() -> Iterator[None]:
    """MLflow uses `_AT_FIRST`, unless the user has set these variables."""
    fresh = [name for name in _AT_FIRST if name not in os.environ]
    os.environ.update({name: _AT_FIRST[name] for name in fresh})
    try:
        yield
    finally:
        for name in fresh:
            os.environ.pop(name, None)


def _clean_logs() -> None:
    """Remove secrets from all later logs of the libraries, with their tracebacks."""
    known = logging.root.manager.loggerDict
    for name in [each for each in known if each.partition(".")[0] in _LOGGING]:
        for handler in logging.getLogger(name).handlers:
            handler.addFilter(_public)  # the same one again changes nothing


def _public(record: logging.LogRecord) -> bool:
    record.msg, record.args = without_secrets(record.getMessage()), ()
    if record.exc_info and not record.exc_text:  # a formatter uses this text
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    record.exc_text = without_secrets(record.exc_text) if record.exc_text else None
    return True


PROBE = ".sojourn-probe-"
"""Prefix of the small file that `check_place` writes; after a kill it is removed later."""
_NOT_THERE = "RESOURCE_DOES_NOT_EXIST"


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder, or of a file; 0 if there is none.

    >>> folder_bytes(Path("/no/such/folder"))
    0
    """
    paths = [folder] if folder.is_file() else folder.rglob("*")
    return sum(path.lstat().st_size for path in paths if path.is_file() or path.is_symlink())


def local_folder(uri: str) -> Path | None:
    """The folder of a file URI; None for any other place.

    >>> local_folder("file:///data/a%20b/artifacts")
    PosixPath('/data/a b/artifacts')
    """
    place = urlsplit(uri)
    if place.scheme == "":
        return Path(uri)
    return Path(unquote(place.path)) if place.scheme == "file" and place.netloc in ("", "localhost") else None


def check_place(tracking: TrackingUri, place: Path | str) -> None:
    """Check that artifacts can be kept at a folder or URL: write, read and remove a small file.

    ValueError if MLflow has no class for such a URL or its library is not installed, OSError if the
    file can't be written or read. New folders are removed. A place without removal keeps the file.
    """
    folder = place if isinstance(place, Path) else local_folder(place)
    name, content = f"{PROBE}{uuid.uuid4().hex}", uuid.uuid4().bytes
    shown = str(folder or place)
    if folder is None:
        try:
            repository = _repository(tracking, str(place))
        except Exception as error:  # of MLflow, or of a missing library
            raise ValueError(f"artifacts must be a folder or a URL that MLflow can write to here, got {shown!r}: "
                             f"{_one_line(error)}") from error
    try:
        if folder is not None:
            read_back = _through_folder(folder, name, content)
        else:
            read_back = _through_repository(repository, name, content)
    except Exception as error:
        raise OSError(f"artifacts must be a place that can be written and read, got {shown!r}: "
                      f"{_one_line(error)}") from error
    if read_back != content:
        raise OSError(f"artifacts must be a place that gives back what was written, got {shown!r}, which does not")


def _through_folder(folder: Path, name: str, content: bytes) -> bytes:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            (folder / name).write_bytes(content)
            return (folder / name).read_bytes()
        finally:
            (folder / name).unlink(missing_ok=True)
    finally:
        with suppress(OSError):  # another process uses them by now
            for each in missing:
                each.rmdir()


def _through_repository(repository: ArtifactRepository, name: str, content: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as temporary:
        (Path(temporary) / name).write_bytes(content)
        repository.log_artifact(str(Path(temporary) / name))  # type: ignore[no-untyped-call]
        (Path(temporary) / "back").mkdir()
        try:
            path: str = repository.download_artifacts(name, str(Path(temporary) / "back"))  # type: ignore[no-untyped-call]
            return Path(path).read_bytes()
        finally:
            with suppress(Exception):  # some places keep all
                repository.delete_artifacts(name)  # type: ignore[no-untyped-call]


def _one_line(error: Exception) -> str:
    return without_secrets(" ".join(str(error).split()) or repr(error))[:300]


def artifact_bytes(tracking: TrackingUri, uri: str) -> int:
    """Bytes of all files at an artifact URI; 0 if there are none."""
    folder = local_folder(uri)
    if folder is not None:
        return folder_bytes(folder)
    with answering(tracking):
        return _listed_bytes(_repository(tracking, uri), None)


def remove_artifacts(tracking: TrackingUri, uri: str) -> None:
    """Remove all files at an artifact URI, if there are any. OSError if that fails."""
    folder = local_folder(uri)
    if folder is not None:
        if folder.exists():
            shutil.rmtree(folder)
        return
    try:
        with answering(tracking):
            _repository(tracking, uri).delete_artifacts()  # type: ignore[no-untyped-call]
    except TrackingError as error:
        if error.code != _NOT_THERE:
            raise


def _repository(tracking: TrackingUri, uri: str) -> ArtifactRepository:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    return get_artifact_repository(uri, tracking_uri=tracking.plain)


def _listed_bytes(repository: ArtifactRepository, path: str | None) -> int:
    return sum(_listed_bytes(repository, each.path) if each.is_dir else int(each.file_size or 0)
               for each in repository.list_artifacts(path))
