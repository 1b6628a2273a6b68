"""What running requests were seen to use, folded to slots of the day, in a fixed number of bytes a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sojourn.serving.usage.workload_classes import N_SLOTS

N_REQUESTS_MAX = 100_000
"""Requests that are observed at once: 1.2 kB each for CPU, and as much again once memory is observed."""
WEEK_S = 604_800
"""A highest use counts in the week of the trace's clock in which it was seen, and in the next week with a sample."""
_N_FIRST = 64
_N_COUNTED = 32
"""From so many samples of a slot on, each new one weighs a thirty-second of its mean: use may change over the weeks."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of one request and resource; its own copy.

    highest, mean: float32 (96,), by slot of the day, NaN = not seen; the highest of the last two weeks with a sample.
    first_s, last_s: times of its first and last
    sample of any resource.
    """

    highest: np.ndarray
    mean: np.ndarray
    first_s: int
    last_s: int


class _Table:
    """Highest, mean and count by slot of one resource, a row a request; grows by doubling."""

    def __init__(self, n_rows: int) -> None:
        self.highest = np.full((n_rows, N_SLOTS), np.nan, np.float32)
        self.former = np.full((n_rows, N_SLOTS), np.nan, np.float32)  # of the week before
        self.mean = np.zeros((n_rows, N_SLOTS), np.float32)
        self.count = np.zeros((n_rows, N_SLOTS), np.uint8)
        self._view()

    def grow(self, n_rows: int) -> None:
        """Make room for more rows."""
        fresh = _Table(n_rows)
        n_old = len(self.highest)
        for name in ("highest", "former", "mean", "count"):
            getattr(fresh, name)[:n_old] = getattr(self, name)
        self.highest, self.former, self.mean, self.count = fresh.highest, fresh.former, fresh.mean, fresh.count
        self._view()

    def turn(self, row: int) -> None:
        """Begin another week."""
        self.former[row], self.highest[row] = self.highest[row], np.nan

    def add(self, row: int, slot: int, used: float, is_late: bool) -> None:
        """Take one sample; a late one counts as of the week before."""
        at = row * N_SLOTS + slot
        n = self._count[at]
        highest = self._former if is_late else self._highest
        if not used <= highest[at]:  # NaN, too
            highest[at] = used
        self._mean[at] += (used - self._mean[at]) / (n + 1)
        if n < _N_COUNTED - 1:
            self._count[at] = n + 1

    def clear(self, row: int) -> None:
        """Forget a row."""
        self.highest[row] = self.former[row] = np.nan
        self.mean[row], self.count[row] = 0.0, 0

    def _view(self) -> None:
        """Views of Python's own, whose elements are read and written several times as fast as an array's."""
        arrays: tuple[Any, ...] = (self.highest, self.former, self.mean, self.count)
        views: list[Any] = [memoryview(array.reshape(-1)) for array in arrays]
        self._highest, self._former, self._mean, self._count = views


class ObservedUse:
    """The rows of all running requests that were observed; for one thread at a time.

    n_most: requests at once; samples of any further one are dropped and counted.

    >>> observed = ObservedUse()
    >>> observed.add("a", 900, 1, 0.5), observed.seen("a", "cpu").highest[:2].tolist(), observed.seen("b", "cpu")
    (True, [nan, 0.5], None)
    """

    def __init__(self, n_most: int = N_REQUESTS_MAX) -> None:
        if isinstance(n_most, bool) or not isinstance(n_most, int) or n_most < 1:
            raise ValueError(f"n_most must be at least 1, got {n_most!r}")
        self.n_most = n_most
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._n_rows = min(_N_FIRST, n_most)
        self._cpu = _Table(self._n_rows)
        self._mem: _Table | None = None
        self._first_s: list[int] = []
        self._last_s: list[int] = []
        self._week: list[int] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def n_bytes(self) -> int:
        """Of the arrays."""
        tables = [self._cpu] if self._mem is None else [self._cpu, self._mem]
        return sum(array.nbytes for table in tables for array in (table.highest, table.former, table.mean, table.count))

    def add(self, name: str, time_s: int, slot: int, cpu: float, mem: float | None = None) -> bool:
        """Take a sample, finite and at least 0; False where it is dropped, since n_most others are observed."""
        row = self._rows.get(name)
        if row is None:
            if len(self._rows) >= self.n_most:
                return False
            row = self._new(name, time_s)
        if time_s > self._last_s[row]:
            self._last_s[row] = time_s
        elif time_s < self._first_s[row]:
            self._first_s[row] = time_s
        week = time_s // WEEK_S
        if week > self._week[row]:
            self._week[row] = week
            self._cpu.turn(row)
            if self._mem is not None:
                self._mem.turn(row)
        is_late = week < self._week[row]
        self._cpu.add(row, slot, cpu, is_late)
        if mem is not None:
            if self._mem is None:
                self._mem = _Table(self._n_rows)
            self._mem.add(row, slot, mem, is_late)
        return True

    def forget(self, name: str) -> bool:
        """Free the request's row; False where it has none."""
        row = self._rows.pop(name, None)
        if row is None:
            return False
        self._cpu.clear(row)
        if self._mem is not None:
            self._mem.clear(row)
        self._free.append(row)
        return True

    def seen(self, name: str, resource: str) -> Seen | None:
        """A copy of what was seen; None where that is nothing."""
        row = self._rows.get(name)
        table = self._cpu if resource == "cpu" else self._mem
        if row is None or table is None:
            return None
        highest = np.fmax(table.highest[row], table.former[row])
        mean = table.mean[row].copy()
        mean[table.count[row] == 0] = np.nan
        return Seen(highest, mean, self._first_s[row], self._last_s[row])

    def _new(self, name: str, time_s: int) -> int:
        if self._free:
            row = self._free.pop()
            self._first_s[row] = self._last_s[row] = time_s
            self._week[row] = time_s // WEEK_S
        else:
            row = len(self._first_s)
            if row == self._n_rows:
                self._n_rows = min(2 * self._n_rows, self.n_most)
                self._cpu.grow(self._n_rows)
                if self._mem is not None:
                    self._mem.grow(self._n_rows)
            self._first_s.append(time_s)
            self._last_s.append(time_s)
            self._week.append(time_s // WEEK_S)
        self._rows[name] = row
        return row
