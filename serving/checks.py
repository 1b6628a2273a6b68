"""Checks of arguments, and of the types and number of values in a bundle's JSON.

The limits are far above what training writes; they bound the cost of a small hostile file.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sojourn.serving.errors import shown

Moment = int | float | datetime
"""A time: seconds, or a datetime with a time zone."""
LATEST_S = 2**53
"""A double cannot distinguish later seconds."""


def whole_seconds(value: Any, name: str) -> int:
    """The value as an int; ValueError if it is not a whole number of seconds, or a boolean.

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
    """The whole second of a moment (an int, a float or a datetime with a time zone), as an int.

    A datetime gives its Unix second. ValueError for anything else, a boolean or a time too far
    away.

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
    """The value as the path of a folder; ValueError if it cannot be a path.

    >>> folder_path(None, "folder")
    Traceback (most recent call last):
    ValueError: folder must be the path of a folder, got None
    """
    try:
        path = os.fspath(value)
        is_path = isinstance(path, str) and bool(path) and b"\0" not in os.fsencode(path)
    except (TypeError, ValueError):  # ValueError: text outside the file system's encoding
        is_path = False
    if not is_path:
        raise ValueError(f"{name} must be the path of a folder, got {shown(value)}")
    return Path(path)


N_COLUMNS_MAX = 256
"""Request columns of a model, numbers and names together."""
N_KEYS_MAX = 64
"""History keys of a model, each of at most N_KEY_COLUMNS_MAX columns."""
N_KEY_COLUMNS_MAX = 16
N_INTERVALS_MAX = 1_000
"""Intervals of a hazard model."""
N_SAMPLES_MAX = 10_000
"""Sampling uptimes, and quantiles of residuals."""
N_BACKGROUND_MAX = 64
"""Earlier requests in a bundle, as background of explanations."""
N_TEXT_MAX = 512
"""Characters of a name."""
HISTORY_MAX: Mapping[str, int] = {
    "window": 10_000, "n_keys_max": 10_000_000, "category_memory": 2**53, "batch_gap_s": 2**53,
    "instant_s": 2**31 - 1,
}  # fmt: skip


def text(value: Any, name: str) -> str:
    """The value, if it is text of at most N_TEXT_MAX characters; else ValueError."""
    if not isinstance(value, str) or len(value) > N_TEXT_MAX:
        raise ValueError(f"{name} must be text of at most {N_TEXT_MAX} characters, got {shown(value)}")
    return value


def texts(value: Any, name: str, most: int) -> tuple[str, ...]:
    """A list of at most `most` texts."""
    return tuple(text(element, name) for element in sequence(value, name, most))


def sequence(value: Any, name: str, most: int) -> Sequence[Any]:
    """The value, if it is a list of at most `most` elements; else ValueError."""
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list, got {shown(value)}")
    if len(value) > most:
        raise ValueError(f"{name} must have at most {most} elements, got {len(value)}")
    return value


def number(value: Any, name: str) -> float:
    """The value as a float, NaN and infinity included; ValueError for another type or a number too large for one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, got {shown(value)}")
    return float(value)


def numbers(value: Any, name: str, most: int) -> tuple[float, ...]:
    """A list of at most `most` numbers."""
    return tuple(number(element, name) for element in sequence(value, name, most))


def history_fields(document: Any) -> dict[str, Any]:
    """A schema's `history`, its numbers within HISTORY_MAX; `HistoryDefinition` checks the rest."""
    if not isinstance(document, dict):
        raise ValueError(f"history must be an object, got {shown(document)}")
    for key in sequence(document["keys"], "history keys", N_KEYS_MAX):
        text(key["name"], "the name of a history key")
        texts(key["columns"], "the columns of a history key", N_KEY_COLUMNS_MAX)
    for name, most in HISTORY_MAX.items():
        value = document.get(name, 1)
        if isinstance(value, int) and value > most:
            raise ValueError(f"{name} must be at most {most}, got {shown(value)}")
    strength = document.get("prior_strength")
    if strength is not None:
        number(strength, "prior_strength")
    return document
