"""Locks of a store. Its file names the holder of each; the kernel releases a lock when its process ends.

- The store's: who makes its database, promotes, rolls back or cleans does so alone. Others wait.
- A model's: one run writes it, from its begin to its end. A second one is refused. And one for each schedule.
- That of use, shared by all processes that write to the store: who gets it alone knows that all others are dead.

A pid can be used again, and means nothing on another host or in another container; a lock is seen wherever the folder
is seen.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from sojourn.flows.console import console

LOCK = "store.lock"
TIMEOUT_S = 600.0
"""Longer than the upgrade of a large database takes; who still waits then waits for a process that hangs."""
_PAUSE_S, _FIRST_WORD_S, _NEXT_WORD_S = 0.1, 1.0, 30.0
_N_BYTES_MAX = 4_096
_GROUPS = [[name] for name in ("model", "serve", "trace", "usage", "store", "lab")]
USE = "use.lock"
"""The file of the lock of use; it holds the store's id."""
_used: dict[tuple[int, Path], int] = {}
"""By process and store: the descriptor whose lock says that this process uses the store."""
_guard = threading.Lock()


@contextmanager
def store_lock(store: Path, timeout_s: float = TIMEOUT_S,
               tell: Callable[[str], object] | None = None) -> Iterator[None]:
    """Hold the store's lock; the kernel releases it when the process ends, however that ends.

    Not to be taken again by who holds it: a second one of the same process waits like any other. tell: called with a
    line while another process holds it; default: the console. TimeoutError naming the holder after `timeout_s`.
    """
    with _held(store / LOCK, lambda file: _wait(file, store, timeout_s, tell or _print)):
        yield


@contextmanager
def schedule_lock(store: Path, job: str, name: str) -> Iterator[None]:
    """Hold the lock of a job's schedule of a model; ValueError naming the process where another one holds it."""
    with held_alone(store / "schedules" / f"{job}-{name}.lock", lambda holder: ValueError(
            f"{job} of {name} must have one schedule in a store, got a second one: stop {holder} first")):
        yield


@contextmanager
def model_lock(store: Path, name: str) -> Iterator[None]:
    """Hold the lock of a model's writer; BlockingIOError naming the process if another one holds it."""
    with held_alone(store / "writers" / f"{name}.lock", lambda holder: BlockingIOError(
            f"{name} must have one writer at a time, got a second one: wait for {holder}, or stop it")):
        yield


@contextmanager
def held_alone(file: Path, refused: Callable[[str], Exception]) -> Iterator[None]:
    """Hold the lock of a file, which names this process meanwhile; nobody waits for it.

    refused: makes the error where another one holds it, of the words for that process: its host is named if it is
    another one.
    """
    def take(descriptor: int) -> None:
        if is_locked(descriptor):
            raise refused(_holder(descriptor))

    with _held(file, take):
        yield


@contextmanager
def _held(file: Path, take: Callable[[int], None]) -> Iterator[None]:
    """The file, open, with its lock, which `take` takes, and with the name of this process in it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        take(descriptor)
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
    words = [Path(sys.argv[0]).name if sys.argv else "", *sys.argv[1:3 if sys.argv[1:2] in _GROUPS else 2]]
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


def use_store(store: Path) -> bool:
    """This process uses the store from now until it ends; True at its first call, if no other process uses it.

    The caller holds the store's lock, so nobody begins meanwhile: what runs left behind is then of dead ones.
    """
    with _guard:
        if _key(store) in _used:
            return False
        file = _used[_key(store)] = os.open(store / USE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        is_shared = is_locked(file)
        is_locked(file, fcntl.LOCK_SH)
        return not is_shared


def is_alone(store: Path) -> bool:
    """Whether no other process uses the store. The caller holds the store's lock."""
    with _guard:
        own = _used.get(_key(store))
        try:
            file = os.open(store / USE, os.O_RDWR | os.O_CLOEXEC) if own is None else own
        except FileNotFoundError:
            return True  # no process has used it yet
        try:
            return not is_locked(file)
        finally:
            if own is None:
                os.close(file)
            else:
                is_locked(file, fcntl.LOCK_SH)


def store_id(store: Path) -> str:
    """The store's name in tags of its runs: random, made once. The caller holds the store's lock."""
    with (store / USE).open("a+") as file:
        file.seek(0)
        found = file.read() or uuid.uuid4().hex
        if file.tell() == 0:
            file.write(found)
    return found


def _key(store: Path) -> tuple[int, Path]:
    return os.getpid(), store.absolute()
