"""A policy written in NumPy: the compiled loop calls it through the address of a C callback."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sojourn.simulator.cluster import Cluster, Request
from sojourn.simulator.jit import inner
from sojourn.simulator.loop.occupancy import fits, is_allowed
from sojourn.simulator.loop.state import BAD_SCORE, NOT_PLACED, World

MOST_LEVELS = 8
"""The most scores of a host."""
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Asking(NamedTuple):
    """The function's address and the array for its scores; the state of a policy written in NumPy.

    address: int64 (1,). scores: float64 (MOST_LEVELS, n_hosts).
    """

    address: np.ndarray
    scores: np.ndarray


def asking(n_hosts: int) -> Asking:
    """The state before the first call."""
    return Asking(np.zeros(1, np.int64), np.zeros((MOST_LEVELS, n_hosts)))


@intrinsic
def ask_python(typingctx: Any, address: Any, place: Any, exit_s: Any, age_s: Any, now: Any) -> Any:
    """Call the function at the address; the number of levels of scores that it wrote, or a negative
    number."""
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        function = builder.inttoptr(args[0], ir.FunctionType(word, [word] * 4).as_pointer())
        return builder.call(function, args[1:])

    return types.int64(*[types.int64] * 5), codegen


@inner
def best_scored(world: World, request: Request, n_levels: int) -> int:
    """The host with room that has the lowest scores, lexicographically; the lowest index among
    equals."""
    scores = world.cluster.state.scores
    best, best_first = NOT_PLACED, np.inf
    for host in range(len(world.hosts)):
        first = scores[0, host]
        if first > best_first or (n_levels == 1 and first == best_first):
            continue  # most hosts end here, and of the others most are full
        if not fits(world.cluster, host, request.need) or not is_allowed(world, host, request.place):
            continue
        is_better, is_out = best == NOT_PLACED, False
        for level in range(n_levels):
            score = scores[level, host]
            if not score >= 0:  # or NaN
                return BAD_SCORE
            if score == np.inf:
                is_out = True
                break
            if best != NOT_PLACED and not is_better:
                if score > scores[level, best]:
                    is_out = True
                    break
                is_better = score < scores[level, best]
        if is_better and not is_out:
            best, best_first = host, first
    return best


def visible(cluster: Cluster) -> Cluster:
    """The cluster for a NumPy policy: the same arrays, read-only, without the engine's state."""
    arrays = {name: read_only(array) for name, array in cluster._asdict().items() if name != "state"}
    return Cluster(**arrays)


def read_only(array: np.ndarray) -> np.ndarray:
    """The same array, read-only: its base is a read-only buffer, so NumPy refuses `setflags`."""
    if array.dtype.kind in "mM":  # times are no numbers of a buffer
        return read_only(array.view(np.int64)).view(array.dtype)
    return np.asarray(array.data.toreadonly())


class PythonScores:
    """The callback of one replay; it holds the function's exception, as the loop can't."""

    def __init__(self, function: Callable[..., Any], world: World) -> None:
        self.raised: BaseException | None = None
        self._function, self._scores = function, world.cluster.state.scores
        self._cluster, self._need = visible(world.cluster), read_only(world.need)
        self._uptime_s, self._overhang_s = read_only(world.uptime_s), read_only(world.overhang_s)
        self._requests = world.requests
        self._callback = _CALLBACK(self._ask)
        world.cluster.state.address[0] = ctypes.cast(self._callback, ctypes.c_void_p).value

    def _ask(self, place: int, exit_s: int, age_s: int, now: int) -> int:
        try:
            record = self._requests[place]
            curve = slice(record["curve_start"], record["curve_end"])
            request = Request(int(record["row"]), self._need[place], exit_s, age_s, self._uptime_s[curve],
                              self._overhang_s[curve], place)
            result = self._function(self._cluster, request, now)
            levels = result if isinstance(result, tuple) else (result,)
            if not 1 <= len(levels) <= MOST_LEVELS:
                raise ValueError(f"host_scores must give 1 to {MOST_LEVELS} arrays, got {len(levels)}")
            target = self._scores
            for level, scores in enumerate(levels):
                if np.shape(scores) != target.shape[1:]:
                    raise ValueError(f"host_scores must be arrays of shape {target.shape[1:]}, got {np.shape(scores)}")
                target[level] = scores
            return len(levels)
        except BaseException as error:  # an interrupt as well: it would be printed and forgotten at the C boundary
            self.raised = error
            return -1
