"""A replay in pieces has the bits of a replay in one; errors name the same request."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import sojourn.simulator as sim
from made_workloads import cases, each_policy, full_cases, with_all
from sojourn.simulator import Cluster, Request, kernel
from sojourn.simulator.cluster import DAY_S
from sojourn.simulator.engine import world as engine
from sojourn.simulator.engine.pieces import Pieces


def both(length: int, workload: sim.Workload, policy: Any, source: Any, **asked: Any) -> tuple[sim.Result, sim.Result]:
    """The result in one piece, and in pieces of so many requests or of as many as run."""
    whole = sim.simulate(workload, policy, source, **asked)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "PIECE", length)
        return whole, sim.simulate(workload, policy, source, **asked)


def check_same(whole: sim.Result, cut: sim.Result) -> None:
    assert cut.host.tolist() == whole.host.tolist()
    assert cut.metrics == whole.metrics
    assert cut.is_disturbed == whole.is_disturbed
    pd.testing.assert_frame_equal(cut.series, whole.series, check_exact=True)
    for field in fields(whole.samples):
        np.testing.assert_array_equal(getattr(cut.samples, field.name), getattr(whole.samples, field.name))
    if whole.migrations is not None:
        assert cut.migrations is not None
        pd.testing.assert_frame_equal(cut.migrations, whole.migrations, check_exact=True)


@pytest.mark.parametrize("policy", each_policy(sim.POLICIES))
@settings(deadline=None, max_examples=60)
@given(case=cases(), length=st.integers(1, 6))
def test_pieces_change_nothing(policy: str, case: Any, length: int) -> None:
    workload, curves, _ = case
    check_same(*both(length, workload, policy, sim.Held(workload.request_ids, curves)))


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "is_ranked"), [("nilas", False), ("best-fit", True), ("lava", True),
                                                   ("joint-exact", True), ("open-fgd", True)])
@settings(deadline=None, max_examples=80)
@given(case=full_cases(are_hosts_alike=True), length=st.integers(1, 6))
def test_pieces_change_nothing_where_all_may_happen(policy: str, is_ranked: bool, case: Any, length: int) -> None:
    workload, curves, _, upkeep, migration, is_queueing = with_all(case)
    waiting = replace(sim.KNOWN_POLICIES[policy], is_queueing=is_queueing)
    check_same(*both(length, workload, waiting, sim.Held(workload.request_ids, curves), is_ranked=is_ranked,
                     upkeep=upkeep, migration=migration, is_checked=True))


def busy(n: int = 60) -> sim.Workload:
    """Requests "r0", "r1" ... one every 10 s, each for 200 s, on 4 hosts."""
    trace = naive.trace_of([(10 * k, min(10 * k + 200, 10 * n), 1.0, 1.0) for k in range(n)], 10 * n)
    named = sim.Trace(trace.requests.assign(request_id=[f"r{k}" for k in range(n)]), 10 * n)
    hosts = pd.DataFrame({"host_id": range(4), "cpu_cores": 8.0, "mem_gib": 64.0})
    return sim.Workload("test", named, hosts, trace.lifetime_s())


class Noted(sim.Oracle):
    """An oracle that notes how many requests it is asked about at once."""

    def __init__(self, workload: sim.Workload) -> None:
        super().__init__(workload)
        self.asked: list[list[str]] = []

    def curves(self, requests: pd.DataFrame) -> sim.Curves:
        self.asked.append(requests["request_id"].tolist())
        return super().curves(requests)


def test_tables_hold_what_runs_and_the_next_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    workload, n_records, lengthened = busy(), [], Pieces.lengthened

    def noted(pieces: Pieces, world: Any) -> Any:
        world = lengthened(pieces, world)
        n_records.append((len(world.requests), len(world.uptime_s), len(world.need)))
        return world

    monkeypatch.setattr(engine, "PIECE", 15)
    monkeypatch.setattr(Pieces, "lengthened", noted)
    source = Noted(workload)
    sim.simulate(workload, "nilas", source)
    # 15, which all still run when 15 more come; of these 20 run when the next come
    assert n_records == [(15, 15, 15), (30, 30, 30), (35, 35, 35), (35, 35, 35)]
    assert [name for asked in source.asked for name in asked] == workload.request_ids.tolist()


@kernel
def fails_at_41(cluster: Cluster, host: int, request: Request, now: int) -> float:
    """Below 0 for the request in row 41."""
    return -1.0 if request.row == 41 else 0.0


def fails_in_numpy(cluster: Cluster, request: Request, now: int) -> np.ndarray:
    if request.row == 41:
        raise KeyError("no such row")
    return np.zeros(len(cluster.n_running))


@pytest.mark.parametrize("policy", [sim.Policy("x", (fails_at_41,)), sim.Policy("y", host_scores=fails_in_numpy)])
def test_an_error_of_a_policy_names_the_request(policy: sim.Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="asked about request 'r41' at 410 s") as whole:
        sim.simulate(busy(), policy)
    monkeypatch.setattr(engine, "PIECE", 15)
    with pytest.raises(ValueError, match="asked about request 'r41' at 410 s") as cut:
        sim.simulate(busy(), policy)
    assert str(cut.value) == str(whole.value)


def test_an_error_of_a_source_names_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(sim.Oracle):
        def curves(self, requests: pd.DataFrame) -> sim.Curves:
            if "r41" in requests["request_id"].tolist():
                raise RuntimeError("not this one")
            return super().curves(requests)

    monkeypatch.setattr(engine, "PIECE", 15)
    with pytest.raises(ValueError, match="request 'r41' that arrives at 410 s, it raised RuntimeError: not this one"):
        sim.simulate(busy(), "nilas", Failing(busy()))


def test_overhangs_of_some_pieces_only_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Uneven(sim.Oracle):
        def curves(self, requests: pd.DataFrame) -> sim.Curves:
            own = super().curves(requests)
            return replace(own, overhang_s=own.total_s) if "r0" in requests["request_id"].tolist() else own

    monkeypatch.setattr(engine, "PIECE", 15)
    with pytest.raises(ValueError, match="source must give overhang_s for every request or for none"):
        sim.simulate(busy(), "nilas", Uneven(busy()))


@pytest.mark.parametrize("policy", ["nilas", "joint-exact", pytest.param("open-fgd", marks=pytest.mark.slow)])
def test_an_explanation_has_the_bits_of_one_in_one_piece(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = busy()
    ids = ("r0", "r14", "r15", "r50", "r59")
    whole = [sim.explain(workload, policy, sim.Oracle(workload), each) for each in ids]
    monkeypatch.setattr(engine, "PIECE", 15)
    source = Noted(workload)
    for request_id, expected in zip(ids, whole, strict=True):
        found = sim.explain(workload, policy, source, request_id)
        pd.testing.assert_frame_equal(found.table, expected.table)
        assert (found.host_id, found.remaining_s, found.need) == (expected.host_id, expected.remaining_s, expected.need)
    if policy == "nilas":  # of the first request no more than the first piece is asked about
        assert source.asked[0] == [f"r{k}" for k in range(15)] and source.asked[1][0] == "r0"


def days(seed: int, n: int = 150) -> sim.Workload:
    """Requests of minutes to days, over five days, on 6 hosts."""
    rng = np.random.default_rng(seed)
    arrivals = np.sort(rng.integers(0, 5 * DAY_S, n))
    lengths = np.exp(rng.normal(9.5, 1.5, n)).astype(int) + 60
    trace = naive.trace_of([(int(at), int(min(at + length, 5 * DAY_S)), float(rng.integers(1, 4)), 1.0)
                            for at, length in zip(arrivals, lengths, strict=True)], 5 * DAY_S)
    return sim.Workload("test", trace, pd.DataFrame({"host_id": range(6), "cpu_cores": 16.0, "mem_gib": 64.0}),
                        trace.lifetime_s())


@pytest.mark.parametrize(("policy", "planner", "upkeep"), [
    ("nilas", "value", ()), ("first-fit", "pdre", ()),
    ("nilas", "value", (sim.Failure(2, 2 * DAY_S, 3_600), sim.Drain(0, DAY_S, 3 * DAY_S))),
])
@pytest.mark.parametrize("length", [1, 20])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_pieces_change_nothing_for_a_rectifier(policy: str, planner: str, upkeep: Any, length: int, seed: int) -> None:
    workload = days(seed)
    rectify = sim.Rectify(planner, 5, non_migratable_share=0.1, long_s=4 * 3_600, every_s=3_600, seed=seed)
    whole, cut = both(length, workload, policy, sim.NoisyOracle(workload, 0.5), upkeep=upkeep, rectify=rectify)
    check_same(whole, cut)
    assert whole.metrics.n_migrations > 0 and whole.migrations is not None
    assert (whole.migrations["planner"] == planner).any()
    request_id = whole.migrations["request_id"].iloc[-1]
    asked: dict[str, Any] = {"upkeep": upkeep, "rectify": rectify}
    one = sim.explain(workload, policy, sim.NoisyOracle(workload, 0.5), request_id, **asked)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "PIECE", length)
        other = sim.explain(workload, policy, sim.NoisyOracle(workload, 0.5), request_id, **asked)
    pd.testing.assert_frame_equal(other.table, one.table)
    assert one.migrations is not None and other.migrations is not None and len(one.migrations) > 0
    pd.testing.assert_frame_equal(other.migrations, one.migrations)


def test_a_rectifier_too_has_tables_of_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    n_records, lengthened = [], Pieces.lengthened

    def noted(pieces: Pieces, world: Any) -> Any:
        world = lengthened(pieces, world)
        n_records.append(len(world.requests))
        return world

    monkeypatch.setattr(engine, "PIECE", 20)
    monkeypatch.setattr(Pieces, "lengthened", noted)
    workload = days(0)
    sim.simulate(workload, "nilas", sim.Oracle(workload), rectify=sim.Rectify("value", 5))
    assert len(n_records) > 5 and max(n_records) < 100


def test_long_curves_go_on_from_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, n, m = np.random.default_rng(0), 400, 12
    arrivals = np.sort(rng.integers(0, 40_000, n))
    trace = naive.trace_of([(int(at), int(at + rng.integers(100, 20_000)), 1.0, 1.0) for at in arrivals], 70_000)
    hosts = pd.DataFrame({"host_id": range(40), "cpu_cores": 8.0, "mem_gib": 64.0})
    workload = sim.Workload("test", trace, hosts, trace.lifetime_s())
    uptime_s = np.tile(np.arange(m) * 900, n)
    curves = sim.Curves(np.arange(n + 1) * m, uptime_s, uptime_s + 900 + rng.integers(0, 20_000, n * m))
    whole = sim.simulate(workload, "nilas", sim.Held(workload.request_ids, curves))
    monkeypatch.setattr(engine, "PIECE", 20)
    check_same(whole, sim.simulate(workload, "nilas", sim.Held(workload.request_ids, curves)))
