"""Values out of a bundle's JSON: each of the type that it should have, and no more of them than stated here.

The limits lie far above what training writes; they bound what a small hostile file can make a loader or a request do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.serving.errors import shown

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
"""Earlier requests that a bundle carries to be explained against."""
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
    """A schema's `history`, its numbers within HISTORY_MAX; what else it must be, its definition checks."""
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
