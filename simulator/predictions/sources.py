"""Sources of predictions: curves of predicted total lifetime against uptime.

The sources are the oracle, precomputed curves, first predictions only, and the oracle with flaws of
known size: noise on every lifetime, or long requests mistaken for short ones.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from sojourn.simulator.jit import kept_kernel
from sojourn.simulator.workloads import Workload

TOTAL_MAX_S = 2**52
"""The longest total lifetime; no sum of times overflows up to it."""


class BadCurve(ValueError):
    """The error of `Curves`; row: the first row with the bad curve, or -1 if no row has it."""

    def __init__(self, message: str, row: int = -1) -> None:
        super().__init__(message)
        self.row = row


@dataclass(frozen=True, slots=True)
class Curves:
    """Predicted total lifetimes as step functions of the uptime, in flat int64 arrays.

    Curve c has the breakpoints offsets[c] to offsets[c + 1]. Its total at uptime u is total_s[k]
    for the last k with uptime_s[k] <= u. After the last breakpoint a total that is not above the
    uptime doubles until it is (a total of 0 doubles as 1 s). A longer total means a longer-lived
    request.

    offsets: (n_curves + 1,), from 0, strictly increasing: each curve has at least one breakpoint.
    uptime_s: (n_breakpoints,), seconds; 0 at the start of each curve, then strictly increasing.
    total_s: (n_breakpoints,), seconds, in 0..TOTAL_MAX_S; total_s[k] >= uptime_s[k + 1] within a
        curve, so no prediction is outlived before its next breakpoint.
    index: (n_rows,), the curve of each row, if rows share curves; None = row i has curve i.
    overhang_s: (n_breakpoints,), seconds: the expected time by which a request outlasts each
        breakpoint's uptime, E[max(T - u, 0)], as known at its start; never rising within a curve.
        For policies that weigh the whole distribution; None if the predictor gives only one
        lifetime.

    Everything else is refused with ValueError: BadCurve if a row has it; the message names the
    first.

    >>> curves = Curves(np.array([0, 2]), np.array([0, 600]), np.array([900, 7200]))
    >>> curves.total_at(0, 599), curves.total_at(0, 600), curves.total_at(0, 8000)
    (900, 7200, 14400)
    >>> Curves(np.array([0, 2]), np.array([0, 600]), np.array([500, 7200]))
    Traceback (most recent call last):
    sojourn.simulator.predictions.sources.BadCurve: total_s must be at least the next uptime_s 600, got 500
    (row 0, breakpoint 0)
    """

    offsets: np.ndarray
    uptime_s: np.ndarray
    total_s: np.ndarray
    index: np.ndarray | None = None
    overhang_s: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("offsets", "uptime_s", "total_s", "index", "overhang_s"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _numbers(name, getattr(self, name)))
        self._check_layout()
        self._check_values()

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1 if self.index is None else len(self.index)

    def curve_of(self) -> np.ndarray:
        """The curve of each row, int64 (n_rows,)."""
        return np.arange(len(self.offsets) - 1) if self.index is None else self.index

    def take(self, rows: np.ndarray) -> Curves:
        """The curves of `rows`, int64 (k,), each in 0..len(self) - 1. They share the breakpoints,
        so nothing is checked again."""
        curves = copy(self)
        object.__setattr__(curves, "index", self.curve_of()[rows])
        return curves

    def total_at(self, row: int, uptime_s: int) -> int:
        """Predicted total lifetime of one row at an uptime >= 0, in seconds; above the uptime."""
        curve = int(self.curve_of()[row])
        start, stop = int(self.offsets[curve]), int(self.offsets[curve + 1])
        k = start + int(np.searchsorted(self.uptime_s[start:stop], uptime_s, side="right")) - 1
        total = max(int(self.total_s[k]), 1)
        while total <= uptime_s:
            total *= 2
        return total

    def _check_layout(self) -> None:
        for name in ("offsets", "index"):
            array = getattr(self, name)
            if array is not None and array.dtype.kind == "f":
                k = int(np.argmin(_is_whole(array)))
                raise ValueError(f"{name} must be whole numbers, got {array[k]} (position {k})")
        n = len(self.uptime_s)
        if len(self.total_s) != n:
            raise ValueError(f"total_s must be as long as uptime_s ({n}), got {len(self.total_s)}")
        if self.overhang_s is not None and len(self.overhang_s) != n:
            raise ValueError(f"overhang_s must be as long as uptime_s ({n}), got {len(self.overhang_s)}")
        steps = np.diff(self.offsets)
        if len(self.offsets) == 0 or self.offsets[0] != 0 or self.offsets[-1] != n or (steps < 1).any():
            raise ValueError(f"offsets must rise strictly from 0 to {n}, got {self.offsets.tolist()[:8]}")
        if self.index is not None and len(self.index):
            is_bad = (self.index < 0) | (self.index >= len(steps))
            if is_bad.any():
                row = int(np.argmax(is_bad))
                raise ValueError(f"index must be in 0..{len(steps) - 1}, got {self.index[row]} (row {row})")

    def _check_values(self) -> None:
        """Refuse the first bad number. Most curves have none, which compiled code finds in one pass."""
        arrays = (self.uptime_s, self.total_s, self.total_s if self.overhang_s is None else self.overhang_s)
        if all(array.dtype == np.int64 for array in arrays) and _are_curves(self.offsets, *arrays,
                                                                            self.overhang_s is not None):
            return
        for name in ("uptime_s", "total_s", "overhang_s"):
            array = getattr(self, name)
            if array is not None and array.dtype.kind == "f":
                self._refuse(~_is_whole(array), name, "whole seconds")
        is_first = np.zeros(len(self.uptime_s), bool)
        is_first[self.offsets[:-1]] = True
        follows = ~is_first[1:]
        self._refuse((self.total_s < 0) | (self.total_s > TOTAL_MAX_S), "total_s", f"in 0..{TOTAL_MAX_S}")
        self._refuse(is_first & (self.uptime_s != 0), "uptime_s", "0 at the start of a curve")
        is_falling = np.append(False, follows & (np.diff(self.uptime_s) <= 0))
        self._refuse(is_falling, "uptime_s", "strictly increasing")
        is_outlived = np.append(follows & (self.total_s[:-1] < self.uptime_s[1:]), False)[: len(self.uptime_s)]
        if is_outlived.any():
            k = int(np.argmax(is_outlived))
            self._refuse(is_outlived, "total_s", f"at least the next uptime_s {self.uptime_s[k + 1]}")

        if self.overhang_s is not None:
            self._refuse((self.overhang_s < 0) | (self.overhang_s > TOTAL_MAX_S), "overhang_s", f"in 0..{TOTAL_MAX_S}")
            is_rising = np.append(False, follows & (np.diff(self.overhang_s) > 0))[: len(self.overhang_s)]
            self._refuse(is_rising, "overhang_s", "at most that of the breakpoint before")

    def _refuse(self, is_bad: np.ndarray, name: str, rule: str) -> None:
        if not is_bad[: len(self.uptime_s)].any():
            return
        k = int(np.argmax(is_bad))
        curve = int(np.searchsorted(self.offsets, k, side="right")) - 1
        rows = np.flatnonzero(self.curve_of() == curve)
        place = f"row {rows[0]}" if len(rows) else f"curve {curve}, which no row uses"
        value = getattr(self, name)[k]
        raise BadCurve(f"{name} must be {rule}, got {value} ({place}, breakpoint {k - self.offsets[curve]})",
                       int(rows[0]) if len(rows) else -1)


@kept_kernel
def _are_curves(offsets: np.ndarray, uptime_s: np.ndarray, total_s: np.ndarray, overhang_s: np.ndarray,
                has_overhangs: bool) -> bool:
    """Whether all numbers keep the rules of `Curves`."""
    for curve in range(len(offsets) - 1):
        first, end = offsets[curve], offsets[curve + 1]
        if uptime_s[first] != 0:
            return False
        for k in range(first, end):
            if total_s[k] < 0 or total_s[k] > TOTAL_MAX_S:
                return False
            if has_overhangs and (overhang_s[k] < 0 or overhang_s[k] > TOTAL_MAX_S):
                return False
            if k == first:
                continue
            if uptime_s[k] <= uptime_s[k - 1] or total_s[k - 1] < uptime_s[k]:
                return False
            if has_overhangs and overhang_s[k] > overhang_s[k - 1]:
                return False
    return True


class LifetimeSource(Protocol):
    """Anything that predicts: the oracle, a live model, noise around either."""

    def curves(self, requests: pd.DataFrame) -> Curves:
        """One curve per row of `requests` (columns as in Trace.requests, in arrival order).

        A long replay calls it for one piece of the requests after another, so an answer may not depend on
        other rows than its own and those before.
        """
        ...


class HasTotals(Protocol):
    """The part of a workload that the oracle reads."""

    @property
    def request_ids(self) -> pd.Index: ...
    @property
    def total_s(self) -> np.ndarray: ...


class Oracle:
    """The lifetimes that the replay itself uses, as one-step curves.

    A request that still runs at the horizon has the seeded completion of its workload, the same for
    all policies.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": ["a"], "arrival_s": [5], "departure_s": [65], "cpu_cores": [1.0],
    ...                       "mem_gib": [4.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 100), cpu_cores=8, mem_gib=32)
    >>> Oracle(workload).curves(workload.trace.requests).total_s.tolist()
    [60]
    """

    def __init__(self, workload: HasTotals) -> None:
        self._total_s = pd.Series(workload.total_s, index=workload.request_ids)

    def curves(self, requests: pd.DataFrame) -> Curves:
        """One step per request; an id that the workload does not have is refused with KeyError."""
        rows = self._total_s.index.get_indexer(pd.Index(requests["request_id"]))
        if (rows < 0).any():
            bad = requests["request_id"].iloc[int(np.argmin(rows))]
            raise KeyError(f"request_id must be in the workload, got {bad!r}")
        return one_step(self._total_s.to_numpy()[rows])


class Held:
    """Precomputed curves by request id: a model's answers, or a test's.

    request_ids: one per row of `curves`, unique.

    >>> held = Held(["a", "b"], one_step(np.array([60, 3600])))
    >>> held.curves(pd.DataFrame({"request_id": ["b", "a", "b"]})).index.tolist()
    [1, 0, 1]
    """

    def __init__(self, request_ids: Any, curves: Curves) -> None:
        self._ids = pd.Index(request_ids)
        if len(self._ids) != len(curves):
            raise ValueError(f"request_ids must be as many as the curves' rows ({len(curves)}), got {len(self._ids)}")
        if self._ids.has_duplicates:
            raise ValueError(f"request_ids must be unique, got {self._ids[self._ids.duplicated()][0]!r} twice")
        self._curves = curves

    def curves(self, requests: pd.DataFrame) -> Curves:
        """The curves of the rows' ids, shared; an unknown id is refused with KeyError."""
        rows = self._ids.get_indexer(pd.Index(requests["request_id"]))
        if (rows < 0).any():
            raise KeyError(f"request_id must be known, got {requests['request_id'].iloc[int(np.argmin(rows))]!r}")
        return self._curves.take(rows)


def one_step(total_s: np.ndarray) -> Curves:
    """Curves of one breakpoint each from predicted total lifetimes, whole seconds >= 0, shape (n,).

    >>> one_step(np.array([60])).total_at(0, 60)
    120
    """
    n = len(total_s)
    return Curves(np.arange(n + 1), np.zeros(n, np.int64), total_s)


def _numbers(name: str, values: Any) -> np.ndarray:
    """The values as int64; unchanged if some are not whole, so that the error can name one."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim}")
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be int64, got {array.dtype}")
    is_fractional = array.dtype.kind == "f" and not _is_whole(array).all()
    return array if is_fractional else np.ascontiguousarray(array, np.int64)


def _is_whole(array: np.ndarray) -> np.ndarray:
    return np.isfinite(array) & (np.floor(array) == array)


def asked_curves(workload: Workload, policy: str, source: LifetimeSource, first: int = 0,
                 end: int | None = None) -> Curves:
    """The source's curves of the requests from row `first` up to `end` (None = the last); ValueError names the first
    without one."""
    requests = workload.trace.requests.iloc[first:end]
    try:
        curves = source.curves(requests)
    except Exception as error:
        row = error.row if isinstance(error, BadCurve) else _first_raising(source, requests)
        row += first if row >= 0 else 0
        raise ValueError(f"source must predict every request, but {_place(workload, policy, row)} it raised "
                         f"{type(error).__name__}: {error}") from error
    if not isinstance(curves, Curves):
        raise ValueError(f"source must give Curves for policy {policy!r}, got {type(curves).__name__}")
    if len(curves) != len(requests):
        row = min(len(curves), len(requests) - 1)
        raise ValueError(f"curves must be one per request ({len(requests)}), got {len(curves)}: see "
                         f"{_place(workload, policy, first + row)[:-1]}")
    return curves


def _place(workload: Workload, policy: str, row: int) -> str:
    if not 0 <= row < len(workload.placed_s):
        return f"for policy {policy!r}, asked for all requests together,"
    name = workload.request_ids[[row]].tolist()[0]
    return f"for policy {policy!r}, request {name!r} that arrives at {workload.placed_s[row]} s,"


def _first_raising(source: LifetimeSource, requests: pd.DataFrame) -> int:
    """The first row for which alone the source raises, by bisection; -1 if there is none."""
    first, end = 0, len(requests)
    while end - first > 1:
        middle = (first + end) // 2
        if _is_raising(source, requests.iloc[first:middle]):
            end = middle
        elif _is_raising(source, requests.iloc[middle:end]):
            first = middle
        else:
            return -1
    return first


def _is_raising(source: LifetimeSource, requests: pd.DataFrame) -> bool:
    try:
        source.curves(requests)
    except Exception:
        return True
    return False


class OneShot:
    """The prediction at uptime 0 of another source, never updated; an outlived one doubles.

    Its whole distribution (`overhang_s`) stays.

    >>> from sojourn.simulator.predictions.sources import Held
    >>> curves = Curves(np.array([0, 2]), np.array([0, 600]), np.array([900, 7200]))
    >>> OneShot(Held(["a"], curves)).curves(pd.DataFrame({"request_id": ["a"]})).total_at(0, 1000)
    1800
    """

    def __init__(self, source: LifetimeSource, *, is_distribution_kept: bool = True) -> None:
        """is_distribution_kept: False drops `overhang_s`, for policies that do not read it: one
        breakpoint a curve, and the same totals at every uptime."""
        self._source = source
        self._is_distribution_kept = is_distribution_kept

    def curves(self, requests: pd.DataFrame) -> Curves:
        """The source's curves with the totals of their first breakpoints."""
        whole = self._source.curves(requests)
        if whole.overhang_s is not None and self._is_distribution_kept:
            return _doubling(whole, whole.overhang_s)
        first = whole.offsets[:-1]
        return Curves(np.arange(len(first) + 1), whole.uptime_s[first], whole.total_s[first], whole.index)


def _doubling(whole: Curves, overhang_s: np.ndarray) -> Curves:
    """Curves with the distribution's breakpoints, and those at which the first total and its
    doubles are outlived."""
    first, last = whole.offsets[:-1], whole.offsets[1:] - 1
    total_s = np.maximum(whole.total_s[first], 1)
    n_outlived = _bit_length(np.maximum(whole.uptime_s[last] - 1, 0) // total_s)
    outlived = np.repeat(np.arange(len(first)), n_outlived)
    power = np.arange(len(outlived)) - np.repeat(np.cumsum(n_outlived) - n_outlived, n_outlived)

    curve = np.append(np.repeat(np.arange(len(first)), last - first + 1), outlived)
    uptime_s = np.append(whole.uptime_s, total_s[outlived] << power)
    is_of_curve = np.arange(len(curve)) < len(overhang_s)
    order = np.lexsort((~is_of_curve, uptime_s, curve))
    curve, uptime_s, is_of_curve = curve[order], uptime_s[order], is_of_curve[order]

    before = np.cumsum(is_of_curve) - 1
    after = np.minimum(before + 1, len(overhang_s) - 1)
    span_s = np.maximum(whole.uptime_s[after] - whole.uptime_s[before], 1)
    share = np.where(is_of_curve, 0.0, (uptime_s - whole.uptime_s[before]) / span_s)
    between_s = np.rint(overhang_s[before] - share * (overhang_s[before] - overhang_s[after])).astype(np.int64)
    is_new = np.append(True, (np.diff(curve) != 0) | (np.diff(uptime_s) != 0))
    curve, uptime_s = curve[is_new], uptime_s[is_new]
    return Curves(np.searchsorted(curve, np.arange(len(first) + 1)), uptime_s,
                  total_s[curve] << _bit_length(uptime_s // total_s[curve]), whole.index, between_s[is_new])


def _bit_length(numbers: np.ndarray) -> np.ndarray:
    """The fewest doublings of 1 that exceed each whole number from 0 to 2^53, int64."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)


LONG_S = 7_200
"""A request of at least this lifetime is long, unless stated (LAVA, section 2.3: 2 h)."""


class NoisyOracle:
    """True lifetimes times exp(sigma x a standard normal number), one number per request; unbiased
    in the median.

    The same seed gives the same flaws to every policy. An outlived prediction doubles.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": ["a", "b"], "arrival_s": [5, 6], "departure_s": [1005, 1006],
    ...                       "cpu_cores": [1.0, 1.0], "mem_gib": [4.0, 4.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 2000), cpu_cores=8, mem_gib=32)
    >>> NoisyOracle(workload, sigma=0.0).curves(workload.trace.requests).total_s.tolist()
    [1000, 1000]
    >>> len(set(NoisyOracle(workload, sigma=1.0).curves(workload.trace.requests).total_s.tolist()))
    2
    """

    def __init__(self, workload: HasTotals, sigma: float, seed: int = 0) -> None:
        if not 0.0 <= sigma < math.inf:
            raise ValueError(f"sigma must be finite and >= 0, got {sigma!r}")
        factor = np.exp(sigma * np.random.default_rng(seed).standard_normal(len(workload.total_s)))
        self._oracle = Oracle(_Totals(workload.request_ids, np.maximum(workload.total_s, 1) * factor))

    def curves(self, requests: pd.DataFrame) -> Curves:
        """One step per request; an id that the workload does not have is refused with KeyError."""
        return self._oracle.curves(requests)


class LongAsShort:
    """The oracle that knows only a share `recall` of the long requests; others get short lifetimes.

    long_s: the least lifetime of a long request. The lifetimes of unknown ones are drawn from the
    workload's short requests; ValueError if it has none. owners: numbers int64 (n,), below 0 =
    none: then whole owners are known or unknown, in a random order, as a model knows some owners
    and not others; the share is exact to within one owner.

    >>> import sojourn.simulator as sim
    >>> table = pd.DataFrame({"request_id": ["a", "b"], "arrival_s": [5, 6], "departure_s": [65, 80_006],
    ...                       "cpu_cores": [1.0, 1.0], "mem_gib": [4.0, 4.0]})
    >>> workload = sim.build_workload("trace", sim.Trace(table, 90_000), cpu_cores=8, mem_gib=32)
    >>> [LongAsShort(workload, recall).curves(workload.trace.requests).total_s.tolist() for recall in (1.0, 0.0)]
    [[60, 80000], [60, 60]]
    """

    def __init__(self, workload: HasTotals, recall: float, *, long_s: int = LONG_S, seed: int = 0,
                 owners: np.ndarray | None = None) -> None:
        if not 0.0 <= recall <= 1.0:
            raise ValueError(f"recall must be in 0..1, got {recall!r}")
        rng, total_s = np.random.default_rng(seed), workload.total_s.copy()
        is_long = total_s >= long_s
        if is_long.all():
            raise ValueError(f"long_s must leave some of the requests short, got {long_s!r}")
        n_long = int(is_long.sum())
        # a higher recall knows all that a lower one does
        ranks = rng.permutation(n_long) if owners is None else _ranks_by_owner(owners[is_long], rng)
        drawn = rng.choice(total_s[~is_long], len(ranks))
        total_s[is_long] = np.where(ranks < round(recall * len(ranks)), total_s[is_long], drawn)
        self._oracle = Oracle(_Totals(workload.request_ids, total_s))

    def curves(self, requests: pd.DataFrame) -> Curves:
        """One step per request; an id that the workload does not have is refused with KeyError."""
        return self._oracle.curves(requests)


def _ranks_by_owner(owners: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each request the place of its owner's last one, int64 (n,), with owners in a random
    order; a request without an owner is its own.

    >>> _ranks_by_owner(np.array([4, 4, 9, -1]), np.random.default_rng(0)).tolist()
    [2, 2, 3, 0]
    """
    is_lone = owners < 0
    units = np.where(is_lone, owners.max(initial=-1) + np.cumsum(is_lone), owners)
    _, unit, sizes = np.unique(units, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    last = np.empty(len(sizes), np.int64)
    last[order] = np.cumsum(sizes[order]) - 1
    return np.asarray(last[unit])


class _Totals:
    """Request ids and whole seconds for the oracle."""

    def __init__(self, request_ids: pd.Index, total_s: np.ndarray) -> None:
        self.request_ids = request_ids
        self.total_s = np.clip(np.rint(total_s), 1, TOTAL_MAX_S).astype(np.int64)
