"""Rows of a Dask cluster of two processes, one of which is killed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from functools import partial
from hashlib import sha256

import psutil
from benchmarks.faults.injection import Action
from benchmarks.faults.looks import looking
from benchmarks.faults.tries import KILLED, Bench, Try, timed

_WITHIN_S = 240.0


def killed_worker(bench: Bench) -> Iterator[Try]:
    """kill -9 of one of two Dask workers in a retrain and in a comparison; the command itself ends well"""
    for name, action in (("one worker", _kill_one),):
        if not bench.is_over():
            yield timed(f"{name}, as a retrain begins its features", partial(_in_retrain, bench, action))
    if not bench.is_over():
        yield timed("one worker, as the first cell of a comparison is done", partial(_in_compare, bench))


def _in_retrain(bench: Bench, action: Action) -> list[str]:
    """The features must be those of the run without a cluster, byte for byte."""
    bench.promoted()
    before = _sums(bench)
    shutil.rmtree(bench.store / "features")
    found: list[str] = []
    with looking(bench, found):
        ended = bench.launcher.run([*bench.retrain(KILLED), "--dask", "local:2"], bench.store, "/features/.", action)
    if ended.code != 0:
        found.append(f"the run ends with exit code {ended.code}: {ended.last_line}")
    if "a worker is killed" not in ended.printed:
        found.append("no worker was there to be killed")
    if not _sums(bench).items() <= before.items():
        found.append("the features differ from those without a cluster")
    return found + bench.unsound()


def _in_compare(bench: Bench) -> list[str]:
    bench.promoted()
    found: list[str] = []
    with looking(bench, found):
        run = bench.launcher.start([*bench.compare(), "--n-seeds", "8", "--dask", "local:2"], bench.store)
        bench.launcher.spared.add(run.pid)
        ends_s = time.monotonic() + _WITHIN_S
        while not any((bench.store / "cells").glob("[!.]*.npz")) and time.monotonic() < ends_s:
            if run.ends_within(0.01):
                break
        workers = _workers(run.pid)
        if workers:
            workers[0].kill()
        else:
            found.append("no worker was there to be killed")
        ended = run.wait()
        bench.launcher.spared.discard(run.pid)
    if ended.code != 0:
        found.append(f"the comparison ends with exit code {ended.code}: {ended.last_line}")
    return found + bench.after(KILLED)


def _kill_one(_: str) -> None:
    """Called in the run's own process."""
    workers = _workers(psutil.Process().pid)
    if workers:
        workers[0].kill()
        print("a worker is killed", flush=True)


def _workers(pid: int) -> list[psutil.Process]:
    """The processes of a run's cluster."""
    try:
        return [child for child in psutil.Process(pid).children(recursive=True)
                if any("spawn_main" in word for word in child.cmdline())]
    except psutil.Error:
        return []


def _sums(bench: Bench) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in (bench.store / "features").iterdir()
            if path.is_file()}
