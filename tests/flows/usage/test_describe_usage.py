"""What is said of series whose waves are known: periods, errors beside their baselines, classes and reasons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sojourn.features.read_report import ReadLedger
from sojourn.features.usage import UsageStore, UsageStream
from sojourn.features.usage.usage_stream import RawSamples, RequestTable
from sojourn.flows.usage.describe_usage import UsageDescription, describe_usage
from sojourn.flows.usage.report import classes_figure, errors_figure, examples_figure, summary_lines, usage_tables
from sojourn.serving.usage import DAY_S, DayClock

N_DAYS = 15
TIME_S = np.arange(0, N_DAYS * DAY_S, 900)


def pulse(period_s: int, phase_s: int, duty: float, spread: float = 0.02) -> np.ndarray:
    noise = np.random.default_rng(period_s + phase_s).normal(0, spread, len(TIME_S))
    return np.where((TIME_S - phase_s) % period_s < duty * period_s, 0.6, 0.2) + noise


SERIES = {
    "day-a": pulse(DAY_S, 9 * 3600, 0.4), "day-b": pulse(DAY_S, 9 * 3600, 0.4, 0.03),
    "night": pulse(DAY_S, 22 * 3600, 0.3), "six": pulse(6 * 3600, 0, 0.5), "flat": np.full(len(TIME_S), 0.25),
    "noise": np.random.default_rng(9).uniform(0.1, 0.9, len(TIME_S)), "short": pulse(DAY_S, 9 * 3600, 0.4)[:6],
}


def stream(series: dict[str, np.ndarray] = SERIES) -> UsageStream:
    """The series of 15 days every 15 minutes, and a request `idle` without one."""
    table = RequestTable()
    table.add([*series, "idle"], [4.0] * (len(series) + 1), [8.0] * (len(series) + 1))

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        for name, values in series.items():
            ids = np.full(len(values), name, object)
            yield RawSamples("made", 1, ids, np.repeat(table.rows([name]), len(values)),
                             TIME_S[:len(values)].astype(float), values)

    return UsageStream("made", DayClock(), read, table)


@pytest.fixture(scope="module")
def found() -> UsageDescription:
    return describe_usage(stream(), step_s=900, n_classes=3)


def test_periodic_series_have_their_period_and_the_others_their_reason(found: UsageDescription) -> None:
    rows = found.table.set_index("request_id")
    assert set(rows.index[rows["is_periodic"]]) == {"day-a", "day-b", "night", "six"}
    for name, hours in (("day-a", 24), ("night", 24), ("six", 6)):
        assert rows.loc[name, "period_s"] == pytest.approx(hours * 3600, rel=0.02)
    assert "constant" in rows["reason"]["flat"] and "shorter than two" in rows["reason"]["short"]
    assert rows.loc["day-a", "n_samples"] == N_DAYS * 96 and rows.loc["flat", "p95"] == 0.25
    assert found.report.without_series == ("idle",)


def test_errors_stand_beside_those_of_a_mean_and_of_the_week_before(found: UsageDescription) -> None:
    rows = found.table.set_index("request_id")
    day = rows.loc["day-a"]
    for label in ("in_sample", "next_day"):
        assert day[f"{label}_at_means"] <= day[f"{label}_wave"] < day[f"{label}_constant"]
        assert day[f"{label}_last_week"] < day[f"{label}_constant"] and day[f"{label}_is_periodic"]
    assert np.isnan(rows["in_sample_constant"].to_dict()["flat"])


def test_next_day_waves_do_not_see_the_day_that_judges_them(found: UsageDescription) -> None:
    """The last day is another one: the constant's error follows it, and whether there was a period stays."""
    changed = {name: values.copy() for name, values in SERIES.items()}
    for values in changed.values():
        values[14 * 96:] = 0.9
    before, after = (each.table.sort_values("request_id") for each in (
        found, describe_usage(stream(changed), step_s=900, n_classes=3)))
    assert before["next_day_is_periodic"].tolist() == after["next_day_is_periodic"].tolist()
    kept = before["next_day_is_periodic"].to_numpy(bool)
    errors = [each["next_day_constant"].to_numpy()[kept] for each in (before, after)]
    assert kept.sum() == 4 and (errors[1] > errors[0]).all()


def test_series_with_the_same_day_share_a_class_and_short_ones_have_none(found: UsageDescription) -> None:
    class_of = found.table.set_index("request_id")["class_id"]
    assert class_of["day-a"] == class_of["day-b"] != class_of["night"]
    assert class_of["short"] == -1 and class_of.drop("short").min() >= 0
    assert found.centres.shape == (3, 96)


def test_the_examples_are_the_strongest_of_the_commonest_periods(found: UsageDescription) -> None:
    strength = dict(zip(found.table["request_id"], found.table["strength"], strict=True))
    strongest = [max(("day-a", "day-b", "night"), key=strength.__getitem__), "six"]
    assert found.examples.request_ids.tolist() == sorted(strongest, key=strength.__getitem__, reverse=True)


def test_the_store_stays_where_it_is_asked_for_and_progress_reaches_its_end(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    describe_usage(stream(), step_s=900, n_classes=2, folder=tmp_path / "usage",
                   progress=lambda done, total: seen.append((done, total)))
    assert len(UsageStore.open(tmp_path / "usage").requests) == len(SERIES) + 1
    assert seen[-1] == (100, 100) and seen == sorted(seen)


def test_the_same_series_give_the_same_description(found: UsageDescription) -> None:
    again = describe_usage(stream(), step_s=900, n_classes=3)
    assert again.table.equals(found.table) and np.array_equal(again.centres, found.centres)


def test_words_and_tables(found: UsageDescription) -> None:
    lines = "\n".join(summary_lines(found))
    assert "7; 1 requests without one, 0 series without a request" in lines
    assert "4 series (57.1 %) with 57.1 % of the cores" in lines
    assert "periods    about a day 3, 2 to 7 h 1" in lines
    assert "% of series of white noise and " in lines and "% of random walks on these steps would be called" in lines
    assert [str(table.title).split()[0] for table in usage_tables(found)] == ["Periodic", "Errors", "Why", "Classes"]
    assert list(usage_tables(found)[1].columns[0].cells) == ["in-sample", "next day"]


def test_noise_is_not_periodic_and_says_why(found: UsageDescription) -> None:
    names = found.table["request_id"]
    reason, strength, by_chance = (dict(zip(names, found.table[column], strict=True))
                                   for column in ("reason", "strength", "by_chance"))
    assert max(found.noise_shares) <= 0.03
    assert reason["noise"] == "aperiodic because no frequency is stronger than chance"
    assert strength["noise"] < by_chance["noise"] < strength["day-a"]


def test_pictures_name_their_axes(found: UsageDescription) -> None:
    errors = errors_figure(found)
    assert errors is not None
    left, right = errors.axes
    assert [axes.get_title(loc="left") for axes in (left, right)] == ["in-sample", "next day: the last 24 hours"]
    assert "lower = better" in right.get_xlabel() and len(right.lines) == 5
    assert [axes.get_title(loc="left").split(":")[0] for axes in examples_figure(found).axes] == \
        found.examples.request_ids.tolist()
    assert "local hour of day (UTC)" in str(classes_figure(found).get_supxlabel())


def test_a_trace_without_a_period_or_a_whole_day_is_described_all_the_same() -> None:
    found = describe_usage(stream({"short": SERIES["short"], "brief": SERIES["flat"][:3]}), step_s=900)
    assert not found.table["is_periodic"].any() and len(found.centres) == 0
    assert [str(table.title).split()[0] for table in usage_tables(found)] == ["Why"]
    assert "periodic   0 series (0.0 %)" in "\n".join(summary_lines(found))
    assert errors_figure(found) is None and len(examples_figure(found).axes) == 1


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="n_classes must be at least 1, got 0"):
        describe_usage(stream(), n_classes=0)
    with pytest.raises(ValueError, match="step_s must be at least 1, got 0"):
        describe_usage(stream(), step_s=0)
