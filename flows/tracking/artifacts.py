"""What runs keep as artifacts: whether a place can keep them, how many bytes, and their removal."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from sojourn.flows.settings.tracking_uri import TrackingUri, without_secrets
from sojourn.flows.tracking.client import TrackingError, answering

if TYPE_CHECKING:
    from mlflow.store.artifact.artifact_repo import ArtifactRepository

PROBE = ".sojourn-probe-"
"""What the name of the small file begins with that `check_place` writes; one that a kill left is removed later."""
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


def check_place(tracking: TrackingUri, place: Path | str) -> None:
    """See that artifacts can be kept at a folder or URL: a small file is written, read back and removed.

    ValueError where no class of MLflow is for such a URL or its library is not installed, OSError where the place does
    not take or give the file. Folders that were made for it go again. A place that lets nobody remove keeps the file.
    """
    folder = place if isinstance(place, Path) else local_folder(place)
    name, content = f"{PROBE}{uuid.uuid4().hex}", uuid.uuid4().bytes
    shown = str(folder or place)
    if folder is None:
        try:
            repository = _repository(tracking, str(place))
        except Exception as error:  # what MLflow or a library that is absent raises
            raise ValueError(f"artifacts must be a folder or a URL that MLflow can write to here, got {shown!r}: "
                             f"{_one_line(error)}") from error
    try:
        if folder is not None:
            found = _through_folder(folder, name, content)
        else:
            found = _through_repository(repository, name, content)
    except Exception as error:
        raise OSError(f"artifacts must be a place that can be written and read, got {shown!r}: "
                      f"{_one_line(error)}") from error
    if found != content:
        raise OSError(f"artifacts must be a place that gives back what was written, got {shown!r}, which does not")


def _through_folder(folder: Path, name: str, content: bytes) -> bytes:
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            (folder / name).write_bytes(content)
            return (folder / name).read_bytes()
        finally:
            (folder / name).unlink(missing_ok=True)
    finally:
        with suppress(OSError):  # another process uses them by now
            for each in made:
                each.rmdir()


def _through_repository(repository: ArtifactRepository, name: str, content: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / name).write_bytes(content)
        repository.log_artifact(str(Path(made) / name))  # type: ignore[no-untyped-call]
        (Path(made) / "back").mkdir()
        try:
            found: str = repository.download_artifacts(name, str(Path(made) / "back"))  # type: ignore[no-untyped-call]
            return Path(found).read_bytes()
        finally:
            with suppress(Exception):  # some places keep all
                repository.delete_artifacts(name)  # type: ignore[no-untyped-call]


def _one_line(error: Exception) -> str:
    return without_secrets(" ".join(str(error).split()) or repr(error))[:300]


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

    return get_artifact_repository(uri, tracking_uri=tracking.plain)


def _listed_bytes(repository: ArtifactRepository, path: str | None) -> int:
    return sum(_listed_bytes(repository, each.path) if each.is_dir else int(each.file_size or 0)
               for each in repository.list_artifacts(path))
