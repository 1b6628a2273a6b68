"""Artifacts of MLflow on any file system that fsspec knows and MLflow itself does not.

MLflow finds this class by its entry points (group `mlflow.artifact_repository` in pyproject.toml), so that its own
pages and `mlflow.pyfunc` read such artifacts, too. MLflow has its own classes for s3, gs, wasbs,
abfss, ftp, sftp and hdfs."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow.entities import FileInfo
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST, TEMPORARILY_UNAVAILABLE
from mlflow.store.artifact.artifact_repo import ArtifactRepository

_ROOM = frozenset({13, 28, 30, 122})
"""EACCES, ENOSPC, EROFS, EDQUOT: asking again does not help."""


class FsspecArtifactRepository(ArtifactRepository):
    """Files below one URL. A file that is cut off in mid-upload is not told from a whole one: bundles have hashes."""

    def __init__(self, artifact_uri: str, tracking_uri: str | None = None, registry_uri: str | None = None) -> None:
        super().__init__(artifact_uri, tracking_uri, registry_uri)
        import fsspec

        scheme, _, rest = artifact_uri.partition(":")
        # MLflow writes memory:///a as memory:/a, which fsspec takes for a path below the working folder
        url = artifact_uri if rest.startswith("//") else f"{scheme}://{rest}"
        with _reported(artifact_uri):
            self._files, self._root = fsspec.core.url_to_fs(url)

    def log_artifact(self, local_file: str, artifact_path: str | None = None) -> None:
        """Copy a file into a folder below the URL."""
        folder = self._place(artifact_path)
        with _reported(self.artifact_uri):
            self._files.makedirs(folder, exist_ok=True)
            self._files.put_file(local_file, posixpath.join(folder, Path(local_file).name))

    def log_artifacts(self, local_dir: str, artifact_path: str | None = None) -> None:
        """Copy all files of a folder."""
        top = Path(local_dir)
        for path in sorted(path for path in top.rglob("*") if path.is_file()):
            inner = path.parent.relative_to(top).as_posix()
            folder = "" if inner == "." else inner
            self.log_artifact(str(path), posixpath.join(artifact_path or "", folder) or None)

    def list_artifacts(self, path: str | None = None) -> list[Any]:
        """The files and folders in a folder; none where it is a file, or is not there."""
        place = self._place(path)
        with _reported(self.artifact_uri):
            if not self._files.isdir(place):
                return []
            found = self._files.ls(place, detail=True)
        return sorted((FileInfo(posixpath.relpath(each["name"], self._root),
                                each["type"] == "directory", None if each["type"] == "directory" else each["size"])
                       for each in found), key=lambda info: info.path)

    def delete_artifacts(self, artifact_path: str | None = None) -> None:
        """Remove a file or folder with all that it holds, where it is there."""
        place = self._place(artifact_path)
        with _reported(self.artifact_uri):
            if self._files.exists(place):
                self._files.rm(place, recursive=True)

    def _download_file(self, remote_file_path: str, local_path: str) -> None:
        with _reported(self.artifact_uri):
            self._files.get_file(self._place(remote_file_path), local_path)

    def _place(self, path: str | None) -> str:
        parts = posixpath.normpath(path or ".")
        if parts.startswith(("..", "/")):
            raise MlflowException.invalid_parameter_value(
                f"artifact_path must lie below {self.artifact_uri}, got {path!r}")
        return self._root if parts == "." else posixpath.join(self._root, parts)


@contextmanager
def _reported(uri: str) -> Iterator[None]:
    """What the file system raises is an error of MLflow: not there, or away."""
    try:
        yield
    except FileNotFoundError as error:
        raise MlflowException(f"No such artifact: {error}", error_code=RESOURCE_DOES_NOT_EXIST) from error
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _ROOM:
            raise
        raise MlflowException(f"{uri} must be readable and writable, got {error!r}",
                              error_code=TEMPORARILY_UNAVAILABLE) from error
