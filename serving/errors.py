"""Errors that a caller of the predictor may catch, and how messages show a value."""

from __future__ import annotations

__all__ = ["BundleError", "SnapshotError"]

_N_SHOWN = 200


class BundleError(ValueError):
    """A bundle that must not be served: missing, corrupted, truncated or of another version.

    The message gives the file and the reason; a running predictor keeps its model.
    """


class SnapshotError(ValueError):
    """A snapshot of a live history that must not be used: missing, corrupted, of another definition or format.

    The message gives the file and the reason.
    """


def shown(value: object) -> str:
    """A caller's value in an error message: its repr, cut to 200 characters, or its type if it has none.

    >>> shown("two"), shown(10**5_000), len(shown("a" * 1_000_000))
    ("'two'", '<int>', 200)
    """
    try:
        text = repr(value)
    except Exception:  # a class of the caller, or an int of more digits than Python prints
        return f"<{type(value).__name__}>"
    return text if len(text) <= _N_SHOWN else text[:_N_SHOWN - 3] + "..."
