"""A comparison's cells: which there are, that they are paired, kept, resumed, and the same however they are run."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn.features.synthetic import synthesize
from sojourn.flows.compare import cells as cell_replay
from sojourn.flows.compare import cells as replaying
from sojourn.flows.compare import grid
from sojourn.flows.compare.cells import CellResult, CellStore
from sojourn.flows.compare.comparison import run_cells
from sojourn.flows.compare.grid import Cell
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.store.caches import source_hash
from sojourn.flows.workers.dask import Here, local_workers
from sojourn.simulator import LifetimeSource, Result, Workload, simulate
from sojourn.simulator.experiments import RIVALS

HERE = local_workers(1)


def _config(store: Path, **settings: object) -> CompareConfig:
    return CompareConfig.model_validate({
        "store": store, "n_requests": 1_000, "policies": ("nilas", "first-fit"), "seeds": (0, 1), **settings})


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Policy of each replay that the test brings about, and a digest of its workload."""
    seen: list[tuple[str, str]] = []

    def counted(workload: Workload, policy: str, source: LifetimeSource | None, rectify: Any) -> Result:
        digest = str(hash((workload.placed_s.tobytes(), workload.departure_s.tobytes(), workload.capacity.tobytes())))
        seen.append((policy, digest))
        return simulate(workload, policy, source, rectify=rectify)

    monkeypatch.setattr(cell_replay, "simulate", counted)
    return seen


def _results(cells: list[Cell]) -> list[CellResult]:
    found = [CellStore(cell.workload.trace.store).read(cell.key()) for cell in cells]
    return [result for result in found if result is not None]


def test_best_fit_is_always_there_and_plain_policies_come_once(tmp_path: Path) -> None:
    cells = _config(tmp_path, predictors=("noise:1", "oracle"), seeds=(3,)).cells()
    assert [cell.label for cell in cells] == [*RIVALS, "nilas (noise:1)", "nilas (oracle)"]
    assert cells[0].workload.start == "cold"


def test_rectified_every_policy_meets_every_predictor_and_without_each_comes_too(tmp_path: Path) -> None:
    cells = _config(tmp_path, predictors=("oracle",), seeds=(3,), rectifiers=("none", "pdre:05,long=24", "pdre:2"),
                    policies=("nilas",)).cells()
    assert [cell.label for cell in cells] == [
        *RIVALS, "nilas (oracle)", "best-fit + pdre:5 (oracle)", "nilas + pdre:5 (oracle)",
        "best-fit + pdre:2 (oracle)", "nilas + pdre:2 (oracle)"]
    assert len({cell.key() for cell in cells}) == 8
    assert [cell.unrectified.label for cell in cells[4:6]] == ["best-fit", "nilas (oracle)"]


def test_what_cannot_be_moved_is_the_same_under_every_policy_and_another_at_another_seed(tmp_path: Path) -> None:
    specs = {cell.workload for cell in _config(tmp_path, rectifiers=("pdre:5",)).cells()}
    found = {spec.seed: cell_replay.made_rectifier(spec, "pdre:5") for spec in specs}
    assert {seed: made.seed for seed, made in found.items() if made} == {0: 0, 1: 1}


def test_the_oracle_stands_beside_every_predictor(tmp_path: Path) -> None:
    cells = _config(tmp_path, predictors=("noise:1", "one-shot:oracle"), seeds=(3,)).cells()
    assert [cell.label for cell in cells] == [
        *RIVALS, "nilas (oracle)", "nilas (noise:1)", "nilas (one-shot:oracle)"]


def test_one_learnt_predictor_moves_every_cell_to_the_later_part(tmp_path: Path) -> None:
    cells = _config(tmp_path, predictors=("oracle", "one-shot:km"), seeds=(3,)).cells()
    assert {cell.workload.start for cell in cells} == {"warm"}
    with pytest.raises(ValueError, match=r"start must be warm with predictor one-shot:km, .* got 'cold'"):
        _config(tmp_path, predictors=("oracle", "one-shot:km"), starts=("warm", "cold")).cells()
    # but where no policy asks for predictions, nothing is learnt
    assert _config(tmp_path, predictors=("km",), policies=("first-fit",)).cells()[0].workload.start == "cold"


@pytest.mark.slow
def test_both_starts_stand_side_by_side(tmp_path: Path, replays: list[tuple[str, str]]) -> None:
    cells = _config(tmp_path, policies=("first-fit",), seeds=(0,), starts=("cold", "warm", "cold")).cells()
    assert [cell.workload.name for cell in cells] == ["synthetic, cold start"] * 3 + ["synthetic, warm start"] * 3
    assert run_cells(cells, HERE) == {}
    digests = [digest for _, digest in replays]
    assert digests[0] == digests[1] == digests[2] != digests[3] == digests[4] == digests[5]  # paired within a start
    cold, warm = (replaying.workload_of(cell.workload) for cell in cells[::3])
    # the whole trace begins with what came before it, its later part with what that left running
    assert len(cold.trace) == 1_000 > len(warm.trace)
    assert set(warm.request_ids) < set(cold.request_ids)
    assert (warm.start_s < 0).any()
    assert (warm.departure_s[warm.start_s < 0] > 0).all()
    assert _config(tmp_path, recipe="openb", starts=("warm",)).cells()[0].workload.name == "openb, later part"


def test_a_shape_of_hosts_is_obeyed_or_refused(tmp_path: Path) -> None:
    shape = {"host_cpu_cores": 16.0, "host_mem_gib": 64.0}
    cell = _config(tmp_path, policies=("first-fit",), seeds=(0,), **shape).cells()[0]
    assert cell.workload.recipe == "trace"
    hosts = replaying.workload_of(cell.workload).hosts
    assert {*hosts["cpu_cores"]} == {16.0} and {*hosts["mem_gib"]} == {64.0}
    with pytest.raises(ValueError, match=r"recipe must .*, got 'synthetic'"):
        _config(tmp_path, recipe="synthetic", **shape).cells()


def test_a_key_tells_all_that_decides_a_result(tmp_path: Path) -> None:
    keys = {cell.key() for settings in (
        {}, {"loads": (0.7,)}, {"seeds": (2,)}, {"n_requests": 1_001}, {"predictors": ("noise:1",)},
        {"policies": ("la",)}, {"recipe": "trace"}, {"recipe": "trace", "host_cpu_cores": 64.0, "host_mem_gib": 256.0},
        {"predictors": ("km",)}, {"predictors": ("km",), "test_share": 0.4}, {"starts": ("warm",)},
    ) for cell in _config(tmp_path, seeds=(0,), policies=("nilas",)).model_copy(update=settings).cells()}
    # three rivals and nilas with the oracle for 6 of the settings; noise:1 and la add one each to the first; km, the
    # oracle and the rivals on each of two later parts; the warm start alone has the same as the first of these
    assert len(keys) == 6 * 4 + 2 * 1 + 2 * 5
    again = _config(tmp_path / "elsewhere", seeds=(0,), policies=("nilas",)).cells()
    assert {cell.key() for cell in again} <= keys


@pytest.mark.slow
def test_every_policy_meets_the_same_workload(tmp_path: Path, replays: list[tuple[str, str]]) -> None:
    cells = _config(tmp_path, loads=(0.5, 0.8), policies=("nilas", "first-fit")).cells()
    assert run_cells(cells, HERE) == {}
    assert len(replays) == len(cells) == 2 * 2 * 4
    digests = [digest for _, digest in replays]
    per_workload = [set(digests[first:first + 4]) for first in range(0, 16, 4)]
    assert all(len(each) == 1 for each in per_workload)
    assert len(set(digests)) == 4


def test_a_finished_cell_is_never_run_again(tmp_path: Path, replays: list[tuple[str, str]]) -> None:
    cells = _config(tmp_path).cells()
    run_cells(cells[:2], HERE)  # as if it had been interrupted
    run_cells(cells, HERE)
    assert len(replays) == len(cells)
    run_cells(cells, HERE)
    assert len(replays) == len(cells)
    more = _config(tmp_path, seeds=(0, 1, 2)).cells()
    run_cells(more, HERE)
    assert [policy for policy, _ in replays[len(cells):]] == [cell.policy for cell in more[len(cells):]]


def _cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


@pytest.mark.parametrize(("suffix", "damage"), [
    ("npz", _cut_short), ("npz", Path.unlink), ("json", _cut_short), ("json", lambda file: file.write_text("[]")),
    ("json", lambda file: file.write_text(json.dumps({"key": "another", "figures": {}, "times": {}, "about": {}}))),
])
def test_a_damaged_result_is_made_anew(tmp_path: Path, replays: list[tuple[str, str]], suffix: str,
                                       damage: Callable[[Path], object]) -> None:
    cells = _config(tmp_path, seeds=(0,), policies=("first-fit",)).cells()
    run_cells(cells, HERE)
    before = _results(cells)
    damage(tmp_path / "cells" / f"{cells[1].key()}.{suffix}")
    assert run_cells(cells, HERE) == {}
    assert [policy for policy, _ in replays] == [*RIVALS, "first-fit"]
    assert [result.figures for result in _results(cells)] == [result.figures for result in before]


def test_one_cell_fails_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(workload: Workload, policy: str, source: LifetimeSource | None, rectify: Any) -> Result:
        if policy == "first-fit":
            raise ZeroDivisionError("a policy's own")
        return simulate(workload, policy, source, rectify=rectify)

    monkeypatch.setattr(cell_replay, "simulate", failing)
    cells = _config(tmp_path, seeds=(0,)).cells()
    failed = run_cells(cells, HERE)
    assert {cell.label: reason for cell, reason in failed.items()} == {
        "first-fit": "ZeroDivisionError: a policy's own"}
    assert len(_results(cells)) == 3
    monkeypatch.undo()
    assert run_cells(cells, HERE) == {}


def test_a_worker_that_stands_elsewhere_keeps_in_the_same_store(tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(Here):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            with chdir("/"):
                return super().submit(fn, *args, **kwargs)

    synthesize(1_000, seed=0).save(tmp_path / "trace")
    monkeypatch.chdir(tmp_path)
    cells = _config(Path("store"), seeds=(0,), policies=("first-fit",), trace=Path("trace"), reader="parquet").cells()
    assert run_cells(cells, [Elsewhere]) == {}
    assert len(_results(cells)) == 3
    assert len(list((tmp_path / "store" / "cells").glob("*.json"))) == 3


def test_a_worker_with_other_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = _config(tmp_path, policies=("first-fit",)).cells()
    n_calls = iter(range(len(cells)))

    class Edited(Here):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            edit = "edited" * (next(n_calls) == 2)
            with monkeypatch.context() as other:
                other.setattr(grid, "source_hash", lambda *names, **more: source_hash(*names, **more) + edit)
                return super().submit(fn, *args, **kwargs)

    failed = run_cells(cells, [Edited])
    assert list(failed) == [cells[2]]
    assert "its worker must have the code and libraries that asked for" in failed[cells[2]]
    assert len(_results(cells)) == len(cells) - 1


def test_what_a_worker_keeps_in_a_store_of_its_own_is_missed(tmp_path: Path) -> None:
    class Apart(Here):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            return super().submit(lambda: None)

    cells = _config(tmp_path, seeds=(0,), policies=("first-fit",)).cells()
    failed = run_cells(cells, [Apart])
    assert list(failed) == cells
    assert set(failed.values()) == {f"its worker must share the folder {tmp_path}, got no result there"}


@pytest.mark.slow
def test_processes_leave_the_same_bytes_as_one(tmp_path: Path) -> None:
    settings: dict[str, object] = {"predictors": ("oracle", "noise:1"), "loads": (0.6, 0.8)}
    alone, together = (_config(tmp_path / name, **settings).cells() for name in ("alone", "together"))
    run_cells(alone, HERE)
    run_cells(together, local_workers(2))
    for one, other in zip(_results(alone), _results(together), strict=True):
        assert one.figures == other.figures
        assert one.about == other.about
        assert one.arrays.keys() == other.arrays.keys()
        for name, array in one.arrays.items():
            np.testing.assert_array_equal(array, other.arrays[name])
