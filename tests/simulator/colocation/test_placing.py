"""Placement by usage: the compiled rules against plain ones, ties, and what makes two rules the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_colocation import (
    capacity_score,
    naive_best_fit,
    naive_borg,
    naive_place,
    per_request_score,
    period_aware_score,
    squares_score,
)
from sojourn.simulator.colocation import COLOCATION_POLICIES, UNITS, Colocation, place


def _drawn(seed: int, n: int, n_slots: int, n_resources: int = 1) -> np.ndarray:
    """Use in shares of a host, of few values, so that there are ties."""
    rng = np.random.default_rng(seed)
    shape = (n, n_slots) if n_resources == 1 else (n, n_resources, n_slots)
    return rng.integers(0, 5, shape) / 8


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 90), n_hosts=st.sampled_from([1, 2, 5, 70]),
       n_slots=st.sampled_from([1, 3, 7]), n_resources=st.sampled_from([1, 2]))
def test_rules_place_as_their_slow_twins(seed: int, n: int, n_hosts: int, n_slots: int, n_resources: int) -> None:
    use = _drawn(seed, n, n_slots, n_resources)
    colocation = Colocation(use, n_hosts, np.ones(n_resources))
    order = np.random.default_rng(seed).permutation(n)
    peaks = colocation.used.reshape(n, n_resources, n_slots).max(axis=2)
    asked = order.tolist()
    twins = {
        "period-aware": naive_place(colocation.used, n_hosts, asked, period_aware_score(n_hosts)),
        "period-aware-per-request": naive_place(colocation.used, n_hosts, asked, per_request_score),
        "squares": naive_place(colocation.used, n_hosts, asked, squares_score),
        "violation-fit": naive_place(colocation.used, n_hosts, asked, capacity_score, is_fullest=True),
        "oracle-series": naive_place(colocation.used, n_hosts, asked, squares_score),
        "borg-peak": naive_borg(peaks, n_hosts, asked),
        "oracle-peak": naive_borg(peaks, n_hosts, asked),
        "best-fit": naive_best_fit(peaks, n_hosts, asked, UNITS),
    }
    assert {name: place(colocation, name, order).tolist() for name in twins} == twins


def test_several_blocks_and_tiles_place_as_the_slow_twin() -> None:
    """160 hosts make blocks of 5 requests; 1,030 slots make two tiles."""
    rng = np.random.default_rng(4)
    use = np.repeat(rng.integers(0, 5, (100, 103)) / 8, 10, axis=1)
    colocation, order = Colocation(use, 160, 1.0), rng.permutation(100)
    small = Colocation(use[:, ::10], 160, 1.0)  # each slot stands ten times: sums are ten times as large
    for name, score in (("period-aware", period_aware_score(160)), ("squares", squares_score)):
        assert place(colocation, name, order).tolist() == naive_place(small.used, 160, order.tolist(), score)


@pytest.mark.parametrize("n_hosts", [3, 20, 100])
def test_without_a_periodic_request_period_aware_is_borg_peak(n_hosts: int) -> None:
    """With constant models the increase rises with a host's load and is level in between; the tie rule takes the least
    loaded, so that the least loaded host wins throughout, as with peaks."""
    peaks = np.random.default_rng(n_hosts).integers(1, 9, 300) / 16
    colocation = Colocation(np.repeat(peaks[:, None], 6, axis=1), n_hosts, 1.0)
    order = np.random.default_rng(1).permutation(300)
    found = {name: place(colocation, name, order).tolist()
             for name in ("borg-peak", "period-aware", "period-aware-per-request", "squares")}
    assert len(set(map(tuple, found.values()))) == 1
    assert len(set(found["borg-peak"])) == n_hosts


def test_one_periodic_request_makes_a_difference() -> None:
    """Or else the test above would hold of any two rules."""
    use = np.repeat(np.array([[0.5], [0.3], [0.3]]), 2, axis=1)
    use[0] = (0.5, 0.0)
    use[2] = (0.0, 0.3)
    colocation = Colocation(use, 2, 1.0)
    assert place(colocation, "borg-peak", np.arange(3)).tolist() == [0, 1, 1]
    assert place(colocation, "period-aware", np.arange(3)).tolist() == [0, 1, 0]


def test_a_profile_that_repeats_is_given_once() -> None:
    profile = _drawn(3, 40, 4)
    once = Colocation(np.tile(profile, 6), 5, 1.0, model=profile)
    whole = Colocation(np.tile(profile, 6), 5, 1.0)
    for name in ("borg-peak", "period-aware", "squares"):
        assert place(once, name, np.arange(40)).tolist() == place(whole, name, np.arange(40)).tolist()


def test_policies_read_the_model_and_oracles_the_use() -> None:
    """Changing what really happens changes no placement of a policy that is no oracle."""
    model, order = _drawn(5, 60, 6), np.arange(60)
    real, other = _drawn(6, 60, 6), _drawn(7, 60, 6)
    for name, policy in COLOCATION_POLICIES.items():
        same = (place(Colocation(real, 4, 1.0, model=model), name, order).tolist()
                == place(Colocation(other, 4, 1.0, model=model), name, order).tolist())
        assert same is not policy.is_oracle, name


def test_random_follows_its_seed() -> None:
    colocation = Colocation(_drawn(1, 50, 2), 9, 1.0)
    first = place(colocation, "random", np.arange(50), 3).tolist()
    assert first == place(colocation, "random", np.arange(50), 3).tolist() != place(colocation, "random", np.arange(50),
                                                                                   4).tolist()


@pytest.mark.parametrize(("use", "capacity", "words"), [
    (np.array([[np.nan]]), 1.0, "use must be finite"), (np.array([[-1.0]]), 1.0, "use must be finite and at least 0"),
    (np.array([[17.0]]), 1.0, "at most 16"), (np.zeros((0, 3)), 1.0, "must have the shape"),
    (np.array([["a"]]), 1.0, "use must be numbers, got array"), (np.array([[object()]]), 1.0, "use must be numbers"),
    ([[1.0], [1.0, 2.0]], 1.0, "use must be numbers"), (np.array([[True]]), 1.0, "use must be numbers"),
    (np.ones((1, 1)), "wide", "capacity must be numbers, got 'wide'"),
    (np.ones((1, 1)), None, "capacity must be numbers"),
    (np.ones((1, 1)), 0.0, "capacity must be"), (np.ones((1, 1)), np.ones(2), "capacity must have one number"),
])  # fmt: skip
def test_bad_use_is_refused(use: Any, capacity: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Colocation(use, 1, capacity)


def test_bad_orders_names_and_hosts_are_refused() -> None:
    colocation = Colocation(np.ones((2, 1)), 1, 4.0)
    with pytest.raises(ValueError, match="order must hold each"):
        place(colocation, "squares", np.array([0, 0]))
    with pytest.raises(ValueError, match="policy must be one of random, best-fit"):
        place(colocation, "worst", np.arange(2))
    with pytest.raises(ValueError, match=r"n_hosts must .*, got 0"):
        Colocation(np.ones((2, 1)), 0, 4.0)
    with pytest.raises(ValueError, match=r"n_hosts must .*, got 2\.5"):
        Colocation(np.ones((2, 1)), 2.5, 4.0)  # type: ignore[arg-type]
    for order, words in (([0.0, 1.0], "order must be whole numbers"), ([0], "order must be whole numbers of the shape"),
                         (["a", "b"], "order must be numbers"), ([0, 2], "order must hold each")):
        with pytest.raises(ValueError, match=words):
            place(colocation, "random", order)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"seed must .*, got -1"):
        place(colocation, "random", np.arange(2), -1)
    with pytest.raises(ValueError, match="model must be numbers"):
        Colocation(np.ones((2, 1)), 1, 4.0, model=np.array([["a"], ["b"]]))
    with pytest.raises(ValueError, match="model must be of the 2 requests"):
        Colocation(np.ones((2, 1)), 1, 4.0, model=np.ones((3, 1)))
