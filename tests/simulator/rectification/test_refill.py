"""How soon hosts were in use again, by hand and against slow twins; times in hours unless it is said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_rectification
from sojourn.simulator.engine.metrics import Stays
from sojourn.simulator.loop import DRAINED, FAIL, FAILED, HOST_EVENTS, MIGRATION_LOG, OPEN, REPAIR, REQUESTS
from sojourn.simulator.rectification import (
    Refill,
    RefillRecord,
    Spells,
    count_left,
    count_still,
    edges_s,
    empty_spells,
)
from sojourn.simulator.rectification.pool_view import HORIZON_S, MIGRATION_S, N_CELLS, knots_s, weights_s

HOUR = 3_600
DAY = 24 * HOUR


def _stays(rows: list[tuple[int, float, float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of (host, from, to)."""
    table = np.array(sorted((host, round(a * HOUR), round(b * HOUR)) for host, a, b in rows), np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def test_a_host_that_others_have_come_to_was_not_left_empty() -> None:
    # At 1 h: on host 0 one to 3 h, and nobody comes before that; on host 1 one to 3 h, and another from 2 h to 9 h; on
    # host 2 one to 3 h, and another that comes and goes before; on host 3 one to 40 h; host 4 is empty.
    host, from_s, to_s = _stays([(0, 0, 3), (0, 4, 9), (1, 0, 3), (1, 2, 9), (2, 0, 3), (2, 2, 2.5), (3, 0, 40),
                                 (4, 2, 9)])
    found = count_left(host, from_s, to_s, HOUR)
    cell = (np.searchsorted(edges_s(), 2 * HOUR, side="right") - 1) // 4
    assert found[cell].tolist() == [2, 3]
    assert found.sum(axis=0).tolist() == [2, 3]


def test_hosts_that_became_empty_are_looked_at_again_and_again() -> None:
    # Host 0 is empty from 0 h to 1 h and from 2 h on, host 1 from 0 h to the end; all is known up to 30 h. Of the
    # spells that began in the first 6 h: after 0 h all three are empty, after 1 h two (host 0's first is over), after
    # 3 h all again, the first one's host being empty anew.
    spells = Spells(np.array([0, 0, 1]), np.array([0, 2, 0]) * HOUR, np.array([1, 30, 30]) * HOUR)
    found = count_still(spells, 0, 30 * HOUR)
    assert found[:, 1].tolist() == [3] * (N_CELLS + 2)
    after = {hours: int(np.argmax(knots_s() >= hours * HOUR)) for hours in (0, 1, 3)}
    assert [int(found[at, 0]) for at in after.values()] == [3, 2, 3]


def test_what_became_empty_too_late_or_too_early_is_not_counted() -> None:
    spells = Spells(np.array([0, 1, 2]), np.array([0, 5, 7]) * HOUR, np.array([30, 30, 30]) * HOUR)
    assert count_still(spells, HOUR, 30 * HOUR)[0].tolist() == [1, 1]  # 5 h alone: 30 h less a day is 6 h


def test_the_record_forgets_and_is_careful_where_it_knows_little() -> None:
    record = RefillRecord()
    assert record.refill().left_empty.tolist() == [1.0] * (N_CELLS + 1)
    assert record.refill().still_empty.tolist() == [1.0] * (N_CELLS + 2)
    # 3 hosts in the second group of cells, none of them left empty: 1 / 4, and no more than that afterwards
    left = np.zeros((N_CELLS // 4, 2), np.int64)
    left[1] = 0, 3
    record.add(left, np.stack([np.zeros(N_CELLS + 2, np.int64), np.full(N_CELLS + 2, 1)], axis=1), 0)
    assert record.refill().left_empty.tolist() == [1.0] * 4 + [0.25] * (N_CELLS - 3)
    assert record.refill().still_empty.tolist() == [0.5] * (N_CELLS + 2)
    assert not record.is_due(86_399) and record.is_due(86_400)
    for day in range(14):
        record.add(np.zeros((N_CELLS // 4, 2), np.int64), np.zeros((N_CELLS + 2, 2), np.int64), 86_400 * day)
    assert record.refill().left_empty.tolist() == [1.0] * (N_CELLS + 1)


def test_what_a_cell_counts_for() -> None:
    ones, knots = np.ones(N_CELLS + 1), np.ones(N_CELLS + 2)
    assert weights_s(Refill(ones, knots)).tolist() == np.diff(edges_s()).tolist()
    # half of the hosts are empty at any time after they became so: each hour counts for a half
    assert weights_s(Refill(ones, 0.5 * knots)) == pytest.approx(np.diff(edges_s()) / 2)
    # Hosts are in use again by 1,434 s (from the second knot, 1,200 s, to the third, 1,434 s), which leaves each
    # 1,200 + 234 / 2 = 1,317 s. So when a host empties says nothing, as long as it does before the last cell.
    soon = np.append([1.0, 1.0], np.zeros(N_CELLS))
    assert weights_s(Refill(ones, soon)) == pytest.approx(np.append(np.zeros(N_CELLS - 1), 1_317.0))
    # Hosts are left empty in the first cell alone: then it counts for all that is to come, 85,200 s from its begin on.
    first = np.append(1.0, np.zeros(N_CELLS))
    assert weights_s(Refill(first, knots)) == pytest.approx(np.append(HORIZON_S - MIGRATION_S, np.zeros(N_CELLS - 1)))


def _drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The loop's requests at 60 h, and its log of migrations and failures: some requests are still to come, some run
    on."""
    rng, n = np.random.default_rng(seed), 60
    requests = np.zeros(n, REQUESTS)
    requests["arrival_s"] = np.sort(rng.integers(0, 60 * HOUR, n))
    requests["ends_s"] = requests["arrival_s"] + np.rint(rng.exponential(3 * HOUR, n)).astype(np.int64) + 1
    requests["first_host"] = rng.integers(-1, 4, n)
    log: list[tuple[int, ...]] = []
    for row in np.flatnonzero((requests["first_host"] >= 0) & (rng.random(n) < 0.2)).tolist():
        host, at_s = int(requests["first_host"][row]), int(requests["arrival_s"][row])
        for _ in range(2):
            target, planner = int(rng.integers(4)), int(rng.choice([OPEN, DRAINED, FAILED]))
            at_s += int(rng.integers(1, 2 * HOUR))
            if target != host and at_s < min(int(requests["ends_s"][row]), 60 * HOUR):
                log.append((row, host, target, at_s, planner, at_s))
                host = target
    return requests, np.array(sorted(log, key=lambda each: each[3]), MIGRATION_LOG)


@given(seed=st.integers(0, 2**32 - 1))
def test_counts_equal_their_slow_twins(seed: int) -> None:
    requests, log = _drawn(seed)
    now_s = 60 * HOUR
    stays = Stays(log, requests, MIGRATION_S, until_s=now_s)
    rows = list(zip(*(each.tolist() for each in stays.all()), strict=True))
    spells = naive_rectification.empty_spells(rows, now_s)
    found = empty_spells(*stays.all(), now_s)
    assert list(zip(found.host.tolist(), found.since_s.tolist(), found.until_s.tolist(), strict=True)) == spells
    assert count_still(found, 3 * HOUR, now_s).tolist() == naive_rectification.still(
        spells, 3 * HOUR, now_s, knots_s().tolist())
    for at_s in (0, 5 * HOUR, 30 * HOUR):
        assert count_left(*stays.all(), at_s).tolist() == naive_rectification.left(rows, at_s, edges_s().tolist())


@given(seed=st.integers(0, 2**32 - 1))
def test_stays_up_to_now_know_no_end_that_is_to_come(seed: int) -> None:
    # The same requests, but all that end later than 60 h do so at another time.
    requests, log = _drawn(seed)
    other = requests.copy()
    other["ends_s"] = np.where(requests["ends_s"] > 60 * HOUR, requests["ends_s"] + 5 * HOUR, requests["ends_s"])
    # And in one world host 0 fails from 59 h to 70 h and host 1 at 61 h, in the other host 0 to 80 h and no other.
    events = [np.array(rows, HOST_EVENTS) for rows in (
        [(59 * HOUR, FAIL, 0), (61 * HOUR, FAIL, 1), (70 * HOUR, REPAIR, 0)],
        [(59 * HOUR, FAIL, 0), (80 * HOUR, REPAIR, 0)])]
    found = [Stays(log, each, MIGRATION_S, own, until_s=60 * HOUR)
             for each, own in zip((requests, other), events, strict=True)]
    assert [each.tolist() for each in found[0].all()] == [each.tolist() for each in found[1].all()]
