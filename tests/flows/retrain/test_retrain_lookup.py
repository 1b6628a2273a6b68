"""A retrain whose best family is the lookup table: published as any other, and never compared with itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.tracking.tracker import CHAMPION
from sojourn.serving import Predictor

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("prefect_server")
def test_where_the_table_is_best_it_is_published_and_answers(new_store: Callable[[Path], Path],
                                                             tmp_path_factory: pytest.TempPathFactory) -> None:
    from sojourn.flows.retrain.job import retrain

    store = new_store(tmp_path_factory.mktemp("store"))
    config = RetrainConfig(store=store, n_requests=3_000, n_threads=1, n_replicas=2, max_replicas=2, families=("km",))
    first = retrain(config)
    assert (first.promotion.version, first.promotion.alias) == (1, CHAMPION), first.promotion.gates
    names = [gate.name for gate in first.promotion.gates]
    assert "accuracy against one curve for all" in names
    assert not any(name.endswith("against km") for name in names)
    assert first.promotion.gates[names.index("time to build a curve")].finding.startswith("no trees")
    predictor = Predictor.load(first.bundle)
    assert predictor.info()["family"] == "km"
    life = predictor.predict({}, 1_706_486_400)
    assert life.remaining(0.0) > 0.0 and predictor.explain(life).groups
    assert (next((store / "artifacts").rglob("importance.txt"))).read_text().startswith("km has no trees")

    second = retrain(config.model_copy(update={"long_lived_s": 80_000}))
    names = [gate.name for gate in second.promotion.gates]
    assert {"accuracy against champion v1", "empty hosts by nilas against champion v1"} <= {*names}
    assert second.promotion.alias == CHAMPION, second.promotion.gates
