"""How kernels are compiled: all of them with the same options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar, cast

import numba

from sojourn.kept_kernels import keep

KERNEL_OPTIONS: Mapping[str, Any] = MappingProxyType({"error_model": "numpy", "_nrt": False})
"""Options of everything in the loop."""
_njit: Any = numba.njit  # its stubs do not know these options
_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """The function compiled by numba, without Python's lock; typed as itself. Division by zero: inf or nan.

    It may not make arrays: numba would then count references to each array of each argument at each
    call, which costs twenty times as much as an event. In functions of users an index past an
    array's end is an error; in ours it is not checked, as each has a slow twin in the tests. A kernel
    is returned unchanged.
    """
    if is_kernel(function):
        return function
    if not isinstance(function, FunctionType):
        raise ValueError(f"function must be a plain Python function, got {what(function)}")
    return cast(_Function, _njit(boundscheck=not is_own(function), nogil=True, **KERNEL_OPTIONS)(function))


def kept_kernel(function: _Function) -> _Function:
    """One of our kernels that Python calls, cached on disk under a hash of all source compiled into it.

    Its callees must be fixed; `engine/compilation.py` caches loops composed with a policy."""
    return cast(_Function, keep(kernel(function), function))


def is_kernel(function: Any) -> bool:
    """Whether `kernel`, which alone sets `boundscheck`, compiled the function."""
    return getattr(function, "targetoptions", {}).get("boundscheck") is not None


def what(function: Any) -> str:
    """The words of an error for something that is not a kernel."""
    if hasattr(function, "targetoptions"):
        return "a function made with numba.njit"
    return "a plain function" if isinstance(function, FunctionType) else repr(function)


def is_own(function: Callable[..., Any]) -> bool:
    """Whether the function belongs to the simulator, and not to a user."""
    return f"{function.__module__}.".startswith("sojourn.simulator.")


def inner(function: _Function) -> _Function:
    """A kernel that only kernels call: it has no wrapper for Python, which takes half of the compilation."""
    return cast(_Function, _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **KERNEL_OPTIONS)(function))


def inlined(function: _Function) -> _Function:
    """An inner kernel that is inlined at each call: to pass the world by value costs more than the work."""
    options = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **KERNEL_OPTIONS}
    return cast(_Function, _njit(**options)(function))
