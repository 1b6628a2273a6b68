"""What the long commands of a day cost: the first run, the next one, a comparison, and retrains of large traces.

`python benchmarks/loops.py` runs each in a process and a store of its own and prints a Markdown table. CPU time is
that of the process and of all that it started and waited for; memory is the largest of one of them. `first run` has an
empty folder of compiled loops, as a new machine; the others share one that `first run` has filled. `--features FILE`
is the feature pass of a log alone, in this process: compiled, with a live history as in a retrain, and in plain Python.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sojourn.flows.commands.options import CHALLENGER

LOG = str(Path(__file__).parents[1] / "examples" / "nasa-ipsc-1993.swf.gz")
LOOPS: dict[str, tuple[str, ...]] = {
    "first run": ("train", LOG),
    "next run": ("train", LOG, "--again"),
    "gain, 100,000 requests": ("gain", "--n-requests", "100000"),
    "train, 100,000 requests": ("train", "--n-requests", "100000"),
    "train, 1,000,000 requests": ("train", "--n-requests", "1000000"),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """One run: seconds on the clock and of CPU, largest resident memory, and the load that it ended with."""

    name: str
    wall_s: float
    cpu_s: float
    peak_gib: float
    load: float

    def line(self) -> str:
        """A row of the table.

        >>> Cost("gain", 61.2, 58.9, 1.25, 2.0).line()
        '| gain | 61 s | 59 s | 1.25 GiB | 2.0 |'
        """
        return f"| {self.name} | {self.wall_s:.0f} s | {self.cpu_s:.0f} s | {self.peak_gib:.2f} GiB | {self.load:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", action="append", choices=LOOPS, help="repeat for several")
    parser.add_argument("--trace", type=Path, action="append", default=[], help="a file to retrain on")
    parser.add_argument("--features", type=Path, help="a log whose feature pass alone is measured")
    parser.add_argument("--reader", default="swf", help="of --features")
    asked = parser.parse_args()
    if asked.features is not None:
        print(feature_passes(asked.reader, asked.features))
        return
    loops = {name: LOOPS[name] for name in asked.loop or (() if asked.trace else LOOPS)}
    loops |= {f"train, {path.name}": ("train", str(path)) for path in asked.trace}
    compiled = Path(tempfile.mkdtemp(prefix="loops-"))
    try:
        costs = [measured(name, arguments, compiled) for name, arguments in loops.items()]
    finally:
        shutil.rmtree(compiled)
    print(table(costs))


def measured(name: str, arguments: Sequence[str], compiled: Path) -> Cost:
    """One command in a new store; compiled: the folder of compiled loops. Ends the program if the command fails."""
    store, started = Path(tempfile.mkdtemp(prefix="loops-")), time.perf_counter()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(compiled), "PYTHONDONTWRITEBYTECODE": ""}
    try:
        run = subprocess.Popen([sys.executable, "-c", "from sojourn.flows.cli import app; app()", *arguments, "--store",
                                str(store)], stdout=sys.stderr, env=environment)
        _, status, used = os.wait4(run.pid, 0)
        wall_s = time.perf_counter() - started
    finally:
        shutil.rmtree(store)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode not in (0, CHALLENGER):
        sys.exit(f"{name} must end with exit code 0 or {CHALLENGER}, got {run.returncode}")
    return Cost(name, wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20, os.getloadavg()[0])


def feature_passes(reader: str, path: Path) -> str:
    """CPU seconds of `build_rows` on a log, as a Markdown table; ends the program if the bits of two ways differ."""
    from sojourn.features import creation
    from sojourn.features.readers import read_trace
    from sojourn.serving.inputs import HistoryState

    trace, _ = read_trace(reader, path)
    encoder = creation.default_encoder(trace)
    creation.build_rows(trace, encoder)  # so that nothing compiles below
    least, first, lines = creation.COMPILED_FROM, None, ["| way | requests | CPU |", "|---|---|---|"]
    for way, from_n, is_live in (("compiled", least, False), ("compiled, live history", least, True),
                                 ("plain Python", len(trace) + 1, False)):
        creation.COMPILED_FROM = from_n
        started = time.process_time()
        rows = creation.build_rows(trace, encoder, HistoryState(encoder.history) if is_live else None).features
        lines.append(f"| {way} | {len(rows):,} | {time.process_time() - started:.1f} s |")
        first = rows.tobytes() if first is None else first
        if rows.tobytes() != first:
            sys.exit(f"features must have the same bits in each way, got others {way}")
    creation.COMPILED_FROM = least
    return "\n".join(lines)


def table(costs: Sequence[Cost]) -> str:
    """The costs as a Markdown table."""
    head = ["| loop | on the clock | CPU | memory | load at its end |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(cost.line() for cost in costs)])


if __name__ == "__main__":
    main()
