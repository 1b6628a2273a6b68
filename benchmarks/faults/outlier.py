"""A row of bad data: one cell of a trace that says a deletion took place much later than all else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchmarks.faults.tries import Bench, Try, timed

DAY_S = 86_400
N_DAYS = 30
N_VMS = 2_000


def outlier(bench: Bench) -> Iterator[Try]:
    """One deletion time of an azure-vm table set three years later"""
    def problems() -> list[str]:
        plain, changed = (_n_censored(bench, bench.folder / name, late_s) for name, late_s in (
            ("plain.csv", None), ("changed.csv", 3 * 365 * DAY_S)))
        if plain < 0 or changed < 0:
            return ["the table is not read"]
        return [f"censored VMs fall from {plain} to {changed}"] if changed < plain - 5 else []

    yield timed(f"a cell of {N_VMS:,}", problems)


def _n_censored(bench: Bench, file: Path, late_s: int | None) -> int:
    """How many of the VMs the reader takes for still running at the horizon; -1 where it fails."""
    _write(file, late_s)
    answer = bench.folder / "censored.json"

    def read() -> None:
        from sojourn.features.readers import read_trace

        trace, _ = read_trace("azure-vm", file)
        answer.write_text(json.dumps(int((~trace.is_event()).sum())))

    return int(json.loads(answer.read_text())) if bench.launcher.call(read).wait().code == 0 else -1


def _write(file: Path, late_s: int | None) -> None:
    rng = np.random.default_rng(0)
    horizon_s = N_DAYS * DAY_S
    created = np.sort(rng.integers(0, horizon_s, N_VMS)) // 300 * 300
    deleted = np.minimum(created + 300 + rng.exponential(12 * DAY_S, N_VMS) // 300 * 300, horizon_s)
    if late_s is not None:
        deleted[N_VMS // 2] = late_s
    file.write_text("".join(
        f"vm{idx},sub{idx % 40},dep{idx % 90},{start},{int(end)},50.0,20.0,40.0,Unknown,4,8\n"
        for idx, (start, end) in enumerate(zip(created.tolist(), deleted.tolist(), strict=True))))
