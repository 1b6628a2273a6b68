"""Who works: one at a time; whoever works for long lets those who wait go first now and then."""

from __future__ import annotations

import threading


class Turns:
    """A lock, to be used with `with`, whose holder can let another one go first.

    >>> turns = Turns()
    >>> with turns:
    ...     turns.pass_on()  # nobody waits
    """

    def __init__(self) -> None:
        self._next = threading.Lock()  # held by whoever is next
        self._work = threading.Lock()

    def __enter__(self) -> None:
        with self._next:
            self._work.acquire()

    def __exit__(self, *_: object) -> None:
        self._work.release()

    def pass_on(self) -> None:
        """Let one who waits work first; called by the holder. A plain lock would mostly come back to its holder."""
        self.__exit__()
        self.__enter__()
