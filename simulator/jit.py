"""The one way kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar, cast

import numba

from sojourn.kept_kernels import keep

KERNEL_OPTIONS: Mapping[str, Any] = MappingProxyType({"error_model": "numpy", "_nrt": False})
"""How everything in the loop is compiled."""
_njit: Any = numba.njit  # its stubs do not know these options
_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """The function compiled by numba; typed as itself. Division by zero gives inf or nan, as in numpy.

    It may not make arrays: they would have to be counted, and numba counts each array of each argument at each call,
    which costs twenty times what an event does. An index past an array's end is an error in functions of others, who
    have no slow twin that is tested; in our own it is not looked at. A kernel is returned as it is.
    """
    if is_kernel(function):
        return function
    if not isinstance(function, FunctionType):
        raise ValueError(f"function must be a plain Python function, got {what(function)}")
    return cast(_Function, _njit(boundscheck=not is_own(function), **KERNEL_OPTIONS)(function))


def kept_kernel(function: _Function) -> _Function:
    """A kernel of our own that Python calls, kept on disk under a hash of all source that is compiled into it. For one
    whose callees are fixed; a loop composed with a policy is kept by `engine/compilation.py`."""
    return cast(_Function, keep(kernel(function), function))


def is_kernel(function: Any) -> bool:
    """Whether it was made by `kernel`: compiled by numba, with bounds checks or knowingly without."""
    return getattr(function, "targetoptions", {}).get("boundscheck") is not None


def what(function: Any) -> str:
    """What was given in place of a kernel, for an error."""
    if hasattr(function, "targetoptions"):
        return "a function made with numba.njit"
    return "a plain function" if isinstance(function, FunctionType) else repr(function)


def is_own(function: Callable[..., Any]) -> bool:
    """Whether the function is the simulator's own."""
    return f"{function.__module__}.".startswith("sojourn.simulator.")


def inner(function: _Function) -> _Function:
    """A kernel that only other kernels call: without the wrappers by which Python would, which take half of the time
    to compile."""
    return cast(_Function, _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **KERNEL_OPTIONS)(function))


def inlined(function: _Function) -> _Function:
    """An inner kernel whose body stands wherever it is called: for what every event goes through, since passing the
    world by value costs more than the work."""
    options = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **KERNEL_OPTIONS}
    return cast(_Function, _njit(**options)(function))
