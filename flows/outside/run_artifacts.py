"""What runs keep as artifacts: how many bytes, and their removal, wherever MLflow keeps them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from sojourn.flows.outside.tracking_client import TrackingError, answering
from sojourn.flows.tracking_uri import TrackingUri

if TYPE_CHECKING:
    from mlflow.store.artifact.artifact_repo import ArtifactRepository

_NOT_THERE = "RESOURCE_DOES_NOT_EXIST"


def folder_bytes(folder: Path) -> int:
    """Bytes of all files in a folder, or of a file; 0 where there is none.

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


def artifact_bytes(tracking: TrackingUri, uri: str) -> int:
    """Bytes of all that lies at an artifact URI; 0 where nothing does."""
    folder = local_folder(uri)
    if folder is not None:
        return folder_bytes(folder)
    with answering(tracking):
        return _listed_bytes(_repository(tracking, uri), None)


def remove_artifacts(tracking: TrackingUri, uri: str) -> None:
    """Remove all that lies at an artifact URI; nothing happens where nothing does. OSError where it can't be done."""
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

    return get_artifact_repository(uri, tracking_uri=tracking.with_driver)


def _listed_bytes(repository: ArtifactRepository, path: str | None) -> int:
    return sum(_listed_bytes(repository, each.path) if each.is_dir else int(each.file_size or 0)
               for each in repository.list_artifacts(path))
