"""Trees grown on two workers: the same each time, nearly as good as here, exact in the bundle; a worker killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sojourn.flows.workers import boost_shard, dask_boosting
from sojourn.flows.workers.dask import cluster, dask_client
from sojourn.flows.workers.dask_boosting import Rank, dask_learner, every, run_rank
from sojourn.models.lifetime import Rows
from sojourn.models.lifetime.gbdt import Boosted, boost
from sojourn.models.parity import n_different_bits
from sojourn.serving import Predictor
from sojourn.serving.forest import row_scores

PARAMS = {"num_leaves": 7, "min_data_in_leaf": 20}


def made_rows(n: int, seed: int) -> Rows:
    """Labels that two of four features tell, with noise of 0.1; weights of 1 and 2."""
    rng = np.random.default_rng(seed)
    features = rng.random((n, 4))
    label = features[:, 0] + (features[:, 1] > 0.5) + 0.1 * rng.standard_normal(n)
    return Rows(features, label, rng.integers(1, 3, n).astype(np.float64))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with cluster("local:2") as found:
        yield found


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    rows = made_rows(5, 0)
    boost_shard.write_rows(every(rows, 1, 2), tmp_path / "rows.npz")
    found = boost_shard.read_rows(tmp_path / "rows.npz")
    np.testing.assert_array_equal(found.features, rows.features[[1, 3]])
    assert rows.weight is not None and found.weight is not None and found.init_score is None
    np.testing.assert_array_equal(found.weight, rows.weight[[1, 3]])


def test_a_rank_with_other_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a worker must have the code and libraries that asked for 0000"):
        run_rank(Rank(tmp_path, 0, 0, 1, "0" * 64))


def _fitted(address: str, store: Path, valid: Rows | None) -> Boosted:
    with dask_learner(address, 2, store) as learner:
        return boost("regression", made_rows(3_000, 1), valid, n_varying=0, n_rounds=12, n_threads=1, params=PARAMS,
                     learner=learner)


@pytest.mark.slow
def test_two_workers_grow_the_same_trees_each_time_and_as_good_ones(address: str, tmp_path: Path) -> None:
    valid = made_rows(500, 2)
    first, again = (_fitted(address, tmp_path, valid) for _ in range(2))
    assert first.text == again.text and first.n_rounds == again.n_rounds
    np.testing.assert_array_equal(first.gain, again.gain)
    here = boost("regression", made_rows(3_000, 1), valid, n_varying=0, n_rounds=12, n_threads=1, params=PARAMS)
    errors = [float(np.mean((row_scores(each.forest)(valid.features) - valid.label) ** 2)) for each in (here, first)]
    assert errors[1] == pytest.approx(errors[0], rel=0.1)
    assert here.text != first.text
    assert n_different_bits(first.text, first.forest, valid.features) == (0, 1_000)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_worker_killed_in_mid_fit_costs_an_attempt(address: str, tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempt has rounds without end, so it is under way whenever the kill comes."""
    expected = _fitted(address, tmp_path, None)
    attempts: list[int] = []
    attempted, watched = dask_boosting._attempted, dask_boosting._watched

    def endless_at_first(client: object, n_ranks: int, folder: Path, attempt: int) -> str | None:
        attempts.append(attempt)
        settings = folder / boost_shard.SETTINGS
        asked = settings.read_text()
        if attempt == 0:
            settings.write_text(json.dumps({**json.loads(asked), "n_rounds": 10**9}))
            monkeypatch.setattr(dask_boosting, "_watched", partial(killing, folder))
        try:
            return attempted(client, n_ranks, folder, attempt)
        finally:
            settings.write_text(asked)
            monkeypatch.setattr(dask_boosting, "_watched", watched)

    def killing(folder: Path, client: object, futures: list[object], names: list[str]) -> str | None:
        machines = json.loads(boost_shard.machines_file(folder, 0).read_text())
        _wait_until_connected({int(machine.rpartition(":")[2]) for machine in machines})
        _kill_one(address)
        return watched(client, futures, names)

    monkeypatch.setattr(dask_boosting, "_attempted", endless_at_first)
    found = _fitted(address, tmp_path, None)
    assert attempts == [0, 1]
    assert found.text == expected.text


def _wait_until_connected(ports: set[int]) -> None:
    """Until two ranks talk to each other, which they do from the first to the last round."""
    import psutil

    until_s = time.monotonic() + 300
    while not any(each.status == psutil.CONN_ESTABLISHED and each.laddr and each.laddr.port in ports
                  for each in psutil.net_connections("tcp4")):
        if time.monotonic() > until_s:
            raise TimeoutError("the ranks must connect within 300 s")
        time.sleep(0.05)


def _kill_one(address: str) -> None:
    with dask_client(address) as (client, _):
        pids = client.run(os.getpid)
        os.kill(min(pids.values()), signal.SIGKILL)


@pytest.mark.slow
def test_more_ranks_than_workers_are_refused(address: str, tmp_path: Path) -> None:
    rule = "n_fit_workers must be at most the number of the cluster's workers, 2, got 3"
    with pytest.raises(ValueError, match=rule), dask_learner(address, 3, tmp_path):
        pass


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_whole_retrain_grows_its_trees_on_two_workers(address: str, new_store: Callable[[Path], Path],
                                                        tmp_path: Path) -> None:
    from sojourn.flows.retrain.job import retrain
    from sojourn.flows.settings.retrain import RetrainConfig

    config = RetrainConfig(store=new_store(tmp_path), n_requests=1_500, families=("hazard",), is_simulated=False,
                           n_threads=1, dask=address, n_fit_workers=2)
    made = retrain(config)
    assert [gate.is_passed for gate in made.promotion.gates][:2] == [True, True]  # bit parity of the export, its size
    assert made.promotion.gates[0].found.startswith("0 of ")
    assert Predictor.load(made.bundle).admit({"cpu_cores": 2.0, "mem_gib": 4.0}, now_s=1_706_486_400).remaining(0) > 0
