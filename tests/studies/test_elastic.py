"""The study `elastic` on a small trace."""

import re
from pathlib import Path

import pandas as pd
import pytest

import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize
from sojourn.flows.console import console
from sojourn.flows.settings.store import load_settings
from studies.elastic import BASELINE, WAYS, elastic_figure, elastic_summary, host_types, pool_rows, run_elastic
from studies.settings import StudySettings


def rows_of(seed: int) -> pd.DataFrame:
    """All ways of consolidation for best-fit."""
    workload = sim.build_workload("synthetic", synthesize(1_500, seed=seed))
    rows = pool_rows(workload, ("best-fit",), {"oracle": sim.Oracle(workload), "noise:1": sim.NoisyOracle(workload, 1)})
    return pd.DataFrame(rows).assign(workload="w", load=0.8, seed=seed)


@pytest.mark.slow
def test_every_way_is_held_against_the_timer_of_its_seed() -> None:
    replays = pd.concat([rows_of(0), rows_of(1)], ignore_index=True)
    # regret asks both predictors, the others none
    assert len(replays) == 2 * (sum(map(len, WAYS.values())) + len(WAYS))
    summary = elastic_summary(replays)
    assert set(summary["n_seeds"]) == {2}
    for moving in WAYS:
        base = replays[(replays["moving"] == moving) & (replays["consolidation"] == BASELINE[1])]["host_h"].to_numpy()
        own = replays[(replays["moving"] == moving) & (replays["consolidation"] == "regret")
                      & (replays["predictor"] == "oracle")]["host_h"].to_numpy()
        saved = summary.loc[("w", moving, "best-fit", "regret", "oracle"), "saved_pct"]
        assert saved == pytest.approx((100 * (1 - own / base)).mean())
        assert summary.loc[("w", moving, *BASELINE), "saved_pct"] == 0.0
        assert summary.loc[("w", moving, *BASELINE), "saved_net_pct"] == 0.0
    assert (summary["host_h"] > summary["bound_host_h"]).all()
    figure = elastic_figure(summary.reset_index())
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["requests migrate live", "requests start over"]


def test_types_are_the_distinct_shapes_and_cost_their_share_of_cores() -> None:
    table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [40], "cpu_cores": [2.0],
                          "mem_gib": [8.0]})
    hosts = pd.DataFrame({"host_id": list("abc"), "cpu_cores": [8.0, 4.0, 8.0], "mem_gib": [32.0, 16.0, 32.0]})
    workload = sim.build_workload("trace", sim.Trace(table, 100, hosts=hosts))
    assert [kind.price_per_h for kind in host_types(workload)] == [1.0, 0.5]


@pytest.mark.slow
def test_the_study_prints_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 160)  # room for all columns
    config = load_settings(StudySettings, None, preset="elastic", policies=["nilas"], predictors=["oracle", "km"],
                           n_requests=1_500, n_seeds=2, store=tmp_path)
    assert run_elastic(config) == 0
    out = capsys.readouterr().out
    # regret and each timer, for best-fit and nilas, with both predictors where they are asked
    assert len(re.findall(r"\bregret\b", out)) == 2 * 2 * 2
    assert out.count("Elastic pool, requests migrate live") == 1
    assert out.count("Elastic pool, requests start over") == 1
    assert out.count("baseline") == 2
    assert re.search(r"\bnan\b", out) is None
