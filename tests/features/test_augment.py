"""Uptime augmentation: which rows an example becomes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.features.creation import LANDMARKS_S, UPTIME_SHARES, augment_landmarks, augment_uptime


def test_shares_are_those_of_the_paper() -> None:
    assert UPTIME_SHARES == (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)


def test_no_row_below_the_entry_age() -> None:
    # 800 s, entered at 350 s: of 0, 100, ..., 700 those from 400 s on are left
    idx, uptime_s = augment_uptime(np.array([800.0]), np.array([350.0]))
    assert uptime_s.tolist() == [400.0, 500.0, 600.0, 700.0]
    assert idx.tolist() == [0, 0, 0, 0]


def test_landmarks_are_the_same_for_all_still_alive_and_under_observation() -> None:
    # 60 s old is not alive at 60 s; entered at 60 s is asked from 60 s on; 30 days outlive all ten landmarks
    idx, uptime_s = augment_landmarks(np.array([60.0, 4_000.0, 2_592_000.0]), np.array([0.0, 60.0, 0.0]))
    assert idx.tolist() == [0, 1, 1, 1, *[2] * 10]
    assert uptime_s.tolist() == [0.0, 60.0, 600.0, 3_600.0, *LANDMARKS_S]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**7), st.integers(0, 10**6)), min_size=1, max_size=20))
def test_rows_are_whole_distinct_and_leave_time(rows: list[tuple[int, int]]) -> None:
    lifetime_s, entry_s = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    idx, uptime_s = augment_uptime(lifetime_s, entry_s)
    assert (uptime_s < lifetime_s[idx]).all()
    assert (uptime_s >= entry_s[idx]).all()
    assert (uptime_s == np.floor(uptime_s)).all()
    assert len(set(zip(idx.tolist(), uptime_s.tolist(), strict=True))) == len(idx)
    assert set(idx[uptime_s == 0.0].tolist()) == set(np.flatnonzero(entry_s == 0.0).tolist())
