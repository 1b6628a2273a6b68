"""What is known: readers, the Trace, feature rows and owner history."""

from sojourn.features.trace import Trace

__all__ = ["Trace"]
