"""Compiles the loops of serving and models: without Python's lock, and kept on disk.

Functions that plain Python and compiled code share are registered with numba if it is installed;
modules of kernels are imported only then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

try:
    from numba.extending import register_jitable as _registered
except ImportError:  # numba is optional: `sojourn[fast]`
    _registered = None  # type: ignore[assignment]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: Callable[..., Any]) -> Any:
    """The function compiled by numba, without Python's lock, and kept on disk (`sojourn.kept_kernels`)."""
    import numba

    from sojourn.kept_kernels import keep

    return keep(numba.njit(nogil=True)(function), function)


def register_jitable(function: _Function) -> _Function:
    """The function unchanged; if numba is installed, compiled code can call it."""
    if _registered is not None:
        _registered(function)
    return function


def register_inlined(function: _Function) -> _Function:
    """As `register_jitable`, but always inlined: for functions of many arrays, each of which costs 30 ns to pass."""
    if _registered is not None:
        _registered(inline="always")(function)
    return function
