"""Checks of what callers give."""

from __future__ import annotations

import math
import operator
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from sojourn.serving.errors import shown

Moment = int | float | datetime
"""A time as callers give it: seconds, or a datetime with a time zone."""
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


def clock_second(value: Any, name: str) -> int:
    """The second in which a moment lies, as an int: of a whole number, a float or a datetime with a time zone.

    A datetime is its Unix second. ValueError for anything else, a boolean and a time too far away among it.

    >>> from datetime import UTC, datetime
    >>> clock_second(7.9, "now_s"), clock_second(datetime(2026, 11, 1, tzinfo=UTC), "now_s")
    (7, 1793491200)
    >>> clock_second(datetime(2026, 11, 1), "now_s")
    Traceback (most recent call last):
    ValueError: now_s must be seconds or a datetime with a time zone, got datetime.datetime(2026, 11, 1, 0, 0)
    """
    if type(value) is int and -LATEST_S < value < LATEST_S:
        return value
    seconds: Any = value
    if isinstance(value, datetime):
        seconds = None if value.tzinfo is None else value.timestamp()
    try:
        seconds = math.floor(seconds) if isinstance(seconds, float) else operator.index(seconds)
    except (TypeError, ValueError, OverflowError):  # no number, NaN, infinite
        seconds = LATEST_S
    if isinstance(value, bool) or not -LATEST_S < seconds < LATEST_S:
        raise ValueError(f"{name} must be seconds or a datetime with a time zone, got {shown(value)}")
    return int(seconds)


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
