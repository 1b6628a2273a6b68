"""Functions that plain Python and compiled code share: `register_jitable` where numba is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

try:
    from numba.extending import register_jitable as _registered
except ImportError:  # numba is optional: `sojourn[fast]`
    _registered = None  # type: ignore[assignment]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def register_jitable(function: _Function) -> _Function:
    """The function as it is, made known to compiled code where numba is installed."""
    if _registered is not None:
        _registered(function)
    return function


def register_inlined(function: _Function) -> _Function:
    """As `register_jitable`, but always inlined: for functions of many arrays, which cost 30 ns to hand over."""
    if _registered is not None:
        _registered(inline="always")(function)
    return function
