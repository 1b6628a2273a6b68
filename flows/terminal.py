"""A terminal that cannot show every character shows something near it, and never ends a command."""

from __future__ import annotations

import codecs
import io
import sys

_HANDLER = "sojourn.near"
_NEAR = {"✓": "+", "✗": "x", "×": "x", "÷": "/", "·": ".", "…": "...", "–": "-", "→": "->", "≥": ">=", "≤": "<="}


def show_what_can_be_shown() -> None:
    """Standard output and error take any character: what their encoding lacks is written as one near it, or as `?`."""
    codecs.register_error(_HANDLER, _near)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors=_HANDLER)


def _near(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_NEAR.get(character, "?") for character in error.object[error.start:error.end]), error.end
