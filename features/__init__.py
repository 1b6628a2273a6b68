"""Data: readers, the Trace, feature rows and owner history."""

from sojourn.features.trace import Roles, Trace

__all__ = ["Roles", "Trace"]
