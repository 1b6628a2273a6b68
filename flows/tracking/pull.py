"""Publishes a registered version's bundle in the folder that a scheduler loads and watches."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sojourn.publishing import FRESH, OLD, publish_files
from sojourn.serving import BundleError, Predictor, load_bundle
from sojourn.serving.bundle import FILES, MANIFEST
from sojourn.serving.usage import USAGE_FILES, load_usage

_PULL = "pull."
_URI = re.compile("models:/(?P<name>[^/]+?)(?:@(?P<alias>[^/@]+)|/(?P<version>[1-9][0-9]*))")


class Registry(Protocol):
    """A model registry's methods for pulling, as of `Tracker`; OSError if it does not answer."""

    def aliases(self, name: str) -> dict[str, int] | None: ...
    def models(self) -> list[str]: ...
    def versions(self, name: str) -> list[int]: ...
    def fetch(self, name: str, version: int, folder: Path) -> Path: ...


@dataclass(frozen=True, slots=True)
class ModelUri:
    """A registered model's alias, or one of its versions; the other is None."""

    name: str
    alias: str | None
    version: int | None

    @classmethod
    def parse(cls, text: str) -> ModelUri:
        """From `models:/NAME@ALIAS` or `models:/NAME/VERSION`; ValueError for anything else.

        >>> ModelUri.parse("models:/sojourn-lifetime@champion")
        ModelUri(name='sojourn-lifetime', alias='champion', version=None)
        """
        match = _URI.fullmatch(text)
        if match is None:
            raise ValueError(f"uri must be models:/NAME@ALIAS or models:/NAME/VERSION, got {text!r}")
        return cls(match["name"], match["alias"], int(match["version"]) if match["version"] else None)


@dataclass(frozen=True, slots=True)
class Pulled:
    """A registered version and its bundle's version. is_new: the folder held another one, or none."""

    name: str
    version: int
    bundle_version: str
    is_new: bool

    def __str__(self) -> str:
        """One line for a terminal."""
        known = "" if self.is_new else " (there already)"
        return f"{self.name} version {self.version}, bundle {self.bundle_version}{known}"


def find_version(registry: Registry, uri: ModelUri) -> int:
    """The version of the URI now; ValueError names the known ones if there is none."""
    aliases = registry.aliases(uri.name)
    if aliases is None:
        raise ValueError(f"the registered model must be one of {_named(registry.models())}, got {uri.name!r}")
    if uri.alias is not None:
        if uri.alias not in aliases:
            raise ValueError(f"the alias of {uri.name} must be one of {_named(aliases)}, got {uri.alias!r}")
        if aliases[uri.alias] not in registry.versions(uri.name):
            raise ValueError(f"the alias {uri.alias} of {uri.name} must point at a registered version, got "
                             f"{aliases[uri.alias]}, which is gone")
        return aliases[uri.alias]
    versions = registry.versions(uri.name)
    if uri.version not in versions:
        raise ValueError(f"the version of {uri.name} must be one of {_named(versions)}, got {uri.version}")
    return uri.version


def pull(registry: Registry, name: str, version: int, folder: Path) -> Pulled:
    """Publish a registered version's bundle or usage section in a folder, only if it can be served.

    BundleError if it cannot, OSError if the registry or the disk fails, ValueError if the folder
    has other files than those of a bundle. Then the folder does not change.
    """
    target = folder.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _swept(target), tempfile.TemporaryDirectory(prefix=f".{target.name}.{_PULL}", dir=target.parent) as fresh:
        fetched = registry.fetch(name, version, Path(fresh))
        files = USAGE_FILES if (fetched / USAGE_FILES[0]).is_file() else FILES
        bundle_version = load_usage(fetched).version if files == USAGE_FILES else Predictor.load(fetched).version
        is_new = not _holds(target, bundle_version)
        if is_new:
            # Only the verified files: the registry keeps an MLmodel file beside the bundle.
            contents = {file: (fetched / file).read_bytes() for file in (*files, MANIFEST)}
            publish_files(target, contents, MANIFEST, others={*FILES, *USAGE_FILES})
    return Pulled(name, version, bundle_version, is_new)


def follow(registry: Registry, uri: ModelUri, folder: Path, interval_s: float, report: Callable[[str], object],
           wait: Callable[[float], bool]) -> None:
    """Pull whenever the URI points at another version, until `wait(interval_s)` is True.

    report: called with a line for each pulled version and each new problem. Problems never end it,
    except a ValueError before the first version. A refused version is not pulled again.
    """
    done: int | None = None
    reported = ""
    while True:
        version, line = done, ""
        try:
            version = find_version(registry, uri)
            if version != done:
                report(f"pulled   {pull(registry, uri.name, version, folder)}")
                done = version
        except BundleError as error:
            done, line = version, f"refused  {uri.name} version {version}: {error}"
        except OSError as error:
            line = f"waiting  {error}"
        except ValueError as error:
            if done is None:
                raise
            line = f"waiting  {error}"
        if line and line != reported:
            report(line)
        reported = line
        if wait(interval_s):
            return


def follow_until_interrupted(registry: Registry, uri: ModelUri, folder: Path, interval_s: float,
                             report: Callable[[str], object]) -> None:
    """`follow` until Ctrl-C or SIGTERM; it finishes a begun publish first."""
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # In another thread, as interrupts reach only the main thread: none falls between two renames.
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(follow, registry, uri, folder, interval_s, report, is_over.wait)
        try:
            work.result()
        except KeyboardInterrupt:
            is_over.set()
            report("stopped")


@contextmanager
def _swept(target: Path) -> Iterator[None]:
    """Remove files of killed pulls beside a folder, unless another pull works there. Each holds a
    shared lock on the parent folder, which leaves no file."""
    parent = os.open(target.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # another pull works; or the file system has no locks on folders
            fcntl.flock(parent, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover = re.compile(rf"\.{re.escape(target.name)}\.(?:{'|'.join(map(re.escape, (_PULL, FRESH, OLD)))})?"
                                  "[a-z0-9_]{8}")
            for path in target.parent.iterdir():
                if leftover.fullmatch(path.name):
                    shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):
            fcntl.flock(parent, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(parent)


def _holds(folder: Path, version: str) -> bool:
    try:
        return (load_usage if (folder / USAGE_FILES[0]).is_file() else load_bundle)(folder).version == version
    except BundleError:
        return False


def _named(known: Iterable[object]) -> str:
    return ", ".join(map(str, known)) or "none yet"
