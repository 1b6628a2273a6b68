"""Host events and upkeep: failures, drains, maintenance in waves, defragmentation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sojourn.simulator.loop import (
    AT_RANDOM,
    BY_ROW,
    DRAIN,
    FAIL,
    HOST_EVENTS,
    LONGEST_FIRST,
    REOPEN,
    REPAIR,
    SHORTEST_FIRST,
    WAVE,
)
from sojourn.simulator.whole_numbers import check_setting, is_whole

ORDERS = {"longest-first": LONGEST_FIRST, "shortest-first": SHORTEST_FIRST, "trace": BY_ROW, "random": AT_RANDOM}
"""Orders of migration by name."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A host fails at `at_s` and is back after `repair_s`; what it ran starts again elsewhere at once, waits, or
    is lost.

    host: its row in the workload's hosts. Times: whole seconds.
    """

    host: int
    at_s: int
    repair_s: int

    def __post_init__(self) -> None:
        _check(self, {"host": 0, "at_s": 0, "repair_s": 1})


@dataclass(frozen=True, slots=True)
class Drain:
    """A host takes no requests from `from_s` to `until_s`, and what can migrate leaves it; the rest runs on there."""

    host: int
    from_s: int
    until_s: int

    def __post_init__(self) -> None:
        _check(self, {"host": 0, "from_s": 0, "until_s": 1})
        if self.from_s >= self.until_s:
            raise ValueError(f"until_s must be after from_s, got {self}")


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Every host is to be updated: each `every_s` from `from_s` on a wave takes `share` of the hosts, rounded up, until
    all are.

    A wave takes hosts not yet updated, those with least to move first; empty ones are updated at once, the others are
    closed until their requests have migrated or ended. So 1 / share waves, rounded up, reach every host; those that
    stood aside, or that a failure or a drain interrupted, are left to further waves, up to the horizon.
    """

    from_s: int
    every_s: int
    share: float

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share!r}")
        _check(self, {"every_s": 1, "from_s": 0})


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """When fewer than `min_empty_pct` of the hosts are empty, `n_hosts` are closed and their requests migrate away.

    Those with the least in use are taken, of the binding resource first; a host is open again as soon as it is empty,
    and the next batch waits until all are (LAVA, section 4.4).
    """

    min_empty_pct: float
    n_hosts: int = 3

    def __post_init__(self) -> None:
        if not 0.0 < self.min_empty_pct <= 100.0:
            raise ValueError(f"min_empty_pct must be above 0 and at most 100, got {self.min_empty_pct!r}")
        _check(self, {"n_hosts": 1})


@dataclass(frozen=True, slots=True)
class Migration:
    """How requests migrate: at most so many at once, each for so long, on both hosts (LAVA, section 4.4).

    order: longest predicted remaining time first (LARS), shortest first, as the trace lists them, or at random.
    is_across: one order across all hosts of a batch or wave; False goes host by host.
    n_a_day: migrations that may begin on a day of the trace, whoever planned them; None = any number. Those of drains
    and waves count, and are not held back. A rectifier and a batch plan only what is left of the day, less what is
    planned and has not begun.

    >>> Migration(order="best")
    Traceback (most recent call last):
    ValueError: order must be one of longest-first, random, shortest-first, trace, got 'best'
    """

    order: Literal["longest-first", "shortest-first", "trace", "random"] = "longest-first"
    is_across: bool = True
    n_at_once: int = 3
    duration_s: int = 1_200
    seed: int = 0
    n_a_day: int | None = None

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(sorted(ORDERS))}, got {self.order!r}")
        _check(self, {"n_at_once": 1, "duration_s": 1})
        if self.n_a_day is not None and not is_whole(self.n_a_day, 0):
            raise ValueError(f"n_a_day must be None or a whole number of migrations, 0 or more, got {self.n_a_day!r}")

    @property
    def is_predicting(self) -> bool:
        """Whether the order asks how long requests stay."""
        return self.order in ("longest-first", "shortest-first")


def _check(entry: object, least: Mapping[str, int]) -> None:
    """ValueError where a setting of those named is no whole number of at least so much."""
    for name, smallest in least.items():
        check_setting(getattr(entry, name), smallest, name)


Upkeep = Failure | Drain | Maintenance | Defragmentation


def host_events_of(upkeep: Sequence[Upkeep], n_hosts: int, horizon_s: int) -> np.ndarray:
    """All host events at known times, by time; ValueError for hosts that do not exist."""
    rows: list[tuple[int, int, int]] = []
    for entry in upkeep:
        if isinstance(entry, Failure | Drain):
            at_s, until_s = (entry.at_s, entry.at_s + entry.repair_s) if isinstance(entry, Failure) else (
                entry.from_s, entry.until_s)
            if not 0 <= entry.host < n_hosts:
                raise ValueError(f"host must be in 0..{n_hosts - 1}, got {entry.host!r} in {entry}")
            is_failure = isinstance(entry, Failure)
            rows += [(at_s, FAIL if is_failure else DRAIN, entry.host),
                     (until_s, REPAIR if is_failure else REOPEN, entry.host)]
        elif isinstance(entry, Maintenance):
            n_wave = max(math.ceil(entry.share * n_hosts - 1e-9), 1)  # 0.07 * 100 is a little above 7
            rows += [(at_s, WAVE, n_wave) for at_s in range(entry.from_s, horizon_s + 1, entry.every_s)]
    return np.array(sorted(rows, key=lambda row: row[0]), HOST_EVENTS)


def defragmentation_of(upkeep: Sequence[Upkeep], n_hosts: int) -> tuple[int, int]:
    """Hosts that should be empty at least, and hosts of a batch; 0 without one. ValueError for two."""
    found = [entry for entry in upkeep if isinstance(entry, Defragmentation)]
    if len(found) > 1:
        raise ValueError(f"upkeep must have one Defragmentation at most, got {len(found)}")
    return (math.ceil(found[0].min_empty_pct / 100 * n_hosts), found[0].n_hosts) if found else (0, 0)
