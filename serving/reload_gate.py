"""Lets one reload at a time through, and forks before any further one: reloads back to back cannot keep a fork waiting.

A plain lock that is taken again as soon as it is given back may never reach the thread that waits for it.
"""

from __future__ import annotations

import threading


class ReloadGate:
    """A context manager around a reload; a fork holds the gate from `before_fork` to `after_fork`.

    >>> gate = ReloadGate()
    >>> with gate:
    ...     pass
    """

    _free: threading.Condition
    _is_taken: bool
    _n_forking: int

    def __init__(self) -> None:
        self._open()

    def __enter__(self) -> None:
        with self._free:
            while self._is_taken or self._n_forking:
                self._free.wait()
            self._is_taken = True

    def __exit__(self, *_: object) -> None:
        with self._free:
            self._is_taken = False
            self._free.notify_all()

    def before_fork(self) -> None:
        """Wait for the reload under way, if any; none begins until the fork is through."""
        self._free.acquire()
        self._n_forking += 1
        while self._is_taken:
            self._free.wait()

    def after_fork(self, *, is_child: bool) -> None:
        """Let reloads go on; in the child nobody waits any more."""
        if is_child:
            self._open()
            return
        self._n_forking -= 1
        self._free.notify_all()
        self._free.release()

    def _open(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._is_taken = False
        self._n_forking = 0
