"""One lock per store: who makes its database or promotes does so alone, and its file says who that is.

And one for each schedule.

Which processes use a store: each holds the lock of a file of its own there for as long as it lives.

A pid can be used again, and means nothing on another host or in another container; a lock is released by the kernel
when its process ends, and seen wherever the folder is seen.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sojourn.flows.console import console

LOCK = "store.lock"
TIMEOUT_S = 600.0
"""Longer than the upgrade of a large database takes; who still waits then waits for a process that hangs."""
_PAUSE_S, _FIRST_WORD_S, _NEXT_WORD_S = 0.1, 1.0, 30.0
_N_BYTES_MAX = 4_096
PROCESSES = "processes"
_CLOCK_S = 2.0
"""By so much the clocks of a host and of its file system may differ."""
PROCESS_TAG = "sojourn.process"
"""The tag of an MLflow run that names the process which writes it."""
_entered: dict[tuple[int, Path], StoreProcess] = {}
_guard = threading.Lock()


@contextmanager
def store_lock(store: Path, timeout_s: float = TIMEOUT_S,
               tell: Callable[[str], object] | None = None) -> Iterator[None]:
    """Hold the store's lock; the kernel releases it when the process ends, however that ends.

    Not to be taken again by who holds it: a second one of the same process waits like any other. tell: called with a
    line while another process holds it; default: the console. TimeoutError naming the holder after `timeout_s`.
    """
    store.mkdir(parents=True, exist_ok=True)
    file = os.open(store / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _wait(file, store, timeout_s, tell or _print)
        _write(file, json.dumps(whoami()).encode())
        try:
            yield
        finally:
            _write(file, b"")
    finally:
        os.close(file)


@contextmanager
def schedule_lock(store: Path, job: str, name: str) -> Iterator[None]:
    """Hold the lock of a job's schedule of a model; ValueError naming the process where another one holds it."""
    def refused(holder: str) -> Exception:
        return ValueError(f"{job} of {name} must have one schedule in a store, got a second one: stop {holder} first")

    with held_alone(store / "schedules" / f"{job}-{name}.lock", refused):
        yield


@contextmanager
def held_alone(file: Path, refused: Callable[[str], Exception]) -> Iterator[None]:
    """Hold the lock of a file, which names this process meanwhile; nobody waits for it.

    refused: makes the error where another one holds it, of the words for that process: its host is named if it is
    another one.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if is_locked(descriptor):
            raise refused(_holder(descriptor))
        _write(descriptor, json.dumps(whoami()).encode())
        try:
            yield
        finally:
            _write(descriptor, b"")
    finally:
        os.close(descriptor)


def is_locked(file: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Take the lock of an open file for this process, unless another holds it; True where another does.

    kind: LOCK_SH for a file that is open for reading alone, which some file systems lock in no other way.
    """
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(f"the store must lie on a file system with locks (flock), got {error.strerror}") from error
        raise
    return False


def whoami() -> dict[str, str | int]:
    """Host, pid, command and time of now (UTC) of this process; the command without its arguments."""
    words = [Path(sys.argv[0]).name if sys.argv else "", *sys.argv[1:2]]
    command = " ".join(word for word in words if word and not word.startswith("-")) or "python"
    return {"host": socket.gethostname(), "pid": os.getpid(), "command": command,
            "since": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")}


def _wait(file: int, store: Path, timeout_s: float, tell: Callable[[str], object]) -> None:
    started = time.monotonic()
    next_word_s = _FIRST_WORD_S
    while is_locked(file):
        waited_s = time.monotonic() - started
        if waited_s >= timeout_s:
            raise TimeoutError(f"{_in_use(file, store)}: waited {waited_s:.0f} s")
        if waited_s >= next_word_s:
            tell(f"waiting  {_in_use(file, store)}: {waited_s:.0f} s of at most {timeout_s:.0f} s")
            next_word_s = waited_s + _NEXT_WORD_S
        time.sleep(_PAUSE_S)


def _in_use(file: int, store: Path) -> str:
    return f"the store {store.absolute()} is in use by {_holder(file)}"


def _holder(file: int) -> str:
    try:
        holder = json.loads(os.pread(file, _N_BYTES_MAX, 0))
        where = "" if holder["host"] == socket.gethostname() else f" on {holder['host']}"
        return f"process {holder['pid']}{where} ({holder['command']}, since {holder['since']})"
    except (ValueError, KeyError, TypeError):  # it has just begun, or its disk is full
        return "another process"


def _write(file: int, content: bytes) -> None:
    with suppress(OSError):  # a full disk: the lock holds without a name
        os.ftruncate(file, 0)
        os.pwrite(file, content, 0)


def _print(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False)


@dataclass(frozen=True, slots=True)
class StoreProcess:
    """This process in one store. token: its name there. file: the descriptor whose lock says that it lives."""

    token: str
    file: int

    def tags(self) -> Mapping[str, str]:
        """Tags for what this process writes elsewhere: its token; host, pid and time for people."""
        return {PROCESS_TAG: self.token, **{f"sojourn.{name}": str(value) for name, value in whoami().items()}}


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
