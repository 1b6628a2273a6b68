"""What a policy's functions may not be, told in our words with the policy's and the function's name."""

import random
from typing import Any, NamedTuple

import numba
import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim
from sojourn.simulator.engine import check_form
from sojourn.simulator.engine.policy_check import check_compiled

WEIGHTS = np.array([0.0, 1.0, 2.0])
SHORT = np.array([3.0])


def two_hosts(n_requests: int = 3) -> sim.Workload:
    """Requests of 1 core at 0 s, 10 s, ... on two hosts of 4."""
    trace = naive.trace_of([(10 * k, 90, 1.0, 1.0) for k in range(n_requests)], 100)
    named = sim.Trace(trace.requests.assign(request_id=[f"r{k}" for k in range(n_requests)]), 100)
    hosts = pd.DataFrame({"host_id": ["a", "b"], "cpu_cores": 4.0, "mem_gib": 8.0})
    return sim.Workload("test", named, hosts, trace.lifetime_s())


def plain(cluster: Any, host: int, request: Any, now: int) -> float:
    return 0.0


def check(policy: sim.Policy) -> None:
    """All that is looked at before a loop is compiled."""
    check_form(policy)
    state = np.zeros(0, np.int64) if policy.hooks is None else policy.hooks.state(1, 1)
    check_compiled(policy, 2, state)


@sim.kernel
def writes_free(cluster: Any, host: int, request: Any, now: int) -> float:
    cluster.free[host, 0] = 0
    return 0.0


@sim.kernel
def writes_by_alias_in_a_branch(cluster: Any, host: int, request: Any, now: int) -> float:
    row = cluster.free[host]
    if now > 10**12:
        row[0] += 1
    return 0.0


@sim.kernel
def take(numbers: Any) -> float:
    numbers[0] = 0
    return 0.0


@sim.kernel
def writes_in_a_callee(cluster: Any, host: int, request: Any, now: int) -> float:
    return take(request.need)


@sim.kernel
def sorts(cluster: Any, host: int, request: Any, now: int) -> float:
    cluster.free[host].sort()
    return 0.0


@pytest.mark.parametrize(("scorer", "line"), [
    (writes_free, "cluster.free[host, 0] = 0"),
    (writes_by_alias_in_a_branch, "row[0] += 1"),
    (writes_in_a_callee, ""),
    (sorts, ""),
])
def test_a_scorer_that_writes_is_refused(scorer: Any, line: str) -> None:
    name = scorer.__name__
    with pytest.raises(ValueError, match=f"^scorer '{name}' of policy 'mine' must write to no array, got a write in ") \
            as caught:
        sim.simulate(two_hosts(), sim.Policy("mine", (scorer,)))
    assert line in str(caught.value)
    assert "test_policy_check.py, line " in str(caught.value)


@sim.kernel
def returns_none(cluster: Any, host: int, request: Any, now: int) -> None:
    pass


@sim.kernel
def may_return_none(cluster: Any, host: int, request: Any, now: int) -> float | None:
    return 1.0 if now > 3 else None


@sim.kernel
def returns_text(cluster: Any, host: int, request: Any, now: int) -> str:
    return "a"


@sim.kernel
def returns_complex(cluster: Any, host: int, request: Any, now: int) -> complex:
    return 1j * cluster.n_running[host]


@sim.kernel
def returns_array(cluster: Any, host: int, request: Any, now: int) -> Any:
    return cluster.free


@sim.kernel
def makes_an_array(cluster: Any, host: int, request: Any, now: int) -> float:
    return float(np.zeros(3)[host])


@sim.kernel
def names_nothing(cluster: Any, host: int, request: Any, now: int) -> float:
    return cluster.weight[host]


@sim.kernel
def numba_breaks_on(cluster: Any, host: int, request: Any, now: int) -> float:
    return cluster.n_running.view()[host]  # a ValueError from within numba, none of its own errors


@sim.kernel
def draws(cluster: Any, host: int, request: Any, now: int) -> float:
    return np.random.random()  # noqa: NPY002 - what numba knows


@sim.kernel
def chance(host: int) -> float:
    return random.random() + host


@sim.kernel
def draws_in_a_callee(cluster: Any, host: int, request: Any, now: int) -> float:
    return chance(host) if now > 10**12 else 0.0


@sim.kernel
def asks_python(cluster: Any, host: int, request: Any, now: int) -> float:
    with numba.objmode(score="float64"):
        score = 1.0 + host
    score += 1.0
    return score


@sim.kernel
def prints(cluster: Any, host: int, request: Any, now: int) -> float:
    print(host)
    return 0.0


def takes_two(cluster: Any, host: int) -> float:
    return 0.0


def calls_plain(cluster: Any, host: int, request: Any, now: int) -> float:
    return plain(cluster, host, request, now)


PREFIX = "^scorer '{}' of policy 'mine' must "


@pytest.mark.parametrize(("scorer", "message"), [
    (plain, r"be made with sim\.kernel, got a plain function"),
    # reads of such are not checked
    (numba.njit(plain), r"be made with sim\.kernel, got a function made with numba\.njit"),
    (sim.kernel(takes_two), r"take \(cluster, host, request, now\), got \(cluster, host\)"),
    (sim.kernel(calls_plain), r"call functions made with sim\.kernel, got a plain function, 'plain'"),
    (returns_none, "return a number on every path, got None"),
    (may_return_none, "return a number on every path, got float64 or None"),
    (returns_text, "return a number on every path, got .*str"),
    (returns_complex, "return a number on every path, got complex128"),
    (returns_array, "return a number on every path, got an array"),
    (makes_an_array, r"be what numba can compile, got .*zeros.* in test_policy_check\.py, line \d+: "),
    (names_nothing, "be what numba can compile, got Unknown attribute 'weight'"),
    (numba_breaks_on, r"be what numba can compile, got not enough values to unpack .* in test_policy_check\.py, line"),
    (draws, "give the same answer each time, got a draw from a random generator"),
    (draws_in_a_callee, "give the same answer each time, got a draw from a random generator"),
    (asks_python, r"be compiled whole, got a part that Python runs \(numba\.objmode\)"),
])  # fmt: skip
def test_a_scorer_that_is_none_is_refused_in_our_words(scorer: Any, message: str) -> None:
    with pytest.raises(ValueError, match=PREFIX.format(scorer.__name__) + message) as caught:
        check(sim.Policy("mine", (scorer,)))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_scorer_may_print() -> None:
    check(sim.Policy("mine", (prints,)))


def test_a_kernel_is_made_of_a_plain_function_once() -> None:
    assert sim.kernel(prints) is prints
    ours: Any = sim.POLICIES["nilas"].scorers[0]
    assert sim.kernel(ours) is ours
    for bad, told in ((numba.njit(plain), r"a function made with numba\.njit"), (3, "3"), (None, "None"),
                      (int, "<class 'int'>"), (print, "<built-in function print>")):
        with pytest.raises(ValueError, match=f"^function must be a plain Python function, got {told}$"):
            sim.kernel(bad)  # type: ignore[type-var]


def test_what_is_no_function_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^scorer '3' of policy 'mine' must .*, got 3$"):
        check(sim.Policy("mine", (3,)))  # type: ignore[arg-type]


@sim.kernel
def returns_bool(cluster: Any, host: int, request: Any, now: int) -> bool:
    return cluster.n_running[host] == 0


@sim.kernel
def returns_int(cluster: Any, host: int, request: Any, dimension: int) -> int:
    return cluster.free[host, dimension]


def test_whole_numbers_and_truth_values_are_scores() -> None:
    check(sim.Policy("mine", (returns_bool, sim.PerResource(returns_int)), filter=returns_bool))


def test_a_filter_must_say_yes_or_no() -> None:
    with pytest.raises(ValueError, match=r"^filter 'returns_none' of policy 'mine' must return True or False"):
        check(sim.Policy("mine", filter=returns_none))  # type: ignore[arg-type]


class Kept(NamedTuple):
    """Seen, and no deadlines."""

    n_seen: np.ndarray
    deadline_s: np.ndarray


def kept(n_hosts: int, n_requests: int) -> Kept:
    return Kept(np.zeros(n_hosts, np.int64), np.full(n_hosts, sim.NEVER))


@sim.kernel
def counts_placed(cluster: Any, host: int, request: Any, now: int) -> None:
    cluster.state.n_seen[host] += 1


@sim.kernel
def takes_room(cluster: Any, host: int, request: Any, now: int) -> None:
    cluster.free[host, 0] -= 1


@sim.kernel
def nothing(cluster: Any, host: int, row: int, now: int) -> None:
    pass


@sim.kernel
def nothing_of_host(cluster: Any, host: int, now: int) -> None:
    pass


@sim.kernel
def seen(cluster: Any, host: int, request: Any, now: int) -> float:
    return float(cluster.state.n_seen[host])


@sim.kernel
def forgets(cluster: Any, host: int, request: Any, now: int) -> float:
    cluster.state.n_seen[host] = 0
    return 0.0


def hooked(placed: Any, scorer: Any = seen, state: Any = kept) -> sim.Policy:
    """A policy that remembers how many were placed on a host."""
    return sim.Policy("mine", (scorer,), hooks=sim.Hooks(state, placed, nothing, nothing_of_host, nothing_of_host))


def test_a_hook_may_write_to_its_own_state_alone() -> None:
    check(hooked(counts_placed))
    with pytest.raises(ValueError, match=r"^hook 'takes_room' of policy 'mine' must write to no arrays but those"):
        check(hooked(takes_room))
    with pytest.raises(ValueError, match=r"^scorer 'forgets' of policy 'mine' must write to no array"):
        check(hooked(counts_placed, forgets))


@pytest.mark.parametrize(("state", "message"), [
    (lambda n_hosts, n_requests: np.zeros(n_hosts), "with a field 'deadline_s', got ndarray"),
    (lambda n_hosts, n_requests: Kept(3, np.zeros(1)), "with a field 'n_seen' that is one, got a int"),  # type: ignore[arg-type]
])
def test_a_state_that_hooks_cannot_keep_is_refused(state: Any, message: str) -> None:
    with pytest.raises(ValueError, match="^state of policy 'mine' must be a NamedTuple of NumPy arrays " + message):
        check(hooked(counts_placed, state=state))


@sim.kernel
def reads_past(cluster: Any, host: int, request: Any, now: int) -> float:
    return SHORT[host] if now == 10 else 0.0


@sim.kernel
def nan_at_20(cluster: Any, host: int, request: Any, now: int) -> float:
    return np.nan if now == 20 and host == 0 else float(cluster.n_running[host])


@pytest.mark.slow  # a loop of its own
def test_a_read_past_an_array_is_told_with_scorer_and_host() -> None:
    # r1 comes at 10 s; host a would do, host b has no entry in an array of one
    expected = (r"^policy 'mine', asked about request 'r1' at 10 s, must read arrays within their bounds, got "
                r"IndexError: index 1 is out of bounds for axis 0 with size 1 from scorer 'reads_past' for host 'b'$")
    with pytest.raises(ValueError, match=expected):
        sim.simulate(two_hosts(), sim.Policy("mine", (reads_past,)))


@pytest.mark.slow
def test_a_score_of_nan_is_told_with_scorer_and_host() -> None:
    expected = (r"'r2' at 20 s, must score 0 or more, got less, infinity or NaN: "
                r"nan from scorer 'nan_at_20' for host 'a'$")
    with pytest.raises(ValueError, match=expected):
        sim.simulate(two_hosts(), sim.Policy("mine", (nan_at_20,)))
