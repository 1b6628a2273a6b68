"""A row of a monitor's check that is killed: the log it reads is made by a predictor of the champion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults.injection import kill
from benchmarks.faults.soundness import NAME
from benchmarks.faults.sweeps import swept_over
from benchmarks.faults.tries import Bench, Try

_N_REQUESTS, _STEP_S, _LIFETIME_S = 600, 3_600, 1_800
_FROM_S = 1_712_707_200


def killed_monitor(bench: Bench) -> Iterator[Try]:
    """kill -9 in a check of the monitor; the next check ends well"""
    bench.promoted()
    log = bench.folder / "decisions"
    made = bench.launcher.call(lambda: _decided(bench.store / "bundles" / NAME, log)).wait()
    if made.code != 0:
        raise RuntimeError(f"decisions must be logged, got {made.printed[-2_000:]}")
    command = ["model", "monitor", NAME, "--log", str(log), "--store", str(bench.store)]

    def again() -> list[str]:
        ended = bench.launcher.run(command, bench.store)
        found = [] if ended.code == 0 else [f"the next check ends with exit code {ended.code}: {ended.last_line}"]
        return found + bench.unsound()

    yield from swept_over(bench, bench.promoted, command, kill, after=again)


def _decided(bundle: Path, log: Path) -> None:
    from sojourn.serving import Predictor

    predictor = Predictor.load(bundle)
    predictor.log_to(log)
    for number in range(_N_REQUESTS):
        now_s = _FROM_S + number * _STEP_S
        handle = predictor.admit({}, now_s)
        predictor.ended(handle, now_s + _LIFETIME_S)
    predictor.stop_logging()
