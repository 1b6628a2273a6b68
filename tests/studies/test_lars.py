"""The study `lars` on a small trace."""

import re
from pathlib import Path

import pandas as pd
import pytest

import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize
from sojourn.flows.console import console
from sojourn.flows.settings.store import load_settings
from studies.lars import ORDERS, fixed_batches, lars_summary, run_lars
from studies.settings import StudySettings


def test_every_order_is_held_against_the_traces_of_its_scope() -> None:
    workload = sim.build_workload("synthetic", synthesize(1_500, seed=0))
    rows = pd.DataFrame(fixed_batches(workload, sim.simulate(workload), sim.Oracle(workload)))
    assert len(rows) == len(ORDERS)
    fixed = rows.set_index(["order", "scope"])
    assert len(set(fixed["n_planned"])) == 1
    assert fixed["n_planned"].iloc[0] > 100
    assert fixed["n_migrations"]["longest-first", "batch"] < fixed["n_migrations"]["shortest-first", "batch"]
    summary = lars_summary(rows.assign(workload="w", load=0.8, seed=0)).set_index(["order", "scope"])
    for scope in ("batch", "host"):
        own, base = (fixed["n_migrations"][order, scope] for order in ("longest-first", "trace"))
        assert summary.loc[("longest-first", scope), "fewer_pct"] == pytest.approx(100 * (1 - own / base))


@pytest.mark.slow
def test_the_study_prints_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 160)  # room for all columns
    config = load_settings(StudySettings, None, preset="lars", policies=["best-fit"], n_requests=1_000, n_seeds=2,
                           loads=[0.8, 0.6], store=tmp_path)
    assert run_lars(config) == 0
    out = capsys.readouterr().out
    # at one of the loads no host is empty most of the time, and so none is missed
    for title, n_loads in (("Fixed batches", 2), ("Defragmentation", 1), ("Maintenance in 10 waves", 2)):
        assert out.count(f"{title}: order of migrations") == n_loads
    assert out.index("load 0.6") < out.index("load 0.8")
    assert re.search(r"\bnan\b", out) is None
