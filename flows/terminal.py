"""A terminal that cannot show every character shows something near it; one that is closed ends a command quietly."""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from typing import NoReturn

_HANDLER = "sojourn.near"
_NEAR = {"✓": "+", "✗": "x", "×": "x", "÷": "/", "·": ".", "…": "...", "–": "-", "→": "->", "≥": ">=", "≤": "<="}
CLOSED_OUTPUT = 141
"""Exit code where standard output was closed, as by `| head`: what a shell shows for SIGPIPE."""


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
