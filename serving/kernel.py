"""The one way by which compiled loops of serving and models are made: without Python's lock, and kept on disk.

Imported only where numba is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from sojourn.kept_kernels import keep


def kernel(function: Callable[..., Any]) -> Any:
    """The function compiled by numba, without Python's lock, and kept on disk (`sojourn.kept_kernels`)."""
    return keep(numba.njit(nogil=True)(function), function)
