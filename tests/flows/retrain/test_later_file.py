"""A retrain with a later file: what it publishes is fitted and chosen without a byte of that file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sojourn.features import Trace
from sojourn.features.synthetic import START_UNIX_S, synthesize
from sojourn.flows.settings.retrain import RetrainConfig

pytestmark = pytest.mark.slow
CUT_S = 14 * 86_400


def _part(whole: Trace, is_kept: np.ndarray, from_s: int, horizon_s: int) -> Trace:
    requests = whole.requests[is_kept].copy()
    for name in ("arrival_s", "departure_s"):
        requests[name] = requests[name] - from_s
    requests["departure_s"] = requests["departure_s"].where(requests["departure_s"] <= horizon_s)
    begin_s = START_UNIX_S + from_s
    return Trace(requests, horizon_s, whole.roles).moved(begin_s, begin_s)


@pytest.mark.usefixtures("prefect_server")
def test_the_model_is_the_same_whatever_the_later_file_says(new_store: Callable[[Path], Path],
                                                            tmp_path: Path) -> None:
    from sojourn.flows.retrain.job import retrain

    whole = synthesize(2_000, seed=4).since_begin()
    is_known = whole.is_start_known()
    past = _part(whole, is_known & (whole.start_s() < CUT_S), 0, CUT_S).save(tmp_path / "past")
    later = _part(whole, is_known & (whole.end_s() > CUT_S), CUT_S, whole.horizon_s - CUT_S)
    other = later.requests.copy()
    start_s = np.maximum(later.start_s(), later.begin_s)
    rng = np.random.default_rng(0)
    other["departure_s"] = start_s + rng.integers(0, later.horizon_s - start_s, endpoint=True)
    later.save(tmp_path / "later")
    Trace(other, later.horizon_s, later.roles, meta=later.meta).save(tmp_path / "other")
    store = new_store(tmp_path / "store")
    models, histories, scores = [], [], []
    for name in ("later", "other"):
        found = retrain(RetrainConfig(store=store, trace=past, reader="parquet", test=tmp_path / name, n_threads=1,
                                      families=("hazard",), simulate=False))
        models.append((found.bundle / "model.onnx").read_bytes())  # the next run may take an old candidate's place
        histories.append((found.bundle / "history.npz").read_bytes())
        assert found.evaluation is not None
        scores.append(found.evaluation.scores["hazard"]["ages.ibs"])
    assert models[0] == models[1]
    assert histories[0] != histories[1]  # a scheduler starts from what owners did up to the end of both files
    assert scores[0] != scores[1]
