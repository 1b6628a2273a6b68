"""The presets of placement by usage on small cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sojourn.flows.compare.compare_config import CompareConfig
from sojourn.flows.config import load_settings
from sojourn.flows.evaluations.colocation_runs import MEASURES, Entry, Setting, order_means, run_orders
from sojourn.flows.evaluations.period_presets import run_period_a, usage_grid
from sojourn.flows.evaluations.periodic_share import SHARES_PCT, shares_of_periodic
from sojourn.flows.placement.usage_case import pulse_case

SMALL = Setting(60, 12)


def test_orders_differ_and_requests_stay_or_are_drawn_anew() -> None:
    entries = (Entry("borg-peak", "true-peak"), Entry("squares", "true-wave"))
    case = pulse_case(200, 0)
    kept = run_orders(case, SMALL, entries, range(3), is_redrawn=False)
    assert len(kept) == 6
    again = run_orders(case, SMALL, entries, range(3), is_redrawn=False)
    assert kept[list(MEASURES)].equals(again[list(MEASURES)])
    drawn = run_orders(case, SMALL, entries, range(3))
    first = kept["seed"] == 0
    assert kept[first]["severity_pct"].tolist() == drawn[first]["severity_pct"].tolist()
    assert kept[~first]["severity_pct"].tolist() != drawn[~first]["severity_pct"].tolist()
    severity = order_means(kept, "borg-peak:true-peak").set_index("label")["severity_ratio"]
    assert severity["squares:true-wave"] < 0.5


def test_ratios_of_paired_means_by_hand() -> None:
    """Baseline 2, 4; other 1, 3: R = 2/3, residuals -1/3 and 1/3, sd .4714, t(1) = 12.706: half = 4.235 / 3."""
    runs = pd.DataFrame({"seed": [0, 1] * 2, "label": ["b", "b", "a", "a"], "elapsed_s": 0.0,
                         **{name: [2.0, 4.0, 1.0, 3.0] for name in MEASURES}})
    own = order_means(runs, "b").set_index("label").loc["a"]
    assert own["severity_ratio"] == pytest.approx(2 / 3)
    assert own["severity_ratio_high"] - own["severity_ratio"] == pytest.approx(12.7062 / 3 / 3, rel=1e-4)


def test_without_periodic_models_the_policy_is_borg_peak() -> None:
    case = pulse_case(80, 1)
    assert case.waves is not None and case.strength is not None
    found = shares_of_periodic(case, case.waves, case.strength, SMALL, (0, 1))
    assert len(found) == 2 * len(SHARES_PCT) * 2 * 2
    borg = run_orders(case, SMALL, (Entry("borg-peak", "true-peak"),), (0, 1), is_redrawn=False)
    none = found[(found["share_pct"] == 0) & (found["judged_by"] == "real use")]
    for policy in ("period-aware", "squares"):
        own = none[none["policy"] == policy]
        assert own["severity_pct"].tolist() == borg["severity_pct"].tolist()
        assert own["request_rate_pct"].tolist() == borg["request_rate_pct"].tolist()
    ends = found[found["policy"] == "squares"].groupby(["judged_by", "share_pct"])["severity_pct"].mean()
    for judge in ("real use", "waves"):
        assert ends[judge, 100] < 0.5 * ends[judge, 0]


def test_a_reader_without_usage_is_refused() -> None:
    with pytest.raises(ValueError, match=r"reader must be one of .*with a preset"):
        usage_grid("swf", Path("log.swf"))


@pytest.mark.slow
def test_the_preset_prints_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    config = load_settings(CompareConfig, None, preset="period-a", seeds="3", store=tmp_path)
    assert run_period_a(config) == 0
    out = capsys.readouterr().out
    assert out.count("Optimum") == 2
    assert "optimal" in out
    assert "squares:true-wave" in out
    assert np.count_nonzero([line.startswith("│ random") for line in out.splitlines()]) == 2
