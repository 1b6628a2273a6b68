"""The study `balanced` on a small trace."""

import re
from pathlib import Path

import pandas as pd
import pytest

import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize
from sojourn.flows.settings.store import load_settings
from studies.balanced import KS, balanced_rows, balanced_summary, run_balanced
from studies.settings import StudySettings

pytestmark = pytest.mark.slow  # the loop of an elastic pool takes most of a minute to compile


def test_every_cost_is_held_against_the_base_of_its_k_and_seed() -> None:
    replays = []
    for seed in (0, 1):
        workload = sim.build_workload("synthetic", synthesize(3_000, seed=seed))
        rows = balanced_rows(workload, {"oracle": sim.Oracle(workload)})
        replays.append(pd.DataFrame(rows).assign(workload="w", seed=seed))
    table = pd.concat(replays, ignore_index=True)
    assert len(table) == 2 * (2 + 3 * len(KS))
    moves = table.groupby(["rule", "k", "cost"], dropna=False)["n_moves"].sum()
    assert moves["empty"].sum() == 0
    # a higher k lets more hosts be emptied, up to all that the rule without a score empties
    uniform = [int(moves["balanced", k, "uniform"]) for k in KS]
    assert 0 < uniform[0] < uniform[1] <= uniform[2] <= moves["any"].sum()
    for base in ("uniform", "uptime"):
        summary = balanced_summary(table, base)
        for k in KS:
            of = table[table["k"] == k].pivot_table(index="seed", columns="cost", values="host_h")
            found = summary.loc[("w", "balanced", k, "oracle"), "host_h_pct"]
            assert found == pytest.approx((100 * (of["oracle"] / of[base] - 1)).mean())
            assert summary.loc[("w", "balanced", k, base), "host_h_pct"] == 0.0


def test_the_study_prints_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_settings(StudySettings, None, preset="balanced", policies=["best-fit"], predictors=["oracle"],
                           n_requests=1_500, n_seeds=1, store=tmp_path)
    assert run_balanced(config) == 0
    out = capsys.readouterr().out
    assert out.count("Karpenter's Balanced, requests start over; against") == 2
    assert len(re.findall(r"│ oracle +│", out)) == 2 * len(KS)
    assert re.search(r"\bnan\b", out) is None
