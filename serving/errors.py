"""Errors that a caller of the predictor may want to catch."""

__all__ = ["BundleError"]


class BundleError(ValueError):
    """A bundle that must not be served: missing, corrupted, truncated or of another version.

    The message names the file and the reason; a predictor that is already running keeps its model.
    """
