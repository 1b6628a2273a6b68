"""A replay whose placements another process decides, in any language: JSON objects, one a line, over stdin and stdout.

    result, decisions = process_replay(["python3", "bench/examples/best_fit.py"], workload)
    python -m bench.process_policy [COMMAND ...]        times best fit, or another process, on a real log

docs/simulator/doors.md has the protocol. The simulator runs the replay: it verifies each answer against its own
free amounts, so a process can't place what does not fit, and the result has the metrics of every other policy.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from sojourn.features.readers import read_trace
from sojourn.simulator import Cluster, Curves, LifetimeSource, Policy, Request, Workload, build_workload, simulate
from sojourn.simulator.engine import Result
from sojourn.simulator.loop import gpus_fit
from sojourn.simulator.workloads import NO_CONSTRAINTS

PROTOCOL = 1
MAX_LINE_BYTES = 1 << 16
"""The longest answer."""
WANTS = ("curve", "features", "fitting")
"""What a process may have in each request."""
_OPENING_S = 60.0
"""The least time for the first answer, in which a process starts."""
_TAIL_BYTES = 300
_LONGEST_NAME = 100


class ProcessFault(ValueError):
    """The process broke the protocol, ended or was too slow."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """name: what the process calls itself. each_us: float64 (n_requests,), from the request's line to its answer."""

    name: str
    each_us: np.ndarray

    def text(self) -> str:
        """One line for people.

        >>> Decisions("best-fit", np.array([10.0, 20.0, 30.0])).text()
        'best-fit: 3 decisions, p50 20 us, p99 30 us'
        """
        p50, p99 = np.percentile(self.each_us, [50, 99]) if len(self.each_us) else (np.nan, np.nan)
        return f"{self.name}: {len(self.each_us):,} decisions, p50 {p50:.0f} us, p99 {p99:.0f} us"


def process_replay(command: Sequence[str], workload: Workload, source: LifetimeSource | None = None, *,
                   timeout_s: float = 10.0) -> tuple[Result, Decisions]:
    """The result of a replay that the process `command` decides, and how long its decisions took.

    source: predictions, sent with each request; None = none. timeout_s: for one answer, above 0. The first answer may
    take a minute.

    ValueError for a workload with constraints besides room. ProcessFault, a ValueError, with the number of the line,
    the rule and the value, if the process can't start, ends early, is too slow or gives a wrong answer.
    """
    if workload.constraints != NO_CONSTRAINTS:
        raise ValueError(f"workload must have no constraints for a process, got {workload.constraints}")
    if not timeout_s > 0:
        raise ValueError(f"timeout_s must be above 0, got {timeout_s!r}")
    with tempfile.TemporaryFile() as errors, _Lines(command, errors, timeout_s) as lines:
        asked = _Asked(lines, workload, source)
        policy = Policy(asked.name, host_scores=asked.scores, predictions="none" if source is None else "current")
        try:
            result = simulate(workload, policy, source)
        except ValueError as error:
            if isinstance(error.__cause__, ProcessFault):
                raise error.__cause__ from None
            raise
        return result, Decisions(asked.name, np.array(asked.each_us))


@dataclass(slots=True)
class _Asked:
    """The policy's function: sends a request, reads the answer and verifies it."""

    lines: _Lines
    workload: Workload
    source: LifetimeSource | None
    name: str = ""
    wants: tuple[str, ...] = ()
    each_us: list[float] = field(default_factory=list)
    running: list[tuple[int, int]] = field(default_factory=list)  # a heap of (departure_s, row)
    curves: Curves | None = None

    def __post_init__(self) -> None:
        w = self.workload
        answer = self.lines.answer({
            "protocol": PROTOCOL, "resources": list(w.resources), "hosts": w.capacity.tolist(),
            "host_ids": [str(name) for name in w.hosts["host_id"]], "horizon_s": w.trace.horizon_s,
            "n_requests": len(w.need), "has_predictions": self.source is not None}, at_least_s=_OPENING_S)
        if answer.get("protocol") != PROTOCOL:
            raise self.lines.fault("protocol", str(PROTOCOL), answer.get("protocol"))
        name, wants = answer.get("name"), answer.get("wants", [])
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise self.lines.fault("name", f"a printable text of 1 to {_LONGEST_NAME} characters", name)
        if not isinstance(wants, list) or any(want not in WANTS for want in wants):
            raise self.lines.fault("wants", f"a list of {', '.join(WANTS)}", wants)
        if "curve" in wants and self.source is None:
            raise self.lines.fault("wants", "without curve in a replay without predictions", wants)
        self.name, self.wants = name, tuple(wants)
        if "curve" in wants and self.source is not None:
            self.curves = self.source.curves(w.trace.requests)

    def scores(self, cluster: Cluster, request: Request, now: int) -> np.ndarray:
        """0 for the host that the process chose, infinity for all others."""
        row = request.row
        ended = []
        while self.running and self.running[0][0] <= now:
            ended.append(heappop(self.running)[1])
        line: dict[str, Any] = {"request": row, "now_s": now, "need": request.need.tolist(), "age_s": request.age_s,
                                "ended": ended}
        if self.source is not None:
            line["exit_s"] = request.exit_s
        if "features" in self.wants:
            line["features"] = self._features(row)
        if self.curves is not None:
            line["curve"] = _curve(self.curves, row)
        if "fitting" in self.wants:
            line["fitting"] = np.flatnonzero(fitting_hosts(cluster, request.need)).tolist()
        started = time.perf_counter()
        answer = self.lines.answer(line)
        self.each_us.append(1e6 * (time.perf_counter() - started))
        chosen = np.full(len(cluster.free), np.inf)
        host = answer.get("host", answer)
        if host is None:
            return chosen
        if not isinstance(host, int) or isinstance(host, bool) or not 0 <= host < len(chosen):
            raise self.lines.fault("host", f"null or in 0..{len(chosen) - 1}", host)
        if not fitting_hosts(cluster, request.need)[host]:
            need, free = request.need.tolist(), cluster.free[host].tolist()
            raise self.lines.fault("host", f"one with room for {need} (request {row})", f"host {host} with {free} free")
        heappush(self.running, (int(self.workload.departure_s[row]), row))
        chosen[host] = 0.0
        return chosen

    def _features(self, row: int) -> dict[str, Any]:
        """What is known when the request arrives: its id, owners, categories and numbers; null = missing."""
        table, roles = self.workload.trace.requests, self.workload.trace.roles
        names = ("request_id", *roles.owners, *roles.categories, *roles.numbers)
        return {name: _plain(table[name].iat[row]) for name in names}


def _curve(curves: Curves, row: int) -> dict[str, list[int]]:
    """The curve of one request: the predicted total lifetime from each uptime on, and how long it outlasts that."""
    curve = int(curves.curve_of()[row])
    part = slice(int(curves.offsets[curve]), int(curves.offsets[curve + 1]))
    arrays = {"uptime_s": curves.uptime_s, "total_s": curves.total_s, "overhang_s": curves.overhang_s}
    return {name: array[part].tolist() for name, array in arrays.items() if array is not None}


def fitting_hosts(cluster: Cluster, need: np.ndarray) -> np.ndarray:
    """Whether each host has room, bool (n_hosts,), by the simulator's rule: GPU by GPU if the workload has whole ones.

    >>> pool = Cluster(np.array([[8], [8]]), np.array([[3], [8]]), np.zeros(2), np.zeros(2))
    >>> fitting_hosts(pool, np.array([4])).tolist()
    [False, True]
    """
    is_fitting = np.asarray((cluster.free >= need).all(axis=1))
    if cluster.gpu_free.shape[1]:
        milli = int(need[cluster.gpu_dimension[0]])
        is_fitting &= np.array([gpus_fit(cluster, host, milli) for host in range(len(is_fitting))])
    return is_fitting


def _plain(value: Any) -> Any:
    """A cell as JSON has it."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool | int | str):
        return value
    return value if isinstance(value, float) and np.isfinite(value) else None


class _Lines:
    """A process and the lines that go to it and come from it; each call counts one line."""

    def __init__(self, command: Sequence[str], errors: IO[bytes], timeout_s: float) -> None:
        self._errors, self._timeout_s, self._n, self._waiting = errors, timeout_s, 0, b""
        if isinstance(command, str) or not command:
            raise ValueError(f"command must be a list of a program and its arguments, got {command!r}")
        self._command = list(command)
        try:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                             stderr=errors, bufsize=0, start_new_session=True)
        except OSError as error:
            raise ProcessFault(f"command must be a program that starts, got {self._command!r}: {error}") from error
        self._to, self._from = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        os.set_blocking(self._to.fileno(), False)

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        """Close its input, and end it and its children if it does not end by itself."""
        with contextlib.suppress(BrokenPipeError):
            self._to.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(min(self._timeout_s, 1.0))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._from.close()

    def fault(self, name: str, rule: str, value: Any) -> ProcessFault:
        """The error of the line that was read last."""
        got = value if isinstance(value, str) and value.isprintable() else json.dumps(value)
        return ProcessFault(f"line {self._n} of {self._command[0]}: {name} must be {rule}, got {got[:200]}")

    def answer(self, line: dict[str, Any], *, at_least_s: float = 0.0) -> dict[str, Any]:
        """The object that the process writes after it has got the line."""
        self._n += 1
        if self._waiting:
            raise self.fault("answers", "one line per request", self._waiting.decode(errors="replace").strip())
        text = self._exchanged(json.dumps(line, separators=(",", ":")).encode() + b"\n",
                               max(self._timeout_s, at_least_s))
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self.fault("answer", "a JSON object", repr(text.decode(errors="replace")[:200]))
        return answer

    def _exchanged(self, request: bytes, timeout_s: float) -> bytes:
        """Write a line and read one; both at once, since a process may write before it has read all."""
        until = time.monotonic() + timeout_s
        while b"\n" not in self._waiting:
            left = until - time.monotonic()
            readable, writable, _ = select.select([self._from], [self._to] if request else [], [], max(left, 0.0))
            if not readable and not writable:
                raise self.fault("answer", f"there within {timeout_s:g} s", "none")
            if writable:
                try:
                    request = request[os.write(self._to.fileno(), request[:1 << 16]):]
                except BrokenPipeError:
                    request = b""  # what it has written before it ended counts, however late this is seen
            if readable:
                block = os.read(self._from.fileno(), 1 << 16)
                if not block:
                    raise self._ended()
                self._waiting += block
                if len(self._waiting) > MAX_LINE_BYTES:
                    raise self.fault("answer", f"at most {MAX_LINE_BYTES} bytes long", f"{len(self._waiting)} or more")
        text, self._waiting = self._waiting.split(b"\n", 1)
        return text

    def _ended(self) -> ProcessFault:
        """The error of a process that has ended or closed its output, with the end of what it wrote to stderr."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(size - _TAIL_BYTES, 0))
        words = self._errors.read().decode(errors="replace").strip()
        code = self._process.returncode
        got = "a closed output" if code is None else f"its end with exit code {code}"
        return self.fault("process", "there until its input ends", f"{got}{f': {words}' if words else ''}")


def main() -> None:
    """Replay the log NASA iPSC under the process of the command line, and print its decisions and placements."""
    root = Path(__file__).parents[1]
    command = sys.argv[1:] or [sys.executable, str(root / "bench/examples/best_fit.py")]
    trace, _ = read_trace("swf", root / "examples/nasa-ipsc-1993.swf.gz")
    workload = build_workload("trace", trace, cpu_cores=32, mem_gib=64)
    result, decisions = process_replay(command, workload)
    same = int((result.host == simulate(workload, "best-fit").host).sum())
    print(f"{decisions.text()}; {same:,} placed as by the built-in best-fit; empty hosts "
          f"{result.metrics.empty_hosts_pct:.2f} %")


if __name__ == "__main__":
    main()
