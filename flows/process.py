"""How a command ends, and where Prefect's files are.

SIGTERM is an exception, so that what a process began is ended before it goes. A terminal that cannot show every
character shows something near it; one that is closed ends a command quietly.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

_HANDLER = "sojourn.near"
_NEAR = {"✓": "+", "✗": "x", "×": "x", "÷": "/", "·": ".", "…": "...", "–": "-", "→": "->", "≥": ">=", "≤": "<="}
CLOSED_OUTPUT = 141
"""Exit code where standard output was closed, as by `| head`: what a shell shows for SIGPIPE."""

EXIT_CODE = 128 + signal.SIGTERM


@contextmanager
def prefect_kept_in(store: Path) -> Iterator[None]:
    """`keep_prefect_in` for work that may be refused: no empty folder is left then that was not there before."""
    before = {place: place.exists() for place in (store / "prefect", store)}
    keep_prefect_in(store)
    try:
        yield
    except BaseException:
        for place, was_there in before.items():
            if not was_there:
                with suppress(OSError):  # not empty, or not made
                    place.rmdir()
        raise


def keep_prefect_in(store: Path) -> None:
    """Prefect's home is in the store, unless the user has set one. Prefect makes its home when it is imported."""
    if "PREFECT_HOME" not in os.environ:
        home = (store / "prefect").absolute()
        home.mkdir(parents=True, exist_ok=True)
        os.environ["PREFECT_HOME"] = str(home)


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Within the block SIGTERM raises SystemExit, with the exit code that a shell gives for it.

    Nothing changes in a thread, or where somebody else heeds SIGTERM already.
    """
    if (threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL):
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(EXIT_CODE)


def show_what_can_be_shown() -> None:
    """Standard output and error take any character: what their encoding lacks is written as one near it, or as `?`."""
    codecs.register_error(_HANDLER, _near)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors=_HANDLER)


def is_output_closed() -> bool:
    """Whether nobody reads standard output any more."""
    try:
        file = sys.stdout.fileno()
    except (OSError, ValueError):  # none, as in a test
        return False
    asked = select.poll()
    asked.register(file, 0)
    return any(events & select.POLLERR for _, events in asked.poll(0))


def end_quietly() -> NoReturn:
    """End the command: what it still has to print goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    raise SystemExit(CLOSED_OUTPUT)


def _near(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_NEAR.get(character, "?") for character in error.object[error.start:error.end]), error.end
