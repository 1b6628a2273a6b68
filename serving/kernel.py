"""Compiles the loops of serving and models: without Python's lock, and kept on disk.

Functions that plain Python and compiled code share are registered with numba when the first kernel is made, since
importing numba takes 0.3 s; modules of kernels are imported only if it is installed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_waiting: list[tuple[Callable[..., Any], str]] = []
"""Functions that compiled code may call and numba does not know yet, with numba's word for each."""
_registering = threading.Lock()
_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: Callable[..., Any]) -> Any:
    """The function compiled by numba, without Python's lock, and kept on disk (`sojourn.kept_kernels`)."""
    import numba
    from numba.extending import register_jitable as registered

    from sojourn.kept_kernels import keep

    with _registering:
        while _waiting:
            waiting, inline = _waiting.pop(0)
            registered(inline=inline)(waiting)
    return keep(numba.njit(nogil=True)(function), function)


_BLOCK_ROWS = 4_096


def in_blocks(n: int, fill: Callable[[slice], object]) -> None:
    """Call `fill` for blocks of n rows, on as many threads as there are cores if they are many: for kernels.

    Each row must be filled by itself, so that the number of threads changes no bit.

    >>> filled = [0] * 3
    >>> in_blocks(3, lambda block: filled.__setitem__(block, [1, 2, 3][block]))
    >>> filled
    [1, 2, 3]
    """
    n_threads = 1 if n < 2 * _BLOCK_ROWS else min(os.cpu_count() or 1, n // _BLOCK_ROWS)  # one row asks nothing
    if n_threads == 1:
        fill(slice(0, n))
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(n_threads) as threads:
        bounds = [n * idx // n_threads for idx in range(n_threads + 1)]
        list(threads.map(fill, map(slice, bounds[:-1], bounds[1:])))  # so that an error is raised


def register_jitable(function: _Function) -> _Function:
    """The function unchanged; compiled code can call it once a kernel has been made."""
    _waiting.append((function, "never"))
    return function


def register_inlined(function: _Function) -> _Function:
    """As `register_jitable`, but always inlined: for functions of many arrays, each of which costs 30 ns to pass."""
    _waiting.append((function, "always"))
    return function
