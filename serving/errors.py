"""Errors that a caller of the predictor may want to catch, and how they show a value."""

from __future__ import annotations

__all__ = ["BundleError", "SnapshotError"]

_N_SHOWN = 200


class BundleError(ValueError):
    """A bundle that must not be served: missing, corrupted, truncated or of another version.

    The message names the file and the reason; a predictor that is already running keeps its model.
    """


class SnapshotError(ValueError):
    """A snapshot of a live history that must not be used: missing, corrupted, of another definition or format.

    The message names the file and the reason.
    """


def shown(value: object) -> str:
    """A caller's value in an error message: its repr, cut to 200 characters, or its type where it has none.

    >>> shown("two"), shown(10**5_000), len(shown("a" * 1_000_000))
    ("'two'", '<int>', 200)
    """
    try:
        text = repr(value)
    except Exception:  # a caller's own class, or a whole number of more digits than Python prints
        return f"<{type(value).__name__}>"
    return text if len(text) <= _N_SHOWN else text[:_N_SHOWN - 3] + "..."
