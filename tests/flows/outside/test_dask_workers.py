"""Cells on a Dask cluster: the same as here; without Dask or an answer, a clear word."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from sojourn.flows.compare.cell_store import CellStore
from sojourn.flows.compare.compare_config import CompareConfig
from sojourn.flows.compare.comparison import run_cells
from sojourn.flows.compare.grid import Cell
from sojourn.flows.outside.dask_workers import cluster_workers
from sojourn.flows.outside.workers import local_workers


def _cells(store: Path) -> list[Cell]:
    return CompareConfig(store=store, n_requests=1_000, policies=("first-fit",), seeds=(0, 1)).cells()


def test_without_dask_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match="must have the package `distributed`"), cluster_workers("tcp://none:1"):
        pass


@pytest.mark.slow
def test_a_cluster_leaves_the_same_bytes(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    here, there = _cells(tmp_path / "here"), _cells(tmp_path / "there")
    run_cells(here, local_workers(1))
    made = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
    with made, cluster_workers(made.scheduler_address) as workers:
        assert len(workers) == 2
        assert run_cells(there, workers) == {}
    for one, other in zip(here, there, strict=True):
        mine, theirs = (CellStore(cell.workload.trace.store).read(cell.key()) for cell in (one, other))
        assert mine is not None
        assert theirs is not None
        assert mine.figures == theirs.figures
        np.testing.assert_array_equal(mine.arrays["empty_hosts_pct"], theirs.arrays["empty_hosts_pct"])


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_an_os_error() -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with pytest.raises(OSError, match=r"127\.0\.0\.1:1"), cluster_workers("tcp://127.0.0.1:1", timeout_s=0.5):
        pass
