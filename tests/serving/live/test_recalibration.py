"""Ends and expected ends by cell, counted by hand; each second at risk once; factors from them."""

import numpy as np
import pytest

from sojourn.serving.curves import N_AGES, N_BANDS
from sojourn.serving.live import Recalibration, recalibration

# hazard 0.2 up to 600 s, 0.15 from there to 3,600 s
NUMBERS = np.array([[0.0, 600.0, 3_600.0], [0.2 / 600.0, 0.15 / 3_000.0, 1e-4]])


def _following(*, n_ends: int = 1, monkeypatch: pytest.MonkeyPatch) -> Recalibration:
    monkeypatch.setattr(recalibration, "N_ENDS_COUNTED", n_ends)
    monkeypatch.setattr(recalibration, "WINDOW", float("inf"))
    return Recalibration()


def test_counts_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    own = _following(monkeypatch=monkeypatch)
    own.follow(1, 1_000)
    own.follow(2, 1_000, 300.0)  # seen from 300 s of uptime on
    own.follow(3, 1_000)
    own.ended(1, 3_100, NUMBERS)
    own.forget(3)
    assert own.is_due
    own.count(1_600, lambda number: NUMBERS)
    # request 1, 0 to 2,100 s: 0.2 up to 600 s, half of it in each of the first two bands; then the bucket of 10 min
    # begins, with 1,500 / 3,000 of 0.15 = 0.075. Request 2, 300 to 600 s: 0.1 to 0.2, the second band. Request 3: none.
    expected = np.zeros((N_AGES, N_BANDS))
    expected[0, :2], expected[1, 0] = (0.1, 0.1 + 0.1), 0.075
    ends = np.zeros((N_AGES, N_BANDS))
    ends[1, 0] = 1.0
    assert own.expected == pytest.approx(expected)
    assert own.ends.tolist() == ends.tolist()
    assert len(own) == 1


def test_an_end_beyond_the_last_edge_is_in_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    own = _following(monkeypatch=monkeypatch)
    own.follow(1, 0)
    own.ended(1, 9_000, NUMBERS)
    own.count(9_000, lambda number: NUMBERS)
    assert own.ends.sum() == 0.0
    assert own.expected.sum() == pytest.approx(0.35)


def test_what_was_censored_counts_until_then_and_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    own = _following(monkeypatch=monkeypatch)
    own.follow(1, 0)
    own.ended(1, 300, NUMBERS, is_end=False)
    assert not own.is_due
    own.count(400, lambda number: NUMBERS)
    assert (own.ends.sum(), own.expected.sum()) == (0.0, pytest.approx(0.1))


def test_each_second_at_risk_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    own = _following(n_ends=4, monkeypatch=monkeypatch)
    monkeypatch.setattr(recalibration, "N_RUNNING_COUNTED", 3)
    rng = np.random.default_rng(5)
    starts, lifetimes_s = np.sort(rng.integers(0, 5_000, 60)), rng.integers(1, 3_500, 60)
    events = sorted([(int(start), 0, row) for row, start in enumerate(starts)]
                    + [(int(start + lived), 1, row) for row, (start, lived) in enumerate(zip(starts, lifetimes_s,
                                                                                           strict=True))])
    n_counts = 0
    for now_s, is_end, row in events:
        if not is_end:
            own.follow(row, now_s)
            continue
        own.ended(row, now_s, NUMBERS)
        if own.is_due:
            own.count(now_s, lambda number: NUMBERS)
            n_counts += 1
    whole = [recalibration._Exposure(NUMBERS, 0.0, float(lived), True) for lived in lifetimes_s]
    ends, expected = recalibration.counted(whole)
    assert n_counts == 15
    assert own.ends.tolist() == ends.tolist()
    assert own.expected == pytest.approx(expected)


def test_what_cannot_be_read_counts_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    own = _following(monkeypatch=monkeypatch)
    own.follow(1, 0)
    own.follow(2, 0)
    own.ended(1, 300, NUMBERS)
    own.count(300, lambda number: None)
    assert len(own) == 0
    own.ended(2, 600, NUMBERS)  # not followed any longer
    assert not own.is_due


def test_withdrawn_requests_are_not_kept() -> None:
    own = Recalibration()
    own.follow(0, 0)
    for number in range(1, 5_000):
        own.follow(number, 0)
        own.forget(number)
    assert len(own) == 1
    assert len(own._turns) <= 2 * 1 + recalibration.N_PASSED_MAX
    assert own.to_arrays()["turns"].tolist() == [[0, 0]]


def test_a_clock_that_was_set_back_counts_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    own = _following(monkeypatch=monkeypatch)
    own.follow(1, 0)
    own.follow(2, 0)
    own.follow(3, 0)
    own.ended(2, 1, NUMBERS, is_end=False)
    own.count(600, lambda number: NUMBERS)
    before = own.expected.sum()
    own.ended(3, 200, NUMBERS)  # ended "before" it was counted up to 600
    own.count(200, lambda number: NUMBERS)
    assert own.expected.sum() == before


def test_factors_by_hand() -> None:
    ends, expected = np.zeros((N_AGES, N_BANDS)), np.zeros((N_AGES, N_BANDS))
    ends[0, 0], expected[0, 0] = 40.0, 20.0
    factors = recalibration.factors_of(ends, expected)
    # PRIOR 20. whole: (40 + 20) / (20 + 20) = 1.5. First age and first band: (40 + 20 x 1.5) / (20 + 20) = 1.75, the
    # others 1.5.
    # (0, 0): (40 + 20 x 1.75 x 1.75 / 1.5) / (20 + 20) = 2.02083; (0, 1): 1.75 x 1.5 / 1.5; (1, 1): 1.5
    assert factors[0, 0] == pytest.approx(2.0208333)
    assert (factors[0, 1], factors[1, 0], factors[1, 1]) == (pytest.approx(1.75), pytest.approx(1.75),
                                                             pytest.approx(1.5))
    with pytest.raises(ValueError, match="read-only"):
        factors[0, 0] = 1.0


def test_factors_are_bounded() -> None:
    many = np.full((N_AGES, N_BANDS), 1e9)
    none = np.zeros((N_AGES, N_BANDS))
    assert recalibration.factors_of(many, none).max() == 8.0
    assert recalibration.factors_of(none, many).min() == 0.125


def test_counts_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    own = _following(monkeypatch=monkeypatch)
    monkeypatch.setattr(recalibration, "WINDOW", 2.0)
    for number, now_s in ((1, 100), (2, 200)):
        own.follow(number, now_s - 60)
        own.ended(number, now_s, NUMBERS)
        own.count(now_s, lambda number: NUMBERS)
    # an end each; the first weighs exp(-1 / 2) after the second
    assert own.ends.sum() == pytest.approx(1.0 + np.exp(-0.5))
