"""Usage of many requests on one grid of times: the shape in which models and the simulator take it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sojourn.serving.usage import DayClock


@dataclass(frozen=True, slots=True)
class UsageGrid:
    """Shares of what each request reserved, one row a request, one column a step of `step_s` seconds.

    request_ids: (n,), unique, str or int64. cpu: float32 (n, n_steps), share of the request's cores, may exceed 1;
        NaN = no sample. mem: the same of its memory, or None. cpu_cores, mem_gib: float64 (n,), what it reserved.
    start_s: where the first step begins on the trace's clock; a step's value is the mean of its samples.
    clock: local time of day. interval_s: float64 (n,), the median time between a request's own samples, NaN = not
        known; None = a step or less. A sample that stands for more than a step fills all of them.

    >>> grid = UsageGrid(np.array([7]), np.array([[0.5, np.nan]], np.float32), None, np.array([2.0]),
    ...                  np.array([8.0]), 600, 300, DayClock())
    >>> grid.time_s().tolist(), len(grid)
    ([600, 900], 1)
    """

    request_ids: np.ndarray
    cpu: np.ndarray
    mem: np.ndarray | None
    cpu_cores: np.ndarray
    mem_gib: np.ndarray
    start_s: int
    step_s: int
    clock: DayClock
    interval_s: np.ndarray | None = None

    def __post_init__(self) -> None:
        n = len(self.request_ids)
        if self.cpu.ndim != 2 or len(self.cpu) != n:
            raise ValueError(f"cpu must have the shape ({n}, n_steps), got {self.cpu.shape}")
        if self.mem is not None and self.mem.shape != self.cpu.shape:
            raise ValueError(f"mem must have the shape of cpu, {self.cpu.shape}, got {self.mem.shape}")
        if len(self.cpu_cores) != n or len(self.mem_gib) != n:
            raise ValueError(f"cpu_cores and mem_gib must have {n} elements, "
                             f"got {len(self.cpu_cores)} and {len(self.mem_gib)}")
        if self.interval_s is not None and self.interval_s.shape != (n,):
            raise ValueError(f"interval_s must have {n} elements, got {self.interval_s.shape}")
        if self.step_s < 1:
            raise ValueError(f"step_s must be at least 1, got {self.step_s!r}")

    def __len__(self) -> int:
        return len(self.request_ids)

    def time_s(self) -> np.ndarray:
        """Begin of each step on the trace's clock, int64 (n_steps,)."""
        return self.start_s + self.step_s * np.arange(self.cpu.shape[1], dtype=np.int64)

    def on_local_clock(self) -> UsageGrid:
        """The same samples by the clock on the wall: times are local seconds since 1970, and `clock` is `DayClock()`.

        So a day has 24 hours at each change of daylight saving. Where the clock goes forward, an hour has no samples;
        where it goes back, a step has the mean of both its times.

        >>> cpu = np.arange(4, dtype=np.float32)[None, :]
        >>> zurich = DayClock(0, "Europe/Zurich")  # at 1_711_846_800 the clock goes from 2:00 to 3:00
        >>> grid = UsageGrid(np.array([7]), cpu, None, np.ones(1), np.ones(1), 1_711_845_000, 900, zurich)
        >>> grid.on_local_clock().cpu.tolist()
        [[0.0, 1.0, nan, nan, nan, nan, 2.0, 3.0]]
        """
        local_s = self.clock.local_s(self.time_s())
        if not len(local_s):
            return replace(self, clock=DayClock())
        start_s = int(local_s.min())
        columns = (local_s - start_s) // self.step_s
        is_same = np.array_equal(columns, np.arange(len(columns)))
        known, first, n_times = np.unique(columns, return_index=True, return_counts=True)
        twice, earlier = known[n_times > 1], first[n_times > 1]

        def laid(values: np.ndarray) -> np.ndarray:
            if is_same:
                return values
            placed = np.full((len(values), int(columns.max()) + 1), np.nan, np.float32)
            placed[:, columns] = values  # the later one of two
            before, later = values[:, earlier], placed[:, twice]
            placed[:, twice] = np.where(np.isnan(before), later,
                                        np.where(np.isnan(later), before, (before + later) / 2))
            return placed

        return replace(self, cpu=laid(self.cpu), mem=None if self.mem is None else laid(self.mem), start_s=start_s,
                       clock=DayClock())
