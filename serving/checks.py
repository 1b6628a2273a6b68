"""Checks of what callers give."""

from __future__ import annotations

import operator
import os
from pathlib import Path
from typing import Any

from sojourn.serving.errors import shown

LATEST_S = 2**53
"""Later seconds are no longer told apart by doubles."""


def whole_seconds(value: Any, name: str) -> int:
    """The value as an int; ValueError where it is no whole number of seconds, or a boolean.

    >>> whole_seconds(7, "now_s")
    7
    >>> whole_seconds(7.5, "now_s")
    Traceback (most recent call last):
    ValueError: now_s must be whole seconds, got 7.5
    """
    if type(value) is int and -LATEST_S < value < LATEST_S:
        return value
    try:
        seconds = operator.index(value)
    except TypeError:
        seconds = LATEST_S
    if isinstance(value, bool) or not -LATEST_S < seconds < LATEST_S:
        raise ValueError(f"{name} must be whole seconds, got {shown(value)}")
    return seconds


def folder_path(value: Any, name: str) -> Path:
    """The value as the path of a folder; ValueError for what is no path that a system can have.

    >>> folder_path(None, "folder")
    Traceback (most recent call last):
    ValueError: folder must be the path of a folder, got None
    """
    try:
        path = os.fspath(value)
        is_path = isinstance(path, str) and bool(path) and b"\0" not in os.fsencode(path)
    except (TypeError, ValueError):  # ValueError: a text that the file system's encoding does not know
        is_path = False
    if not is_path:
        raise ValueError(f"{name} must be the path of a folder, got {shown(value)}")
    return Path(path)
