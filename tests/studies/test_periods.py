"""The studies of placement by usage on small cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sojourn.features.usage import UsageGrid
from sojourn.flows.settings.store import load_settings
from sojourn.flows.workers.flow import check_before_work
from sojourn.serving.usage import DayClock
from studies.periods import (
    MEASURES,
    SHARES_PCT,
    Entry,
    Setting,
    days_sections,
    order_means,
    run_days,
    run_orders,
    run_period_a,
    run_period_b,
    sets_of_days,
    shares_of_periodic,
    single_days,
    usage_grids,
)
from studies.settings import StudySettings
from studies.usage_cases import pulse_case

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
    with pytest.raises(ValueError, match=r"reader must be one of .*, got .swf."):
        usage_grids("swf", Path("log.swf"))


def days_of(n: int, n_days: int) -> UsageGrid:
    use = np.random.default_rng(n).random((n, 288 * n_days), np.float32)
    return UsageGrid(np.arange(n), use, None, np.ones(n), np.ones(n), 0, 300, DayClock())


def test_days_apart_are_pooled_in_three_sets_of_the_same_day() -> None:
    cases = sets_of_days(single_days([days_of(n, 1) for n in (2, 3, 4, 5)], "made"), "made")
    assert [case.name for case in cases] == ["made, same day, days 0 to 1", "made, same day, days 2 to 2",
                                             "made, same day, days 3 to 3"]
    assert [len(case) for case in cases] == [5, 4, 5]
    assert all(case.history is None for case in cases)
    np.testing.assert_array_equal(cases[0].day[2:], days_of(3, 1).cpu)


def test_long_series_are_judged_on_next_days() -> None:
    first, second = sets_of_days(single_days([days_of(2, 16)], "made"), "made")
    assert (first.name, second.name) == ("made, next day, days 14 to 14", "made, next day, days 15 to 15")
    assert second.history is not None
    np.testing.assert_array_equal(second.history[:, -1], first.day)


def test_usage_without_a_day_is_refused() -> None:
    with pytest.raises(ValueError, match="usage of made must cover 80 % of a day"):
        single_days([UsageGrid(np.arange(1), np.full((1, 288), np.nan, np.float32), None, np.ones(1), np.ones(1), 0,
                               300, DayClock())], "made")


def test_each_day_is_placed_by_itself_and_belongs_to_its_month() -> None:
    entries = (Entry("best-fit", "peak"), Entry("violation-fit", "past-7"))
    grid = replace(days_of(40, 17), start_s=1_375_056_000)  # 2013-07-29 00:00 UTC
    days = single_days([grid], "made")
    assert [case.date for case in days] == ["2013-08-12", "2013-08-13", "2013-08-14"]
    found = run_days(days, entries, range(2))
    assert found["month"].tolist() == ["2013-08"] * 6
    second = found[found["day"] == "2013-08-13"].set_index("label")
    alone = run_orders(days[1], Setting(40, 4), entries, range(2), is_redrawn=False)
    for entry in entries:
        own = alone[alone["label"] == entry.label]["severity_pct"].mean()
        assert second.loc[entry.label, "severity_pct"] == own
    undated = run_days(single_days([days_of(40, 15)], "made"), entries, range(1))
    assert set(undated["day"]) == {"made, day 14"} and set(undated["month"]) == {"all"}


def test_days_won_by_hand() -> None:
    """Three days of July, one of August: b is below a on one and above it on one, and equal on one."""
    severity = {"a": (2.0, 2.0, 2.0, 3.0), "b": (1.0, 2.0, 6.0, 1.0)}
    days = pd.DataFrame([{"day": f"2013-{month}-{k}", "month": f"2013-{month}", "n_requests": 10, "label": label,
                          "severity_pct": values[k]}
                         for label, values in severity.items() for k, month in enumerate(("07", "07", "07", "08"))])
    daily, months = days_sections(days, "a", "c")
    assert daily.rows[2] == ("2013-07-2", "10", "2.00", "6.00")
    assert months.rows == (("2013-07", "a", "3", "-", "-", "2.00", "2.00"),
                           ("2013-07", "b", "3", "1", "1", "3.00", "2.00"),
                           ("2013-08", "a", "1", "-", "-", "3.00", "3.00"),
                           ("2013-08", "b", "1", "1", "0", "1.00", "1.00"))


def test_studies_of_usage_take_readers_of_usage(tmp_path: Path) -> None:
    config = StudySettings.model_validate({"preset": "period-b", "trace": tmp_path, "reader": "gcd-vms"})
    assert config.reader == "gcd-vms"
    (tmp_path / "gcd_vms_5min.parquet").write_bytes(b"usage")
    check_before_work(config)


def test_ratios_by_share_are_to_no_periodic_model() -> None:
    runs = pd.DataFrame({"seed": [0, 1] * 2, "judge": "real", "share": [0, 0, 10, 10],
                         "label": ["0 %", "0 %", "10 %", "10 %"], "elapsed_s": 0.0,
                         **{name: [2.0, 4.0, 1.0, 2.0] for name in MEASURES}})
    means = order_means(runs, "0 %", ("judge", "share", "label"), within=("judge",))
    assert means["severity_ratio"].tolist() == [1.0, 0.5]


@pytest.mark.slow
def test_the_study_prints_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    config = load_settings(StudySettings, None, preset="period-a", n_seeds=3, store=tmp_path)
    assert run_period_a(config) == 0
    out = capsys.readouterr().out
    assert out.count("Optimum") == 2
    assert "optimal" in out
    assert "squares:true-wave" in out
    assert np.count_nonzero([line.startswith("│ random") for line in out.splitlines()]) == 2


@pytest.mark.slow
def test_real_days_are_also_placed_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.periods.usage_grids",
                        lambda reader, path: [days_of(30, 17)])
    config = load_settings(StudySettings, None, preset="period-b", trace=tmp_path, reader="bitbrains", n_seeds=2,
                           store=tmp_path / "store")
    assert run_period_b(config) == 0
    out = capsys.readouterr().out
    assert "Severity of single days, %" in out and "Days won" in out
    assert "3 days, each by itself" in " ".join(out.split())
