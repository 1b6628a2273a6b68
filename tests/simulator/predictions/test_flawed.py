"""Flawed oracles: how many lifetimes are wrong, by how much, and that every policy sees the same."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import naive
import sojourn.simulator as sim


def workload_of(n: int) -> sim.Workload:
    rng = np.random.default_rng(1)
    lifetimes = np.maximum(np.rint(10.0 ** rng.uniform(1.0, 6.0, n)), 1).astype(int).tolist()
    rows = [(idx, idx + lifetime, 1.0, 1.0) for idx, lifetime in enumerate(lifetimes)]
    return sim.build_workload("trace", naive.trace_of(rows, 2 * 10**6), cpu_cores=8, mem_gib=8)


def test_noise_is_lognormal_and_right_in_the_median() -> None:
    workload = workload_of(20_000)
    found = sim.NoisyOracle(workload, 1.5, seed=3).curves(workload.trace.requests).total_s
    logs = np.log(found / workload.total_s)
    # 20,000 normal numbers: median 0 +- 4 x 1.5 x 1.2533 / sqrt(n), spread 1.5 +- 4 x 1.5 / sqrt(2 n); rounding is less
    assert abs(np.median(logs)) < 0.054
    assert abs(logs.std() - 1.5) < 0.04
    again = sim.NoisyOracle(workload, 1.5, seed=3).curves(workload.trace.requests.iloc[::-1]).total_s
    assert again.tolist() == found[::-1].tolist()
    assert (sim.NoisyOracle(workload, 1.5, seed=4).curves(workload.trace.requests).total_s != found).mean() > 0.9


def test_recall_is_exact_and_nested() -> None:
    workload = workload_of(5_000)
    total_s = workload.total_s
    is_long = total_s >= 7_200
    known = []
    for recall in (0.0, 0.4, 0.8, 1.0):
        found = sim.LongAsShort(workload, recall, seed=3).curves(workload.trace.requests).total_s
        assert found[~is_long].tolist() == total_s[~is_long].tolist()
        is_known = found[is_long] == total_s[is_long]
        assert is_known.sum() == round(recall * is_long.sum())
        assert (found[is_long][~is_known] < 7_200).all()
        known.append(is_known)
    assert all((more | ~fewer).all() for fewer, more in pairwise(known))


def test_whole_owners_are_known_or_not() -> None:
    workload = workload_of(5_000)
    owners = np.arange(5_000) % 50
    owners[::10] = -1
    is_long = workload.total_s >= 7_200
    for recall in (0.4, 0.8):
        found = sim.LongAsShort(workload, recall, seed=3, owners=owners).curves(workload.trace.requests).total_s
        is_known = found == workload.total_s
        assert is_known[~is_long].all()
        per_owner = [is_known[is_long & (owners == owner)].mean() for owner in range(50) if (owners == owner).any()]
        assert {*per_owner} == {0.0, 1.0}
        # an owner has at most 100 of about 2,150 long requests
        assert round(recall * is_long.sum()) - 100 < is_known[is_long].sum() <= round(recall * is_long.sum())


def test_refusals_name_the_rule() -> None:
    workload = workload_of(50)
    for sigma in (-0.1, np.inf, np.nan):
        with pytest.raises(ValueError, match="sigma must be finite and >= 0, got"):
            sim.NoisyOracle(workload, sigma)
    for recall in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match=r"recall must be in 0\.\.1, got"):
            sim.LongAsShort(workload, recall)
    with pytest.raises(ValueError, match=r"long_s must .*, got 1"):
        sim.LongAsShort(workload, 0.5, long_s=1)
    with pytest.raises(KeyError, match="request_id must be in the workload"):
        sim.NoisyOracle(workload, 1.0).curves(workload.trace.requests.assign(request_id="x"))
