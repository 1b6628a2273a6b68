"""The one way kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """The function compiled by numba; typed as itself. Division by zero gives inf or nan, as in numpy."""
    return cast(_Function, numba.njit(error_model="numpy")(function))
