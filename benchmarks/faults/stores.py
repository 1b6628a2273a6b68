"""Rows of a store's upkeep: a cleaning that is killed or has no room, a clock set back."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from benchmarks.faults.injection import disk_full, kill
from benchmarks.faults.looks import looking
from benchmarks.faults.sweeps import swept_over
from benchmarks.faults.tries import KILLED, NEXT, Bench, Try, timed

_MONTH_S = 30 * 86_400


def cleaning(bench: Bench) -> list[str]:
    """The command that removes what only this store's champion does not need."""
    return ["store", "clean", "--yes", "--keep-runs", "1", "--keep-caches", "0", "--store", str(bench.store)]


def killed_cleaning(bench: Bench) -> Iterator[Try]:
    """kill -9 in a cleaning that removes two versions of three and all caches"""
    yield from swept_over(bench, bench.promoted, cleaning(bench), kill)


def full_disk_cleaning(bench: Bench) -> Iterator[Try]:
    """ENOSPC before a change of a file in a cleaning"""
    yield from swept_over(bench, bench.promoted, cleaning(bench), disk_full)


def clock_back(bench: Bench) -> Iterator[Try]:
    """The clock is set back by 30 days: all files of the store are of the future"""
    def problems() -> list[str]:
        bench.promoted()
        for path in (bench.store, *bench.store.rglob("*")):
            os.utime(path, (time.time() + _MONTH_S, time.time() + _MONTH_S))
        found: list[str] = []
        with looking(bench, found):
            after = bench.after(KILLED, is_promoting=True) + bench.after(NEXT)
        return found + after

    yield timed("30 days", problems)
