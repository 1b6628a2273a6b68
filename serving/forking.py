"""Forks: the child finds every lock free, the history whole and its watchers running.

A fork waits until no other thread holds a predictor's locks: microseconds, or as long as a reload
takes. It also waits until numba compiles nothing: else a child that needs compiled code would wait
for ever.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Any, Protocol


class Forking(Protocol):
    """An object that takes part in forks."""

    def before_fork(self) -> None:
        """Take all locks that no other thread may hold during a fork."""
        ...

    def after_fork(self, *, is_child: bool) -> None:
        """Release them; in the child, which has only the forking thread, also restart other threads."""
        ...


_LIVE: weakref.WeakSet[Forking] = weakref.WeakSet()
_HELD: list[Forking] = []
_COMPILER: list[Any] = []
"""numba's lock, while a fork holds it."""
_LOCK = threading.Lock()


def join_forks(forking: Forking) -> None:
    """Let an object take part in every fork from now on, as long as it exists."""
    with _LOCK:
        _LIVE.add(forking)


def _before() -> None:
    _LOCK.acquire()
    for one in list(_LIVE):
        one.before_fork()
        _HELD.append(one)
    module = sys.modules.get("numba.core.compiler_lock")  # only if numba was imported
    lock = getattr(module, "global_compiler_lock", None)
    if lock is not None:
        lock.acquire()  # last: a thread that answers may compile, a thread that compiles does not answer
        _COMPILER.append(lock)


def _after(*, is_child: bool) -> None:
    while _COMPILER:
        _COMPILER.pop().release()
    forking_objects = _HELD.copy()
    _HELD.clear()
    _LOCK.release()
    for one in forking_objects:
        one.after_fork(is_child=is_child)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before, after_in_parent=lambda: _after(is_child=False),
                        after_in_child=lambda: _after(is_child=True))  # fmt: skip
