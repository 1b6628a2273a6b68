"""First answers and lookups in C, as an extension that is built when Sojourn is installed.

`NATIVE` is the extension, or None if it was not built (no C compiler at the installation from source): answers then
take the other ways, with the same bits. A file of another version of the source is not used. The C itself: `curves.h`
(curves and lookups), `model.h` (from a request to its curve), `compiled.c` (the module). May import nothing.
"""

from typing import Any

_INTERFACE = 1
"""That of the C in this source; a change of what Python calls needs another number here and in `compiled.c`."""

try:
    from sojourn.serving.native import compiled as _found
except ImportError:
    _found = None  # type: ignore[assignment]
NATIVE: Any = _found if getattr(_found, "INTERFACE", None) == _INTERFACE else None
"""The extension; None if it was not built."""

__all__ = ["NATIVE"]
