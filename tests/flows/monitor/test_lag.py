"""A version that counts of the latest ends beat is retrained once; noise retrains nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sojourn.flows.monitor.followed import LAG_DAYS, Followed, JoinedTable, Lag, lag_of
from sojourn.flows.monitor.job import (
    ALARM,
    BEGUN,
    DONE,
    LAG,
    ActedAlarm,
    _due,
    read_record,
    to_catch_up,
    write_record,
)
from sojourn.flows.settings.other_jobs import MonitorConfig
from sojourn.models.curve_table import HazardTable
from sojourn.serving.decisions import LoggedModel

DAY_S = 86_400
N, N_OWNERS = 5_000, 40
EDGES = np.concatenate([[0.0], np.geomspace(2.0, 1e6, 60)])


def _followed(seed: int, change: float = 1.0, versions: tuple[str, ...] = ("1a2b",)) -> tuple[Followed, int]:
    """Decisions over 80 days, each with the true curve of its owner; from day 50 on the first owner, with half of the
    requests, stays `change` times as long, which the curves do not know. And the time of the check."""
    rng = np.random.default_rng(seed)
    owner = np.where(rng.random(N) < 0.5, 0, rng.integers(1, N_OWNERS, N))
    mean_s = np.exp(np.random.default_rng(99).uniform(np.log(600.0), np.log(40_000.0), N_OWNERS))[owner]
    arrival_s = np.sort(rng.integers(0, 80 * DAY_S, N))
    has_changed = (owner == 0) & (arrival_s >= 50 * DAY_S)
    end_s = arrival_s + np.maximum(rng.exponential(np.where(has_changed, change, 1.0) * mean_s), 1.0).astype(np.int64)
    as_of_s = 80 * DAY_S
    hazards = np.diff(EDGES)[None, :] / mean_s[:, None]
    table = HazardTable.from_hazards(EDGES, hazards, 1e6, EDGES)
    models = tuple(LoggedModel(version, "hazard", "hazard", (), 0, ("owner",), tuple(EDGES), (), tuple(EDGES), (), (),
                               1e6, 1.0, {}, None) for version in versions)
    place = (np.arange(N) * len(versions)) // N
    return Followed(
        arrival_s, arrival_s, arrival_s, np.minimum(end_s, as_of_s), end_s < as_of_s, owner, np.zeros(N, bool),
        arrival_s // (7 * DAY_S), models, JoinedTable((table,) * len(versions), place, np.arange(N)), (), None, (), {},
        ()), as_of_s  # fmt: skip


@pytest.mark.slow
def test_noise_does_not_lag() -> None:
    """Of 40 logs whose curves are right none lags: an alarm less often than once in 13, at 95 %."""
    found = [lag_of(*_followed(seed)) for seed in range(40)]
    assert all(lag is not None and lag.online > lag.served for lag in found)
    assert not any(lag is not None and lag.is_lagging for lag in found)


def test_a_habit_that_changed_lags() -> None:
    lag = lag_of(*_followed(0, change=5.0))
    assert lag is not None and lag.is_lagging and lag.version == "1a2b"
    assert lag.text().startswith("Retrain now: counts of the latest ends are better than version 1a2b by 0.")


def test_only_the_version_that_answered_last_is_judged_and_too_few_ends_say_nothing() -> None:
    lag = lag_of(*_followed(0, change=5.0, versions=("old", "new")))
    assert lag is not None and lag.version == "new"
    followed, as_of_s = _followed(0, change=5.0)
    assert lag_of(followed, as_of_s + LAG_DAYS * DAY_S) is None  # nothing was decided in these days


def test_a_version_has_one_action_and_an_interrupted_one_is_tried_once_more() -> None:
    assert to_catch_up([], "a", 14, 90) == ActedAlarm(90, "", BEGUN, 1, reason=LAG, version="a")
    begun = ActedAlarm(90, "retrain", BEGUN, 1, reason=LAG, version="a")
    again = to_catch_up([begun], "a", 14, 300)
    assert again is not None and (again.day, again.n_tries) == (90, 2)
    assert to_catch_up([ActedAlarm(90, "retrain", BEGUN, 2, reason=LAG, version="a")], "a", 14, 300) is None
    recent = ActedAlarm(85, "retrain", DONE, 1, reason=ALARM)
    assert to_catch_up([recent], "a", 14, 90) is None and to_catch_up([recent], "a", 14, 99) is not None


def test_the_record_keeps_the_version(tmp_path: Path) -> None:
    acted = [ActedAlarm(90, "retrain", DONE, 1, reason=LAG, version="a")]
    write_record(tmp_path, acted)
    assert read_record(tmp_path) == acted


@pytest.mark.parametrize(("deployment", "is_lagging", "reason"), [
    ("retrain/nightly", True, LAG), ("retrain/nightly", False, None), (None, True, None)])
def test_a_lag_is_acted_upon_where_a_retraining_is_configured(deployment: str | None, is_lagging: bool,
                                                              reason: str | None) -> None:
    config = MonitorConfig(model_name="m", log=Path("log"), retrain_deployment=deployment, max_age_days=0)
    due = _due(config, None, [], 100 * DAY_S, 90, Lag("a", 0.12, 0.09 if is_lagging else 0.119, 0.001, 900))
    assert (None if due is None else due.reason) == reason
