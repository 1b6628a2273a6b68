"""Least Requested Priority and equations 2 to 4 against arithmetic and the slow twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_ctcl
from sojourn.simulator.mixed import available, idle, least_requested_host

ONE = np.array([[10, 10]])


def test_a_batch_request_may_use_what_services_leave_idle() -> None:
    # capacity 10, allocated 9: a service gets 1; the services reserved 8 and need 3 at most, so a batch request gets 6
    free = available(ONE, np.array([[9, 9]]))
    unused = idle(np.array([[8.0, 8.0]]), np.array([[[3.0, 1.0], [2.0, 3.0]]]))
    assert (free.tolist(), unused.tolist()) == ([[1, 1]], [[5.0, 5.0]])
    need = np.array([6.0, 6.0])
    assert least_requested_host(free, ONE, need) == -1
    assert least_requested_host(free + unused, ONE, need) == 0


def test_a_service_that_is_not_identified_leaves_nothing_idle_nor_one_above_its_reservation() -> None:
    predicted = np.array([[[1.0, np.nan], [1.0, 1.0]], [[9.0, 9.0], [9.0, 9.0]]])
    assert idle(np.full((2, 2), 8.0), predicted).tolist() == [[7.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(("free", "expected"), [
    # requested share .38 cpu + .62 memory: .38 * .5 + .62 * .2 = .314 and .38 * .2 + .62 * .5 = .386
    (((5, 8), (8, 5)), 0),
    (((1, 8), (8, 5)), 1),  # the first has no room for two
    (((5, 8), (5, 8)), 0),  # the first of equal ones
    (((1, 8), (8, 1)), -1),
])  # fmt: skip
def test_hosts_are_filtered_and_then_ranked(free: tuple[tuple[int, int], ...], expected: int) -> None:
    assert least_requested_host(np.array(free), ONE.repeat(2, axis=0), np.array([2, 2])) == expected


def test_a_closed_host_and_no_host_at_all() -> None:
    assert least_requested_host(ONE, ONE, np.array([1, 1]), is_open=np.array([False])) == -1
    none = np.zeros((0, 2), np.int64)
    assert least_requested_host(none, none, np.array([1, 1])) == -1
    with pytest.raises(ValueError, match="must agree in shape"):
        least_requested_host(ONE, ONE, np.array([1]))


_AMOUNT = st.tuples(st.integers(-3, 9), st.integers(-3, 9))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(_AMOUNT, st.booleans()), max_size=6), st.tuples(st.integers(0, 5), st.integers(0, 5)))
def test_every_choice_equals_the_slow_twin(hosts: list[tuple[tuple[int, int], bool]], need: tuple[int, int]) -> None:
    free, is_open = [amount for amount, _ in hosts], [is_open for _, is_open in hosts]
    capacity = [(9, 0 if k % 3 == 2 else 7) for k in range(len(hosts))]
    found = least_requested_host(np.array(free, np.int64).reshape(-1, 2), np.array(capacity, np.int64).reshape(-1, 2),
                                 np.array(need), is_open=np.array(is_open, bool))
    assert found == naive_ctcl.least_requested(free, capacity, is_open, need, (0.38, 0.62))
