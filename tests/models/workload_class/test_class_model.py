"""Classes and their surplus: learnt of the past alone, equal to a slow twin, with a rule for what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from made_days import made_grid
from sojourn.models.workload_class import METHODS, SlotMaxima, class_surplus, fit_classes, judge_newcomers, slot_maxima
from sojourn.serving.usage import N_ENDS, N_HOURS, SEEN_S


def test_the_three_kinds_are_classes_and_the_future_changes_nothing() -> None:
    seen = slot_maxima(made_grid())
    model = fit_classes(seen.before(2 * 96), n_classes=3)
    assert model is not None
    assert sorted(np.bincount(model.clustered.labels).tolist()) == [8, 8, 8]
    later = seen.highest.copy()
    later[:, 2 * 96:] = 9.0
    other = fit_classes(SlotMaxima(seen.request_ids, later, seen.mean, 0).before(2 * 96), n_classes=3)
    assert other is not None
    assert other.classes.surplus.tobytes() == model.classes.surplus.tobytes()
    assert other.classes.centres.tobytes() == model.classes.centres.tobytes()


def test_without_a_whole_day_there_are_no_classes() -> None:
    assert fit_classes(slot_maxima(made_grid()).before(40)) is None


def test_a_newcomer_seen_at_night_gets_what_day_workers_need_by_day() -> None:
    model = fit_classes(slot_maxima(made_grid()).before(3 * 96), n_classes=3)
    assert model is not None
    night = np.full((1, 96), np.nan)
    night[0, :24] = 0.12  # midnight to 6:00
    at = model.classes.nearest(night)
    need = model.classes.needs(at, np.array([0.12]), np.array([6 * 3600]), 24, np.array([26, 60]))
    assert need[0, 0] < 0.2  # 6:30
    assert 0.65 < need[0, 1] < 0.85  # 15:00


def test_surplus_is_that_of_a_slow_twin() -> None:
    seen = slot_maxima(made_grid(n_days=3))
    centres = np.repeat([[0.2], [0.5]], 96, axis=1)
    table = class_surplus(seen, centres, 0.9)[0].reshape(2, len(SEEN_S), N_ENDS, N_HOURS)
    n_slots, end, hour = SEEN_S[1] // 900, 4, 15  # windows 6:00 to 12:00, and what was used about 15:00
    above: list[list[float]] = [[], []]
    for row in seen.highest.astype(float):
        for day in range(seen.n_days):
            last = day * 96 + end * 12
            window = row[last - n_slots:last]
            distance = [sum((window[i] - centre[0]) ** 2 for i in range(n_slots)) for centre in centres]
            for slot in range(hour * 4 - 2, hour * 4 + 6):
                above[int(np.argmin(distance))].append(row[day * 96 + slot] - window.max())
    free = class_surplus(seen, centres, 0.9)[1].reshape(len(SEEN_S), N_ENDS, N_HOURS)
    assert free[1, end, hour] == pytest.approx(max(np.quantile(above[0] + above[1], 0.9), 0.0), abs=1e-6)
    for c in range(2):
        assert table[c, 1, end, hour] == pytest.approx(max(np.quantile(above[c], 0.9), 0.0), abs=1e-6)


def test_hours_that_no_window_reaches_get_the_highest_or_the_whole_reservation() -> None:
    seen = slot_maxima(made_grid(n_days=1))
    table = class_surplus(seen, np.full((1, 96), 0.2), 0.9)[1].reshape(len(SEEN_S), N_ENDS, N_HOURS)
    assert (table[0, 6, 1:17] == table[0].max()).all()  # after 18:00 the day has only 6 hours left
    nothing = SlotMaxima(np.arange(1), np.full((1, 96), np.nan, np.float32), np.full((1, 96), np.nan, np.float32), 0)
    assert all((table == 1.0).all() for table in class_surplus(nothing, np.full((1, 96), 0.2)))
    with pytest.raises(ValueError, match=r"quantile must .*, got 1"):
        class_surplus(seen, np.full((1, 96), 0.2), 1)


def test_newcomers_are_judged_by_hand() -> None:
    grid = made_grid(n=24)
    seen = slot_maxima(grid)
    model = fit_classes(seen.before(2 * 96), n_classes=3)
    assert model is not None
    flat = SlotMaxima(np.array([99]), np.full((1, 4 * 96), 0.2, np.float32), np.full((1, 4 * 96), 0.2, np.float32), 0)
    flat.highest[0, 3 * 96:3 * 96 + 48] = 0.6  # after 24 h of 0.2: half of the next day at 0.6
    judged = judge_newcomers([(model, flat, 2 * 96)], 24)
    assert judged.work[0] == pytest.approx(48 * 0.6 + 48 * 0.2)
    assert judged.under["own"][0] == pytest.approx(48 * 0.4)
    assert judged.over["reservation"][0] == pytest.approx(96 - judged.work[0])
    assert judged.under["combined"][0] == judged.under["own"][0]  # after 24 h the own maximum alone
    assert judged.under_served("own", np.array([3])) == pytest.approx(judged.under_served("own"))
    assert judged.over_reserved("reservation") == pytest.approx(1 - 38.4 / 96)


def test_combined_is_never_below_the_own_maximum_and_margin_reserves_as_much() -> None:
    seen = slot_maxima(made_grid(n=40, seed=5))
    model = fit_classes(seen.before(2 * 96, np.arange(20)), n_classes=3)
    assert model is not None
    rest = SlotMaxima(seen.request_ids[20:], seen.highest[20:], seen.mean[20:], 0)
    judged = judge_newcomers([(model, rest, 2 * 96 + start) for start in (0, 48)], 6)
    assert set(judged.under) == set(METHODS)
    assert (judged.under["combined"] <= judged.under["own"]).all()
    assert judged.under_served("combined") < 0.5 * judged.under_served("own")
    assert (judged.under["hours"] <= judged.under["own"]).all()
    for rival in ("hours", "margin"):
        assert judged.over_reserved(rival) == pytest.approx(judged.over_reserved("combined"), rel=1e-3)
    with pytest.raises(ValueError, match="hours must be at least 3, got 2"):
        judge_newcomers([], 2)
