"""A cluster of two processes: cells and features the same bytes as here; workers that die, differ or do not answer."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sojourn.features.synthetic import synthesize
from sojourn.flows.compare.cells import CellStore
from sojourn.flows.compare.comparison import run_cells
from sojourn.flows.compare.grid import Cell
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.retrain.features import stored_features
from sojourn.flows.retrain.ingest import Ingested
from sojourn.flows.workers import dask as module
from sojourn.flows.workers.dask import cluster, dask_workers, local_workers, run_grouped


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with cluster("local:2") as found:
        yield found


def _cells(store: Path) -> list[Cell]:
    return CompareConfig(store=store, n_requests=1_000, policies=("first-fit",), seeds=(0, 1)).cells()


def test_without_dask_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match="must have the package `distributed`"), dask_workers("tcp://none:1"):
        pass


@pytest.mark.slow
def test_a_cluster_leaves_the_same_cells(tmp_path: Path, address: str) -> None:
    here, there = _cells(tmp_path / "here"), _cells(tmp_path / "there")
    run_cells(here, local_workers(1))
    with dask_workers(address) as workers:
        assert len(workers) == 2
        assert run_cells(there, workers) == {}
    for one, other in zip(here, there, strict=True):
        mine, theirs = (CellStore(cell.workload.trace.store).read(cell.key()) for cell in (one, other))
        assert mine is not None
        assert theirs is not None
        assert mine.figures == theirs.figures
        np.testing.assert_array_equal(mine.arrays["empty_hosts_pct"], theirs.arrays["empty_hosts_pct"])


@pytest.mark.slow
def test_a_cluster_leaves_the_same_features(tmp_path: Path, address: str) -> None:
    ingested = Ingested(synthesize(3_000, seed=2).save(tmp_path / "trace"), "synthetic", "0" * 64, "")
    stored_features(tmp_path / "here", ingested)
    stored_features(tmp_path / "there", ingested, dask=address)
    files = [sorted((tmp_path / side / "features").iterdir()) for side in ("here", "there")]
    assert [file.name for file in files[0]] == [file.name for file in files[1]]
    assert len(files[0]) == 3  # rows, history, checksums; nothing temporary is left
    for mine, theirs in zip(*files, strict=True):
        assert mine.read_bytes() == theirs.read_bytes()


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_an_os_error() -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    rule = r"dask must be a scheduler that answers within 0\.5 s, got none at tcp://127\.0\.0\.1:1"
    with pytest.raises(OSError, match=rule), dask_workers("tcp://127.0.0.1:1", timeout_s=0.5):
        pass


@pytest.mark.slow
def test_workers_of_another_version_are_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "__version__", "9.9.9")
    rule = r"dask workers must have Sojourn 9\.9\.9, as here; got '[^']+' on tcp://127\.0\.0\.1:\d+"
    with pytest.raises(ValueError, match=rule), dask_workers(address):
        pass


# Tasks are made within functions: Dask then sends their code. A worker could not import this file by the name that
# pytest gives it.
def _end_once(folder: Path) -> Callable[[int], int]:
    """Gives back its number; the first worker that is asked for number 3 is killed at it."""

    def task(number: int) -> int:
        mark = folder / "killed"
        if number == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        time.sleep(0.05)
        return number

    return task


def _end_always() -> Callable[[int], int]:
    def task(number: int) -> int:
        os.kill(os.getpid(), 9)
        return number

    return task


@pytest.mark.slow
def test_what_a_killed_worker_was_at_is_done_by_another(tmp_path: Path, address: str) -> None:
    with dask_workers(address) as workers:
        found = list(run_grouped([[0, 1, 2, 3, 4, 5]], _end_once(tmp_path), workers))
    assert (tmp_path / "killed").exists()
    assert sorted(found) == [(number, number) for number in range(6)]


@pytest.mark.slow
def test_work_that_kills_every_worker_ends_with_an_error(address: str) -> None:
    with dask_workers(address) as workers:
        (_, outcome), = run_grouped([[7]], _end_always(), workers)
    assert type(outcome).__name__ == "KilledWorker"


@pytest.mark.slow
def test_what_a_lone_worker_was_at_is_done_once_it_is_back(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with cluster("local:1") as alone, dask_workers(alone) as workers:
        found = list(run_grouped([[3, 4]], _end_once(tmp_path), workers))
    assert (tmp_path / "killed").exists()
    assert sorted(found) == [(3, 3), (4, 4)]


def _slow() -> Callable[[int], int]:
    def task(number: int) -> int:
        time.sleep(60)
        return number

    return task


@pytest.mark.slow
def test_work_on_a_cluster_that_lost_all_workers_ends_with_an_error() -> None:
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as made:
        worker = subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_worker", made.scheduler_address,
                                   "--no-nanny", "--no-dashboard", "--nthreads", "1"], stderr=subprocess.DEVNULL)
        with distributed.Client(made, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
        with dask_workers(made.scheduler_address, empty_s=1.0) as workers:
            work = run_grouped([[0, 1, 2, 3]], _slow(), workers)
            killed = threading.Timer(0.5, worker.kill)
            killed.start()
            outcomes = dict(work)  # what is asked for after the first was cancelled ends as well
        worker.wait()
    assert {number: type(outcome).__name__ for number, outcome in outcomes.items()} == dict.fromkeys(
        range(4), "CancelledError")
