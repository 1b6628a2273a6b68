"""One-shot predictions: the first total, doubled where outlived, and all that was said of the distribution."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

import sojourn.simulator as sim


def _one_shot(curves: sim.Curves) -> sim.Curves:
    ids = np.arange(len(curves))
    return sim.OneShot(sim.Held(ids, curves)).curves(pd.DataFrame({"request_id": ids}))


def test_doubles_of_the_first_total_stand_among_the_distributions_breakpoints() -> None:
    curves = sim.Curves(np.array([0, 3, 4]), np.array([0, 100, 900, 0]), np.array([150, 900, 2000, 70]),
                        overhang_s=np.array([80, 60, 20, 70]))
    found = _one_shot(curves)
    # 150 is outlived at 150, 300 and 600, before the last breakpoint; 1200 after it
    assert found.offsets.tolist() == [0, 6, 7]
    assert found.uptime_s.tolist() == [0, 100, 150, 300, 600, 900, 0]
    assert found.total_s.tolist() == [150, 150, 300, 600, 1200, 1200, 70]
    # between 60 at 100 and 20 at 900: 60 - 40 * 50 / 800 = 57.5, 60 - 10 = 50, 60 - 25 = 35
    assert found.overhang_s is not None
    assert found.overhang_s.tolist() == [80, 60, 58, 50, 35, 20, 70]


def test_without_the_distribution_the_first_total_alone_is_left_and_doubles_alike() -> None:
    curves = sim.Curves(np.array([0, 3, 4]), np.array([0, 100, 900, 0]), np.array([150, 900, 2000, 70]),
                        overhang_s=np.array([80, 60, 20, 70]))
    ids = pd.DataFrame({"request_id": [1, 0]})
    held = sim.Held(np.arange(2), curves)
    short = sim.OneShot(held, is_distribution_kept=False).curves(ids)
    assert (short.uptime_s.tolist(), short.total_s.tolist(), short.overhang_s) == ([0, 0], [150, 70], None)
    whole = sim.OneShot(held).curves(ids)
    for row, uptime_s in ((0, 0), (0, 69), (0, 70), (0, 5_000), (1, 149), (1, 150), (1, 1_300)):
        assert short.total_at(row, uptime_s) == whole.total_at(row, uptime_s)


@given(st.lists(st.tuples(st.integers(0, 5_000), st.lists(st.integers(1, 4_000), max_size=6, unique=True)),
                min_size=1, max_size=4))
def test_the_total_is_that_of_the_first_breakpoint_alone(rows: list[tuple[int, list[int]]]) -> None:
    uptimes = [np.array([0, *sorted(later)]) for _, later in rows]
    offsets = np.append(0, np.cumsum([len(each) for each in uptimes]))
    totals = [np.maximum(np.append(each[1:], 9_000), first) for (first, _), each in zip(rows, uptimes, strict=True)]
    overhang = np.concatenate([5_000 - each for each in uptimes])
    whole = sim.Curves(offsets, np.concatenate(uptimes), np.concatenate(totals), overhang_s=overhang)
    found = _one_shot(whole)
    first = sim.one_step(whole.total_s[offsets[:-1]])
    for row, each in enumerate(uptimes):
        asked = {uptime + by for uptime in [*each.tolist(), *(int(first.total_s[row]) << j for j in range(14))]
                 for by in (-1, 0, 1)}
        for uptime_s in asked - {-1}:
            assert found.total_at(row, uptime_s) == first.total_at(row, uptime_s)
        own = found.uptime_s[found.offsets[row]:found.offsets[row + 1]]
        assert set(each.tolist()) <= set(own.tolist())
    # a straight line stays the same straight line
    np.testing.assert_array_equal(found.overhang_s, 5_000 - found.uptime_s)
