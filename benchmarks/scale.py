"""How a retrain grows: seconds and memory of each stage at several sizes of the synthetic trace, and exponents.

`make scale` runs `sojourn train` on 10,000, 100,000 and 1,000,000 requests, each in a process and a store of its own.
A stage's exponent is the slope of log CPU seconds over log requests between two sizes, which neighbours on the machine
do not change; n log n is about 1.08 between the last two. Options of `sojourn train` follow `--`, such as
`-- --dask local:2`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sojourn.flows.commands.options import CHALLENGER

SIZES = (10_000, 100_000, 1_000_000)
TOTAL = "whole run"
_STAGE = re.compile(r"✓ (.+?) +([0-9.]+) s$")
_RESET_PEAK = "5"  # what /proc/PID/clear_refs takes: VmHWM begins anew


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of one run. cpu_s, peak_gib: CPU time and largest resident memory of the main process meanwhile.

    all_gib: largest sum of the resident memory of the main process and all below it, a cluster's workers among them;
    looked at twice a second.
    """

    name: str
    n_requests: int
    seconds: float
    cpu_s: float
    peak_gib: float
    all_gib: float


class TreeMemory(threading.Thread):
    """Watches a process and all below it; `peak_gib` is the largest sum since it was last asked."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._peak, self._is_over = pid, 0.0, threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(0.5):
            self._peak = max(self._peak, sum(map(_resident_gib, _tree(self._pid))))

    def peak_gib(self) -> float:
        """The largest sum since the last call, GiB."""
        peak, self._peak = self._peak, 0.0
        return peak

    def stop(self) -> None:
        """Look no more."""
        self._is_over.set()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--json", type=Path, default=Path("scale.json"), help="where the numbers are written")
    parser.add_argument("options", nargs="*", help="more options of `sojourn train`, after --")
    asked = parser.parse_args()
    stages: list[Stage] = []
    for n_requests in asked.sizes:
        stages += measured(n_requests, asked.options)
        asked.json.write_text(json.dumps([asdict(stage) for stage in stages], indent=1) + "\n")
    print(table(stages))


def measured(n_requests: int, options: Sequence[str]) -> list[Stage]:
    """The stages of one run in a new store, as the run itself times them, and the whole; ends where the run fails."""
    store = Path(tempfile.mkdtemp(prefix="scale-"))
    started = time.perf_counter()
    found: list[Stage] = []
    try:
        with subprocess.Popen(
            [sys.executable, "-c", "from sojourn.flows.cli import app; app()", "train", "--n-requests",
             str(n_requests), "--store", str(store), *options], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as run:  # fmt: skip
            assert run.stdout is not None
            before_s, memory = 0.0, TreeMemory(run.pid)
            memory.start()
            for line in run.stdout:
                print(f"{n_requests:>9,}  {line}", end="", file=sys.stderr)
                if stage := _STAGE.search(line.rstrip()):
                    now_s = _cpu_s(run.pid)
                    found.append(Stage(stage[1], n_requests, float(stage[2]), now_s - before_s, _peak_gib(run.pid),
                                       memory.peak_gib()))
                    before_s = now_s
            memory.stop()
    finally:
        shutil.rmtree(store)
    if run.returncode not in (0, CHALLENGER):
        sys.exit(f"sojourn train must end with exit code 0 or {CHALLENGER}, got {run.returncode}")
    peak_gib = max(stage.peak_gib for stage in found)
    all_gib = max(stage.all_gib for stage in found)
    return [*found, Stage(TOTAL, n_requests, time.perf_counter() - started, before_s, peak_gib, all_gib)]


def _tree(pid: int) -> list[int]:
    """A process and all below it."""
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir()
                    for child in (task / "children").read_text().split()]
    except OSError:
        return [pid]
    return [pid, *(each for child in children for each in _tree(child))]


def _resident_gib(pid: int) -> float:
    """Resident memory of a process now, GiB; 0 once it has ended."""
    try:
        kib = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(kib[1]) / 2**20 if kib else 0.0


def _cpu_s(pid: int) -> float:
    """CPU time of a process so far, all threads, s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_gib(pid: int) -> float:
    """The largest resident memory of a process since this was last asked, GiB; NaN once it has ended."""
    try:
        kib = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return math.nan
    return int(kib[1]) / 2**20 if kib else math.nan


def table(stages: Sequence[Stage]) -> str:
    """A Markdown table: of each stage seconds, CPU seconds and peak GiB (and that of all processes) at each size, and
    exponents between sizes."""
    sizes = sorted({stage.n_requests for stage in stages})
    cells = {(stage.name, stage.n_requests): stage for stage in stages}
    pairs = list(itertools.pairwise(sizes))
    head = ["stage", *(f"{n:,}" for n in sizes), *(f"exponent to {high:,}" for _, high in pairs)]
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for name in dict.fromkeys(stage.name for stage in stages):
        row = [cells.get((name, n)) for n in sizes]
        shown = ["-" if cell is None else f"{cell.seconds:.1f} s, CPU {cell.cpu_s:.1f} s, {cell.peak_gib:.2f} GiB "
                 f"(all {cell.all_gib:.2f})"
                 for cell in row]
        of_pairs = ["-" if low is None or high is None else exponent(low, high)
                    for low, high in itertools.pairwise(row)]
        lines.append(" | ".join([name, *shown, *of_pairs]))
    return "\n".join(f"| {line} |" for line in lines)


def exponent(low: Stage, high: Stage) -> str:
    """The slope of log CPU seconds over log requests; "-" where the longer stage took less than a second.

    >>> exponent(Stage("score", 10, 1.0, 1.0, 0.0, 0.0), Stage("score", 1_000, 100.0, 100.0, 0.0, 0.0))
    '1.00'
    """
    if high.cpu_s < 1.0 or low.cpu_s <= 0.0:
        return "-"
    return f"{math.log(high.cpu_s / low.cpu_s) / math.log(high.n_requests / low.n_requests):.2f}"


if __name__ == "__main__":
    main()
