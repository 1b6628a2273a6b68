"""Checks of settings that are whole numbers: seconds, hosts, migrations. The loops would truncate a fraction."""

from __future__ import annotations

from numbers import Integral
from typing import Any


def is_whole(value: Any, least: int, below: int = 2**40) -> bool:
    """Whether a setting is a whole number from `least` to below a bound; True and False are refused.

    >>> is_whole(1.5, 0), is_whole(600, 0), is_whole(True, 0)
    (False, True, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) < below


def check_setting(value: Any, least: int, name: str, below: int = 2**40) -> None:
    """ValueError if a setting is not a whole number from `least` to below a bound.

    >>> check_setting(2.5, 1, "n_hosts")
    Traceback (most recent call last):
    ValueError: n_hosts must be a whole number, at least 1, got 2.5
    """
    if not is_whole(value, least, below):
        raise ValueError(f"{name} must be a whole number, at least {least}, got {value!r}")
