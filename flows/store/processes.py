"""Which processes use a store: each holds the lock of a file of its own there for as long as it lives.

A pid can be used again, and means nothing on another host or in another container; a lock is released by the kernel
when its process ends, and seen wherever the folder is seen.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sojourn.flows.store.lock import is_locked, whoami

PROCESSES = "processes"
_CLOCK_S = 2.0
"""By so much the clocks of a host and of its file system may differ."""
PROCESS_TAG = "sojourn.process"
"""The tag of an MLflow run that names the process which writes it."""


@dataclass(frozen=True, slots=True)
class StoreProcess:
    """This process in one store. token: its name there. file: the descriptor whose lock says that it lives."""

    token: str
    file: int

    def tags(self) -> Mapping[str, str]:
        """Tags for what this process writes elsewhere: its token; host, pid and time for people."""
        return {PROCESS_TAG: self.token, **{f"sojourn.{name}": str(value) for name, value in whoami().items()}}


_entered: dict[tuple[int, Path], StoreProcess] = {}
_guard = threading.Lock()


def enter_store(store: Path) -> StoreProcess:
    """This process in a store, from now until it ends; the same one when asked again."""
    key = os.getpid(), store.absolute()
    with _guard:
        if key not in _entered:
            _entered[key] = _begin(store)
        return _entered[key]


def is_alive(store: Path, token: str) -> bool:
    """True while the process of that token lives. Nothing is written: the store may be read-only, or another user's."""
    try:
        file = os.open(_file(store, token), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return is_locked(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def tokens(store: Path) -> list[str]:
    """The tokens of all processes that live in the store, or died and were not forgotten yet; sorted."""
    return sorted(path.stem for path in (store / PROCESSES).glob("[!.]*.json"))


def forget(store: Path, token: str) -> None:
    """Remove what a dead process left here of itself."""
    _file(store, token).unlink(missing_ok=True)


def since_s(store: Path) -> float:
    """When the oldest living process entered the store, s on the clock of its files; what is older has no owner.

    With no living process: infinity. With one that entered in the future, as the clock was set back since: minus
    infinity, for what it writes now looks older than it is.
    """
    times = [float("inf")]
    for token in tokens(store):
        with suppress(FileNotFoundError):
            if is_alive(store, token):
                times.append(_file(store, token).stat().st_mtime)
    return min(times) if max(times[1:], default=0.0) <= time.time() + _CLOCK_S else float("-inf")


def _begin(store: Path) -> StoreProcess:
    token = uuid.uuid4().hex
    file = _file(store, token)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        is_locked(descriptor)  # before anyone can see it: what is seen without a lock is dead
        os.write(descriptor, json.dumps(whoami()).encode())
        temporary.rename(file)
    except BaseException:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
        raise
    return StoreProcess(token, descriptor)


def _file(store: Path, token: str) -> Path:
    return store / PROCESSES / f"{token}.json"
