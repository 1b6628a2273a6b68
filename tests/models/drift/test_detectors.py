"""Every detector by one contract, and each by its own arithmetic."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sojourn.models.drift import (
    BANDS_S,
    DETECTORS,
    MONITOR_DETECTOR,
    AnyOf,
    ClassShares,
    ClassShareSettings,
    Cusum,
    DriftDay,
    HazardRatio,
    PageHinkley,
    Timer,
)


def made_days(seed: int, n: int = 120, change_day: int = 60, ratio: float = 2.0) -> list[DriftDay]:
    """Poisson exits of 100 expected a day, `ratio` times as many from a day on; class shares that change with it."""
    rng = np.random.default_rng(seed)
    days = []
    for number in range(n):
        mean = 100.0 * (ratio if number >= change_day else 1.0)
        shares = rng.dirichlet(np.array([4.0, 8.0, 2.0]) if number < change_day else np.array([2.0, 4.0, 8.0])) + 0.01
        parts = [float(rng.poisson(mean / len(BANDS_S))) for _ in BANDS_S]
        bands = tuple(DriftDay(part, 100.0 / len(BANDS_S), 100.0 / len(BANDS_S)) for part in parts)
        of_owners = DriftDay(sum(parts), 100.0, 100.0)
        days.append(DriftDay(sum(parts), 100.0, 100.0, tuple((shares / shares.sum()).tolist()), bands, of_owners,
                             of_owners))
    return days


@pytest.mark.parametrize("name", DETECTORS)
def test_a_state_goes_through_json_and_goes_on_the_same(name: str) -> None:
    days = made_days(1)
    whole, first = DETECTORS[name](), DETECTORS[name]()
    alarms = [whole.update(day) for day in days]
    scores = [whole.score]
    for number, day in enumerate(days):  # saved and read after every day
        again = DETECTORS[name]()
        again.resume(json.loads(json.dumps(first.state(), allow_nan=False)))
        assert again.update(day) == alarms[number]
        first = again
    assert first.score == scores[-1] and first.state() == whole.state()


@pytest.mark.parametrize("name", DETECTORS)
def test_later_days_change_no_earlier_answer(name: str) -> None:
    days, others = made_days(2), made_days(2, change_day=90)
    one, two = DETECTORS[name](), DETECTORS[name]()
    found = [[(detector.update(day), detector.score) for day in own] for detector, own in ((one, days), (two, others))]
    n_equal = next(number for number, (a, b) in enumerate(zip(days, others, strict=True)) if a != b)
    assert n_equal >= 60
    assert found[0][:n_equal] == found[1][:n_equal]


@pytest.mark.parametrize("name", DETECTORS)
def test_another_detectors_state_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="state must have"):
        DETECTORS[name]().resume({"other": 1})


@pytest.mark.parametrize("name", [name for name in DETECTORS if not name.startswith(("timer", "dvla"))])
@pytest.mark.parametrize("ratio", [2.0, 0.4])
def test_exits_twice_or_half_as_many_are_found_and_calm_days_are_not(name: str, ratio: float) -> None:
    if name == "new-owners" and ratio < 1.0:
        pytest.skip("fewer requests of new owners are no drift")
    detector = DETECTORS[name]()
    alarms = [number for number, day in enumerate(made_days(3, ratio=ratio)) if detector.update(day)]
    assert alarms and 60 <= alarms[0] <= 67


@pytest.mark.parametrize("name", [name for name in DETECTORS if not name.startswith(("timer", "dvla"))])
def test_days_on_which_nothing_is_expected_or_seen_change_nothing(name: str) -> None:
    detector = DETECTORS[name]()
    empty = DriftDay(0.0, 0.0, 0.0, bands=(DriftDay(0.0, 0.0, 0.0),) * len(BANDS_S), own=DriftDay(0.0, 0.0, 0.0),
                     new_owners=DriftDay(0.0, 0.0, 0.0))
    assert not any(detector.update(empty) for _ in range(400))
    assert detector.score == 0.0


def test_the_monitors_detector_is_registered() -> None:
    assert MONITOR_DETECTOR in DETECTORS


def test_cusum_by_hand() -> None:
    # variance 400, so errors of 20; tolerance 10 of 100: (140 - 100 - 10) / 20 = 1.5 a day, less the allowance 0.5
    detector = Cusum(threshold=2.5, allowance=0.5, tolerance=0.1)
    scores = []
    for observed in (140.0, 140.0, 140.0):
        alarm = detector.update(DriftDay(observed, 100.0, 400.0))
        scores.append((alarm, round(detector.score, 9)))
    assert scores == [(False, 0.4), (False, 0.8), (True, 1.2)]
    assert detector.state()["sums"] == [0.0, 0.0]


def test_cusum_counts_a_day_up_to_its_limit() -> None:
    detector = Cusum(threshold=8.0, limit=3.0)
    assert not detector.update(DriftDay(10_000.0, 100.0, 100.0))
    assert detector.score == pytest.approx(2.5 / 8.0)


def test_cusum_with_a_baseline_takes_a_steady_bias_for_normal_and_finds_a_change_of_it() -> None:
    plain, based = Cusum(), Cusum(half_life_days=14.0, tolerance=0.1)
    days = [DriftDay(140.0 + 5.0 * (-1) ** number, 100.0, 100.0) for number in range(60)]
    assert any(plain.update(day) for day in days)
    assert not any(based.update(day) for day in days)
    assert any(based.update(DriftDay(190.0, 100.0, 100.0)) for _ in range(7))


def test_page_hinkley_by_hand() -> None:
    # residuals 0, 0, 3: mean 1 on the third day; (3 - 1) - 0.5 = 1.5 above 1.4
    detector = PageHinkley(threshold=1.4, allowance=0.5, warmup_days=0)
    days = [DriftDay(observed, 100.0, 100.0) for observed in (100.0, 100.0, 130.0)]
    assert [detector.update(day) for day in days] == [False, False, True]
    assert detector.score == pytest.approx(1.5 / 1.4)


def test_hazard_ratio_by_hand() -> None:
    # tolerance 0; one day of 3 exits, 2 expected, dispersion 1: the sums are (r^3 exp(-2 (r - 1)))
    detector = HazardRatio(mean_days=100.0, tolerance=0.0)
    detector.update(DriftDay(3.0, 2.0, 2.0))
    ratios = (1.25, 1.5, 2.0, 0.8, 1 / 1.5, 0.5)
    mean = sum(ratio**3 * math.exp(-2.0 * (ratio - 1.0)) for ratio in ratios) / 6
    assert detector.score == pytest.approx(max(math.log(mean) / math.log(100.0), 0.0))
    assert detector.state()["log_sums"][2] == pytest.approx(3 * math.log(2.0) - 2.0)


def test_hazard_ratios_bound_on_false_alarms_holds_for_independent_requests() -> None:
    """Poisson exits at the tolerated hazard: on average more than mean_days = 50 days to an alarm."""
    rng = np.random.default_rng(4)
    delays = []
    for _ in range(60):
        detector, n_days = HazardRatio(mean_days=50.0, tolerance=0.1), 1
        while n_days < 400 and not detector.update(DriftDay(float(rng.poisson(44.0)), 40.0, 40.0)):
            n_days += 1
        delays.append(n_days)
    assert np.mean(delays) > 50.0


def test_any_of_names_the_part_and_needs_its_band() -> None:
    detector = AnyOf({"all": (Cusum, None), "late": (Cusum, 1)})
    calm, few = DriftDay(100.0, 100.0, 100.0), DriftDay(2.0, 60.0, 60.0)
    alarms = [detector.update(DriftDay(1_000.0, 1_000.0, 1_000.0, bands=(calm, few))) for _ in range(4)]
    assert alarms == [False, False, False, True] and detector.raised_by == "late"
    with pytest.raises(ValueError, match="a day must have own, got None"):
        DETECTORS["own"]().update(calm)
    with pytest.raises(ValueError, match="a day must have at least 2 bands, got 0"):
        detector.update(calm)
    with pytest.raises(ValueError, match="state must have all, late, got all"):
        detector.resume(AnyOf({"all": (Cusum, None)}).state())
    with pytest.raises(ValueError, match="parts must hold at least one detector"):
        AnyOf({})


def test_figure_9_is_reproduced_where_every_day_alarms() -> None:
    """Updates on days 25 and 53 of 60; 14, 26 and 20 days stable, observing, cooling down."""
    detector = ClassShares(ClassShareSettings(window_days=14))
    rng = np.random.default_rng(0)
    phases, updates = [], []
    for day in range(60):
        phases.append(detector.phase)
        shares = np.eye(3)[(day >= 12) + (day >= 40)] + 0.001 * rng.random(3)
        if detector.update(DriftDay(0.0, 0.0, 0.0, tuple(shares.tolist()))):
            updates.append(day)
    assert updates == [25, 53]
    counted = [sum(phase in names for phase in phases) for names in (("warmup", "stable"), ("observation",),
                                                                   ("cooldown",))]
    assert counted == [14, 26, 20]


def test_the_printed_reading_learns_the_alarms_day_twice() -> None:
    days = [(0.5, 0.5)] * 12 + [(0.1, 0.9)] * 2
    means = []
    for is_as_printed in (False, True):
        detector = ClassShares(ClassShareSettings(window_days=2, is_as_printed=is_as_printed))
        for shares in days:
            detector.update(DriftDay(0.0, 0.0, 0.0, shares))
        means.append(detector.state()["means"][0])
    # each day moves the mean by a tenth of its distance: 0.1 + 0.4 * 0.9^2, and a third time where it is learnt twice
    assert means == pytest.approx([0.1 + 0.4 * 0.9**2, 0.1 + 0.4 * 0.9**3])


def test_class_shares_need_shares() -> None:
    with pytest.raises(ValueError, match=r"a day must .*, got 0"):
        ClassShares().update(DriftDay(1.0, 1.0, 1.0))


@pytest.mark.parametrize(("made", "message"), [
    (lambda: Timer(0), "every_days must be at least 1, got 0"),
    (lambda: Cusum(threshold=0.0), "threshold must be above 0, got 0.0"),
    (lambda: Cusum(limit=math.nan), "limit must be above 0, got nan"),
    (lambda: PageHinkley(threshold=-1.0), "threshold must be above 0, got -1.0"),
    (lambda: HazardRatio(mean_days=1.0), "mean_days must be above 1, got 1.0"),
    (lambda: HazardRatio(tolerance=0.2), "tolerance must be at least 0 and below 0.2, got 0.2"),
])
def test_impossible_settings_are_refused(made: type, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made()
