"""Hostile input: each with its defined result or a clear error."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim
from made_workloads import twin_of
from sojourn.features import Roles
from sojourn.simulator import NEVER, kernel
from sojourn.simulator.loop import ranking
from sojourn.simulator.policies.lava import LavaState


class Deadlines(NamedTuple):
    """deadline_s, and what a host's becomes when a request is placed; int64 (n_hosts,)."""

    deadline_s: np.ndarray
    first_s: np.ndarray


def workload_of(rows: list[Any], horizon: int, *shapes: tuple[float, float]) -> sim.Workload:
    hosts = pd.DataFrame({"host_id": range(len(shapes)), "cpu_cores": [s[0] for s in shapes],
                          "mem_gib": [s[1] for s in shapes]})
    trace = naive.trace_of(rows, horizon)
    return sim.Workload("test", trace, hosts, sim.true_totals(trace, np.random.default_rng(0)))


def test_a_host_smaller_than_every_request_stays_empty() -> None:
    workload = workload_of([(0, 50, 2.0, 2.0), (0, 50, 2.0, 2.0)], 100, (1.0, 9.0), (4.0, 4.0))
    result = sim.simulate(workload)
    assert result.host.tolist() == [1, 1]
    # host 0 for 100 s, host 1 for 50 s of 2 x 100
    assert result.metrics.empty_hosts_pct == 75.0


def test_no_hosts_at_all() -> None:
    with pytest.raises(ValueError, match="hosts must be at least one, got none"):
        workload_of([(0, 50, 1.0, 1.0)], 100)
    with pytest.raises(ValueError, match="n_hosts must be at least 1, got 0"):
        sim.build_workload("trace", naive.trace_of([(0, 50, 1.0, 1.0)], 100), cpu_cores=4, mem_gib=4, n_hosts=0)


def test_a_request_larger_than_any_host() -> None:
    rows = [(0, 50, 5.0, 1.0), (0, 50, 1.0, 1.0)]
    with pytest.raises(ValueError, match="each request must fit on an empty host, got 0 larger than every host"):
        workload_of(rows, 100, (4.0, 4.0))
    built = sim.build_workload("trace", naive.trace_of(rows, 100), cpu_cores=4, mem_gib=4)
    assert (len(built.trace), built.left_out.n_requests) == (1, 1)


@pytest.mark.parametrize("cores", [1e12, 1e30, 1e300])
def test_amounts_beyond_all_reason_are_refused(cores: float) -> None:
    # 2^40 thousandths of a core are 1.09951e9
    with pytest.raises(ValueError, match=r"cpu_cores must be in 0..1.09951e\+09, got "):
        sim.build_workload("trace", naive.trace_of([(0, 50, cores, 1.0)], 100), cpu_cores=4, mem_gib=4)


def test_sums_that_would_overflow_are_refused() -> None:
    # 1e9 thousandths on each of 10 hosts over 1e6 s is 1e19, above 2^63 = 9.2e18
    rows = [(0, 50, 1.0, 1.0)]
    with pytest.raises(ValueError, match=r"cpu_cores of all hosts over the horizon must be below 2\^63"):
        workload_of(rows, 10**6, *[(1e9, 4.0)] * 10)


@pytest.mark.parametrize("cores", [np.nan, np.inf, -1.0])
def test_hosts_of_no_size_are_refused(cores: float) -> None:
    with pytest.raises(ValueError, match="cpu_cores must be in 0"):
        workload_of([(0, 50, 1.0, 1.0)], 100, (4.0, 4.0), (cores, 4.0))


@pytest.mark.parametrize("policy", ["best-fit", "nilas", "lava"])
def test_equal_time_stamps_by_the_thousand(policy: str) -> None:
    # 3,000 at 0 that all leave at 50, when 3,000 more come: of 4 cores and 1 core each, so 750 hosts hold them all
    rows = [(0, 50, 1.0, 1.0)] * 3_000 + [(50, 100, 1.0, 1.0)] * 3_000
    workload = workload_of(rows, 100, *[(4.0, 4.0)] * 760)
    result = sim.simulate(workload, policy, sim.Oracle(workload))
    expected = np.repeat(np.arange(750), 4)
    assert result.host.tolist() == [*expected, *expected]
    # 10 of 760
    assert result.metrics.empty_hosts_pct == pytest.approx(1000 / 760)
    assert result.metrics.n_events == 12_000


def test_departures_without_arrivals_ran_from_the_start() -> None:
    # an unknown start counts as 0; one that has neither is there from 0 to past the horizon
    workload = workload_of([(None, 30, 1.0, 1.0), (None, None, 1.0, 1.0), (40, 60, 1.0, 1.0)], 100, (2.0, 2.0))
    result = sim.simulate(workload)
    assert result.host.tolist() == [0, 0, 0]
    assert workload.departure_s[0] == 30
    assert workload.departure_s[1] > 100
    assert result.metrics.n_events == 5
    with pytest.raises(ValueError, match="departure_s must be at or after arrival_s"):
        naive.trace_of([(50, 30, 1.0, 1.0)], 100)


@pytest.mark.parametrize(("totals", "message"), [
    ([np.nan], "total_s must be whole seconds, got nan"),
    ([np.inf], "total_s must be whole seconds, got inf"),
    ([-np.inf], "total_s must be whole seconds, got -inf"),
    ([-1], r"total_s must be in 0\.\.\d+, got -1"),
    ([2**60], r"total_s must be in 0\.\.\d+, got 1152921504606846976"),
])
def test_predictions_that_are_none(totals: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sim.one_step(np.array(totals))


class Predicting:
    """A source that gives some requests of a table the totals told, and the others 60 s."""

    def __init__(self, totals: dict[str, float]) -> None:
        self._totals = totals

    def curves(self, requests: pd.DataFrame) -> sim.Curves:
        return sim.one_step(np.array([self._totals.get(name, 60) for name in requests["request_id"]]))


class Raising:
    """A source that fails when asked for some requests."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def curves(self, requests: pd.DataFrame) -> sim.Curves:
        for name in self._names:
            if (requests["request_id"] == name).any():
                raise RuntimeError(f"nothing known of {name}")
        return sim.one_step(np.full(len(requests), 60))


class RaisingForMany:
    def curves(self, requests: pd.DataFrame) -> sim.Curves:
        if len(requests) > 3:
            raise MemoryError("too many")
        return sim.one_step(np.full(len(requests), 60))


class Giving:
    """A source that gives the same, whatever it is asked for."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def curves(self, requests: pd.DataFrame) -> Any:
        return self._given


@pytest.mark.parametrize(("source", "who", "what"), [
    (Predicting({"r2": np.nan}), "request 'r2' that arrives at 30 s", "BadCurve: .*got nan"),
    (Predicting({"r3": np.inf, "r4": np.nan}), "request 'r3' that arrives at 40 s", "BadCurve: .*got inf"),
    (Predicting({"r0": -5}), "request 'r0' that arrives at 0 s", "BadCurve: .*got -5"),
    (Predicting({"r4": -np.inf}), "request 'r4' that arrives at 50 s", "BadCurve: .*got -inf"),
    # too few: the first that has none; too many: the last that there is
    (Giving(sim.one_step(np.full(4, 60))), "request 'r4' that arrives at 50 s", r"one per request \(5\), got 4"),
    (Giving(sim.one_step(np.full(6, 60))), "request 'r4' that arrives at 50 s", r"one per request \(5\), got 6"),
    (Giving(np.full(5, 60)), "", "source must give Curves for policy 'nilas', got ndarray"),
    (Raising("r3"), "request 'r3' that arrives at 40 s", "RuntimeError: nothing known of r3"),
    (Raising("r4", "r2"), "request 'r2' that arrives at 30 s", "RuntimeError: nothing known of r4"),
    (Raising("r0", "r1", "r2", "r3", "r4"), "request 'r0' that arrives at 0 s", "RuntimeError: nothing known of r0"),
    (RaisingForMany(), "for policy 'nilas', asked for all requests together,", "MemoryError: too many"),
    (sim.Held(["r0", "r1", "r3", "r4"], sim.one_step(np.full(4, 60))), "request 'r2' that arrives at 30 s",
     "KeyError: .*request_id must be known, got 'r2'"),
])
def test_bad_predictions_are_told_with_policy_request_and_time(source: Any, who: str, what: str) -> None:
    plain = workload_of([(t, t + 40, 1.0, 1.0) for t in (-7, 20, 30, 40, 50)], 100, (4.0, 4.0))
    named = sim.Trace(plain.trace.requests.assign(request_id=[f"r{k}" for k in range(5)]), 100)
    workload = sim.Workload("test", named, plain.hosts, plain.total_s)
    with pytest.raises(ValueError, match=what) as caught:
        sim.simulate(workload, "nilas", source)
    assert "policy 'nilas'" in str(caught.value)
    assert who in str(caught.value)
    assert (caught.value.__cause__ is not None) == ("raised" in str(caught.value))


@pytest.mark.parametrize("total", [0, 2**52])
@pytest.mark.parametrize("policy", ["nilas", "lava"])
def test_the_shortest_and_the_longest_prediction_are_borne(policy: str, total: int) -> None:
    workload = workload_of([(t, t + 40, 1.0, 1.0) for t in range(0, 60, 3)], 100, (4.0, 4.0), (4.0, 4.0))
    source = sim.Held(workload.request_ids, sim.one_step(np.full(20, total)))
    # alike by lifetime, so that packing decides
    assert sim.simulate(workload, policy, source).host.tolist() == sim.simulate(workload).host.tolist()


@pytest.mark.parametrize(("make", "message"), [
    (lambda: sim.Failure(2, 0, 5), r"host must be in 0\.\.1, got 2"),
    (lambda: sim.Drain(-1, 0, 5), "host must be a whole number, at least 0, got -1"),
    (lambda: sim.Failure(0, 10, 0), "repair_s must be a whole number, at least 1, got 0"),
    (lambda: sim.Failure(0, -1, 9), "at_s must be a whole number, at least 0, got -1"),
    (lambda: sim.Drain(0, 5, 5), "until_s must be after from_s"),
    (lambda: sim.Maintenance(-1, 5, 0.5), "from_s must be a whole number, at least 0, got -1"),
    (lambda: sim.Maintenance(0, 0, 0.5), "every_s must be a whole number, at least 1, got 0"),
    (lambda: sim.Maintenance(0, 5, float("nan")), "share must be above 0 and at most 1, got nan"),
    (lambda: sim.Maintenance(0, 5, 1.5), "share must be above 0 and at most 1, got 1.5"),
    (lambda: sim.Defragmentation(0.0), "min_empty_pct must be above 0 and at most 100, got 0.0"),
    (lambda: sim.Defragmentation(5.0, 0), "n_hosts must be a whole number, at least 1, got 0"),
    (lambda: sim.Migration(n_at_once=0), "n_at_once must be a whole number, at least 1, got 0"),
    (lambda: sim.Migration(duration_s=0), "duration_s must be a whole number, at least 1, got 0"),
])  # fmt: skip
def test_upkeep_that_cannot_be(make: Any, message: str) -> None:
    workload = workload_of([(0, 50, 1.0, 1.0)], 100, (4.0, 4.0), (4.0, 4.0))
    with pytest.raises(ValueError, match=message):
        sim.simulate(workload, upkeep=[make()])


@pytest.mark.parametrize(("kind", "given", "message"), [
    (sim.Failure, (0, 10, 9.5), "repair_s must be a whole number, at least 1, got 9.5"),
    (sim.Failure, (True, 10, 9), "host must be a whole number, at least 0, got True"),
    (sim.Drain, (0, 0, 86400.7), "until_s must be a whole number, at least 1, got 86400.7"),
    (sim.Maintenance, (0, float("nan"), 0.5), "every_s must be a whole number, at least 1, got nan"),
    (sim.Defragmentation, (5.0, 1.5), "n_hosts must be a whole number, at least 1, got 1.5"),
    (sim.Migration, ("trace", True, True), "n_at_once must be a whole number, at least 1, got True"),
    (sim.Migration, ("trace", True, 3, 1.5), "duration_s must be a whole number, at least 1, got 1.5"),
])  # fmt: skip
def test_settings_of_upkeep_that_are_no_whole_numbers(kind: Any, given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(*given)


def test_two_defragmentations_are_refused() -> None:
    workload = workload_of([(0, 50, 1.0, 1.0)], 100, (4.0, 4.0))
    with pytest.raises(ValueError, match=r"upkeep must .*, got 2"):
        sim.simulate(workload, upkeep=[sim.Defragmentation(5.0), sim.Defragmentation(6.0)])


def test_an_order_of_migrations_may_need_a_source() -> None:
    workload = workload_of([(0, 50, 1.0, 1.0)], 100, (4.0, 4.0))
    with pytest.raises(ValueError, match="source must be given for policy 'best-fit', whose migrations are ordered by"):
        sim.simulate(workload, upkeep=[sim.Drain(0, 5, 9)])


@pytest.mark.parametrize("name", ["host_type", "apart_by", "pinned_by"])
def test_constraints_by_columns_that_are_not_there(name: str) -> None:
    plain = workload_of([(0, 50, 1.0, 1.0)], 100, (4.0, 4.0))
    ruled = sim.Workload("test", plain.trace, plain.hosts, plain.total_s, constraints=sim.Constraints(**{name: "rack"}))
    with pytest.raises(ValueError, match=r"requests must .*, got request_id"):
        sim.simulate(ruled)


def test_missing_values_are_no_rule() -> None:
    requests = pd.DataFrame({"request_id": [1, 2, 3], "machine": ["a", None, "z"], "job": [None, None, "j"],
                             "is_pinned": [True, None, False]})
    hosts = pd.DataFrame({"host_id": [0, 1], "machine": ["a", None]})
    rules = sim.Constraints("machine", "job", "is_pinned").rules(requests, hosts)
    # a host without a type has no requests that ask for one; an unknown type is that of no host
    assert (rules.host_kind.tolist(), rules.kind.tolist()) == ([0, -1], [0, -1, 1])  # type: ignore[union-attr]
    assert (rules.group.tolist(), rules.is_pinned.tolist()) == ([-1, -1, 0], [1, 0, 0])  # type: ignore[union-attr]


def deadlines_at_44(n_hosts: int, n_requests: int) -> Deadlines:
    return Deadlines(np.full(n_hosts, NEVER), np.full(n_hosts, 44))


@kernel
def placed_11(cluster: Any, host: int, request: Any, now: int) -> None:
    """Raises at 11 s, and wants to hear of the host at 44 s."""
    if now == 11:
        raise ArithmeticError("placed")
    cluster.state.deadline_s[host] = cluster.state.first_s[host]


@kernel
def departed_22(cluster: Any, host: int, row: int, now: int) -> None:
    """Raises at 22 s."""
    if now == 22:
        raise ArithmeticError("departed")


@kernel
def emptied_33(cluster: Any, host: int, now: int) -> None:
    """Raises at 33 s."""
    if now == 33:
        raise ArithmeticError("emptied")
    cluster.state.deadline_s[host] = NEVER


@kernel
def at_deadline_44(cluster: Any, host: int, now: int) -> None:
    """Raises at 44 s."""
    raise ArithmeticError("at_deadline")


@pytest.mark.slow  # a loop of its own
@pytest.mark.parametrize(("rows", "message"), [
    # r1 is placed beside r0 on the first host
    ([(0, 90, 1.0, 1.0), (11, 90, 1.0, 1.0)], "hook 'placed' of request 'r1' and host 'h0' at 11 s"),
    # r1 has a host of its own; it leaves after r2 has come
    ([(0, 90, 4.0, 1.0), (5, 22, 1.0, 1.0), (20, 90, 1.0, 1.0)],
     "hook 'departed' of request 'r1' and host 'h1' at 22 s"),
    # h1 is empty though r2 has come to h0 since
    ([(0, 90, 3.0, 1.0), (5, 33, 3.0, 1.0), (20, 90, 1.0, 1.0)], "hook 'emptied' of host 'h1' at 33 s"),
    # r1 has kept h1 from 5 s on, and at 44 s only that is left
    ([(0, 30, 3.0, 1.0), (5, 90, 3.0, 1.0)], "hook 'at_deadline' of host 'h1' at 44 s"),
])
def test_a_hook_that_raises_is_named_with_what_it_was_told_of(rows: list[Any], message: str) -> None:
    plain = workload_of(rows, 100, (4.0, 4.0), (4.0, 4.0))
    named = sim.Trace(plain.trace.requests.assign(request_id=[f"r{k}" for k in range(len(rows))]), 100)
    workload = sim.Workload("test", named, plain.hosts.assign(host_id=["h0", "h1"]), plain.total_s)
    hooks = sim.Hooks(deadlines_at_44, placed_11, departed_22, emptied_33, at_deadline_44)
    kind = message.split("'")[1]
    expected = f"policy 'raising', in {message}, must not raise, got ArithmeticError: {kind}$"
    with pytest.raises(ValueError, match=expected) as caught:
        sim.simulate(workload, sim.Policy("raising", hooks=hooks))
    assert isinstance(caught.value.__cause__, ArithmeticError)


def stubborn(cluster: Any, host: int, now: int) -> None:
    """Leaves the deadline where it is."""


@pytest.mark.slow
def test_a_deadline_that_stays_is_refused() -> None:
    hooks = sim.POLICIES["lava"].hooks
    assert hooks is not None
    policy = sim.Policy("stuck", predictions="current", hooks=replace(hooks, at_deadline=kernel(stubborn)))
    workload = workload_of([(0, 20_000, 1.0, 1.0)], 30_000, (4.0, 4.0))
    source = sim.Held(workload.request_ids, sim.one_step(np.array([60])))
    # of class 1: 1.1 h
    with pytest.raises(ValueError, match=r"policy 'stuck' must put a later deadline, .* for host 0 at 3960 s"):
        sim.simulate(workload, policy, source)


RESOURCES = ("cpu_cores", "mem_gib", "gpu", "disk_gib", "network_gbps")


def five_resources(n_hosts: int, capacity: float, step: float) -> sim.Workload:
    """Requests of five resources, each binding at its time."""
    rng = np.random.default_rng(0)
    start = np.sort(rng.integers(0, 900, 200))
    requests = pd.DataFrame({"request_id": range(200), "arrival_s": start,
                             "departure_s": start + rng.integers(1, 100, 200)})
    for name in RESOURCES:
        requests[name] = rng.integers(0, int(capacity / step / 2), 200) * step
    hosts = pd.DataFrame({"host_id": range(n_hosts), **dict.fromkeys(RESOURCES, capacity)})
    trace = sim.Trace(requests, 1_000, Roles(resources=("disk_gib", "network_gbps")), hosts)
    return sim.build_workload("trace", trace)


@pytest.mark.parametrize(("capacity", "step", "is_packed"), [
    # 1 bit, 5 amounts of 0 to 4 halves (3 bits), 4 bits of hosts
    (2.0, 0.5, True),
    # amounts to 10,000,000 thousandths: 5 x 24 bits are more than 63
    (10_000.0, 0.001, False),
])
def test_five_resources(capacity: float, step: float, is_packed: bool) -> None:
    workload = five_resources(12, capacity, step)
    assert set(workload.resources) == set(RESOURCES)
    assert (ranking(workload.capacity, workload.need) is not None) == is_packed
    per_request = [[(0, int(total))] for total in workload.total_s]
    result = sim.simulate(workload, "nilas", sim.Oracle(workload))
    assert result.host.tolist() == twin_of(workload, per_request).run("nilas")
    assert set(result.metrics.utilisation_pct) == set(RESOURCES)
    if not is_packed:
        with pytest.raises(ValueError, match="is_ranked must be False or None for policy 'nilas' on these hosts"):
            sim.simulate(workload, "nilas", sim.Oracle(workload), is_ranked=True)


def test_a_resource_is_declared_once(tmp_path: Any) -> None:
    workload = five_resources(2, 2.0, 0.5)
    again = sim.Trace.load(workload.trace.save(tmp_path / "trace"))
    assert again.resources == RESOURCES
    table = workload.trace.requests
    for roles in (Roles(resources=("gpu",)), Roles(numbers=("disk_gib",), resources=("disk_gib",))):
        with pytest.raises(ValueError, match="roles must declare a resource once and as nothing else, got"):
            sim.Trace(table, 1_000, roles)
    with pytest.raises(ValueError, match="requests must have the columns tpu; got"):
        sim.Trace(table, 1_000, Roles(resources=("tpu",)))
    with pytest.raises(ValueError, match=r"disk_gib must be finite and >= 0, got -1\.0"):
        sim.Trace(table.assign(disk_gib=-1.0), 1_000, Roles(resources=("disk_gib",)))


def test_a_policys_state_begins_without_deadlines() -> None:
    hooks = sim.POLICIES["lava"].hooks
    assert hooks is not None
    state = hooks.state(3, 5)
    assert isinstance(state, LavaState)
    assert state.deadline_s.tolist() == [NEVER] * 3
