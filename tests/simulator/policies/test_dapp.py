"""DAPP's scores and tags one by one; the arithmetic stands above each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import naive
import sojourn.simulator as sim
from sojourn.simulator import NEVER, Cluster, DappRules, GroupRules, Request, dapp_policy
from sojourn.simulator.policies.dapp import (
    at_deadline,
    changes_at,
    class_of_remaining,
    dapp_state,
    debt_cost,
    departed,
    emptied,
    placed,
    resident,
    tag_of,
)

HOUR, DAY = 3600, 86_400
LEFT_S = (0, HOUR // 2, 5 * HOUR, 3 * DAY, 20 * DAY, 60 * DAY, 500 * DAY)
"""A remaining time of each class, from 1."""


def cluster(rules: DappRules, n_hosts: int = 1, n_requests: int = 9) -> Cluster:
    """Empty hosts of 100 cores and 200 GiB, memory binding."""
    capacity = np.tile((200, 100), (n_hosts, 1))
    state = dapp_state(rules, n_hosts, n_requests)
    state.idx_cpu[0] = 1
    return Cluster(capacity, capacity.copy(), np.zeros(n_hosts, np.int64), np.zeros(n_hosts, np.int64), state=state)


def asked(row: int, its_class: int, cores: int, now: int) -> Request:
    return Request(row, np.array([1, cores]), now + LEFT_S[its_class])


def come(hosts: Cluster, row: int, its_class: int, cores: int = 10, host: int = 0, now: int = 100) -> None:
    """What the engine does."""
    hosts.n_running[host] += 1
    placed(hosts, host, asked(row, its_class, cores, now), now)


def go(hosts: Cluster, row: int, host: int = 0, now: int = 200) -> None:
    departed(hosts, host, row, now)
    hosts.n_running[host] -= 1
    if hosts.n_running[host] == 0:
        emptied(hosts, host, now)


WEIGHTED = DappRules(tag_rule="weighted", groups=GroupRules("off"))
MAX = DappRules(tag_rule="max", groups=GroupRules("off"))


@pytest.mark.parametrize(("remaining_s", "expected"), [
    # a bound itself is not outlived: P(T > bound)
    (-5, 1), (HOUR, 1), (HOUR + 1, 2), (DAY, 2), (DAY + 1, 3), (7 * DAY, 3), (7 * DAY + 1, 4), (30 * DAY, 4),
    (30 * DAY + 1, 5), (365 * DAY, 5), (365 * DAY + 1, 6), (10**10, 6),
])  # fmt: skip
def test_classes_are_those_of_the_paper(remaining_s: int, expected: int) -> None:
    assert class_of_remaining(np.array(DappRules().bounds_s), remaining_s) == expected


@pytest.mark.parametrize(("requests", "weighted", "longest"), [
    # (class, cores): the mean of one is its class
    ([(3, 10)], 3, 3),
    # (1 x 30 + 5 x 10) / 40 = 2
    ([(1, 30), (5, 10)], 2, 5),
    # (2 x 10 + 3 x 10) / 20 = 2.5: the tie goes to the longer
    ([(2, 10), (3, 10)], 3, 3),
    # (2 x 11 + 3 x 10) / 21 = 2.48
    ([(2, 11), (3, 10)], 2, 3),
    # without cores a request weighs a thousandth: (1 x 0.001 + 6 x 0.001) / 0.002 = 3.5
    ([(1, 0), (6, 0)], 4, 6),
])
def test_the_class_of_a_host(requests: list[tuple[int, int]], weighted: int, longest: int) -> None:
    for rules, expected in ((WEIGHTED, weighted), (MAX, longest)):
        hosts = cluster(rules)
        for row, (its_class, cores) in enumerate(requests):
            come(hosts, row, its_class, cores)
        assert tag_of(hosts.state, 0) == expected


@pytest.mark.parametrize(("members", "expected"), [
    # the mean is (1 x 30 + 5 x 10) / 40 = 2: of 1 and 5, 1 is nearer; of 1 and 3 both are 1 away, the longer counts
    ([1, 5], 1), ([1, 3], 3), ([5, 6], 5),
])  # fmt: skip
def test_a_group_has_the_nearest_of_its_classes(members: list[int], expected: int) -> None:
    hosts = cluster(WEIGHTED)
    come(hosts, 0, 1, 30)
    come(hosts, 1, 5, 10)
    hosts.state.is_member[:] = [c in members for c in range(1, 7)]
    assert tag_of(hosts.state, 0) == expected


@pytest.mark.parametrize(("base", "own", "expected"), [
    # hosts of classes 4, 1, none and an empty one. Class 1: nowhere short, but on the untagged host by one class of
    # six: 1 - 0.8 (1 - 1/6)
    ("one-sided", 1, [0.0, 0.0, 0.333333333, 2.0]),
    # class 3: on class 1 by two: 1 - 0.8 (1 - 2/6); untagged by three: 1 - 0.8 / 2
    ("one-sided", 3, [0.0, 0.466666667, 0.6, 2.0]),
    # class 6 is long: short by 2, 5 and 6 classes: 1 - 0.2 x 4/6, 1 - 0.2 x 1/6, 1
    ("one-sided", 6, [0.866666667, 0.966666667, 1.0, 2.0]),
    # class 5 is long already: by 1: 1 - 0.2 x 5/6; by 4: 1 - 0.2 x 2/6; by 5: 1 - 0.2 / 6
    ("one-sided", 5, [0.833333333, 0.933333333, 0.966666667, 2.0]),
    # symmetric: class 1 on class 4: 1 - (1 - 3/6)
    ("symmetric", 1, [0.5, 0.0, 0.333333333, 2.0]),
    # class 2 on class 4: 2/6, on class 1: 1 - 0.8 (1 - 1/6): alike
    ("symmetric", 2, [0.333333333, 0.333333333, 0.466666667, 2.0]),
])
def test_the_cost_of_a_debt(base: Any, own: int, expected: list[float]) -> None:
    hosts = cluster(DappRules(base=base), 4)
    hosts.state.tag[:] = 4, 1, 0, 0
    hosts.n_running[:] = 1, 1, 1, 0
    assert [debt_cost(hosts, host, asked(0, own, 1, 100), 100) for host in range(4)] == expected


def test_an_empty_host_that_is_scored_comes_before_a_much_shorter_one() -> None:
    hosts = cluster(DappRules(empty="scored"), 3)
    hosts.state.tag[:] = 4, 3, 0
    hosts.n_running[:] = 1, 1, 0
    # class 5, long: 1 - 0.2 x 5/6 on class 4, 1 - 0.2 x 4/6 on class 3, 1 - 0.15 on the empty one, between them
    assert [debt_cost(hosts, host, asked(0, 5, 1, 100), 100) for host in range(3)] == [0.833333333, 0.866666667, 0.85]


def test_paper_tags_stand_until_midnight() -> None:
    hosts = cluster(MAX)
    come(hosts, 0, 2)
    assert hosts.state.tag[0] == 2
    assert hosts.state.deadline_s[0] == DAY
    come(hosts, 1, 5)
    assert hosts.state.tag[0] == 2
    go(hosts, 0)
    assert hosts.state.tag[0] == 2
    # at midnight request 1 is of class 3
    resident(hosts, 0, Request(1, np.array([1, 10]), DAY + 3 * DAY), DAY)
    at_deadline(hosts, 0, DAY)
    assert (hosts.state.tag[0], hosts.state.deadline_s[0]) == (3, 2 * DAY)
    go(hosts, 1)
    assert (hosts.state.tag[0], hosts.state.deadline_s[0]) == (0, NEVER)


@pytest.mark.parametrize(("tags", "after_come", "after_second", "after_go", "after_midnight"), [
    ("paper", 2, 2, 2, 5), ("events", 2, 2, 2, 2), ("daily", 0, 0, 0, 5), ("exact", 2, 5, 5, 5),
])  # fmt: skip
def test_when_tags_change(tags: Any, after_come: int, after_second: int, after_go: int, after_midnight: int) -> None:
    hosts = cluster(DappRules(tag_rule="max", tags=tags))
    found = []
    come(hosts, 0, 2)
    found.append(int(hosts.state.tag[0]))
    come(hosts, 1, 5)
    found.append(int(hosts.state.tag[0]))
    go(hosts, 0)
    found.append(int(hosts.state.tag[0]))
    resident(hosts, 0, Request(1, np.array([1, 10]), DAY + 60 * DAY), DAY)
    at_deadline(hosts, 0, DAY)
    assert [*found, int(hosts.state.tag[0])] == [after_come, after_second, after_go, after_midnight]


def test_a_midnight_of_an_empty_pool_clears_daily_tags() -> None:
    hosts = cluster(DappRules(tag_rule="max", tags="daily"), 2)
    come(hosts, 0, 5)
    resident(hosts, 0, Request(0, np.array([1, 10]), DAY + 60 * DAY), DAY)
    at_deadline(hosts, 0, DAY)
    go(hosts, 0, now=DAY + 100)
    come(hosts, 1, 2, now=2 * DAY - 1)  # before the next midnight: the tag is yesterday's
    assert hosts.state.tag.tolist() == [5, 0]
    go(hosts, 1, now=2 * DAY)  # departures come before midnight, arrivals after it
    come(hosts, 2, 2, host=1, now=2 * DAY)
    assert hosts.state.tag.tolist() == [0, 0]
    assert hosts.state.deadline_s.tolist() == [NEVER, 3 * DAY]


def test_the_last_long_request_to_migrate_away_renews_the_tag_that_it_leaves() -> None:
    hosts = cluster(MAX, 2)
    come(hosts, 0, 5)
    come(hosts, 1, 6)
    come(hosts, 2, 2)
    departed(hosts, 0, 0, 300)
    come(hosts, 0, 5, host=1, now=300)
    # request 1 is long and still there
    assert hosts.state.tag.tolist() == [5, 5]
    departed(hosts, 0, 1, 400)
    come(hosts, 1, 6, host=1, now=400)
    assert hosts.state.tag.tolist() == [2, 5]


def test_the_last_long_request_to_end_leaves_the_tag() -> None:
    hosts = cluster(MAX)
    come(hosts, 0, 5)
    come(hosts, 1, 2)
    go(hosts, 0)
    assert hosts.state.tag[0] == 5


def test_the_day_ends_with_the_last_host_in_use() -> None:
    hosts = cluster(DappRules(tag_rule="weighted", groups=GroupRules("timer", timer_days=1, window_days=1)), 4)
    for host in range(3):
        come(hosts, host, host + 1, host=host)
    go(hosts, 1, host=1)
    at_deadline(hosts, 0, DAY)
    assert hosts.state.pool[0]["n_updates"] == 0
    at_deadline(hosts, 2, DAY)
    assert hosts.state.pool[0]["n_updates"] == 1
    assert hosts.state.pool[0]["next_midnight_s"] == 2 * DAY
    # 10 cores of class 1 and 10 of class 3
    assert hosts.state.window[0].tolist() == [0.5, 0.0, 0.5, 0.0, 0.0, 0.0]
    assert hosts.state.is_member.tolist() == [1, 0, 1, 0, 0, 0]


def test_the_first_update_switches_to_the_weighted_mean() -> None:
    hosts = cluster(DappRules(groups=GroupRules("timer", timer_days=2, window_days=1, coverage=1.0, n_least=6)))
    come(hosts, 0, 1, 30)
    come(hosts, 1, 5, 10)
    for day, expected in ((1, 5), (2, 2)):  # (1 x 30 + 5 x 10) / 40 = 2
        at_deadline(hosts, 0, day * DAY)
        assert hosts.state.tag[0] == expected


def test_a_pool_that_runs_already_is_weighted_and_tagged_in_its_first_second() -> None:
    hosts = cluster(DappRules())
    for row, (its_class, cores) in enumerate([(1, 30), (5, 10)]):
        hosts.n_running[0] += 1
        placed(hosts, 0, asked(row, its_class, cores, 0)._replace(age_s=50), 0)
    assert (hosts.state.tag[0], hosts.state.deadline_s[0]) == (1, 1)
    at_deadline(hosts, 0, 1)
    assert (hosts.state.tag[0], hosts.state.deadline_s[0]) == (2, DAY)


@pytest.mark.parametrize(("left_s", "uptimes_s", "age_s", "expected"), [
    # class 2 (1 h to 1 d) with 2 h left: an hour from now it has 1 h, which is of class 1
    (2 * HOUR, [0], 0, HOUR),
    # the curve's next breakpoint comes before: uptime 700 at age 100 is in 600 s
    (2 * HOUR, [0, 50, 700, 900], 100, 600),
    # class 1: only when the prediction is outlived
    (1_800, [0], 0, 1_800),
    # a second above its bound it is of the class for this second
    (DAY + 1, [0], 0, 1),
])
def test_when_a_class_changes(left_s: int, uptimes_s: list[int], age_s: int, expected: int) -> None:
    request = Request(0, np.array([1]), 500 + left_s, age_s, np.array(uptimes_s))
    assert changes_at(np.array(DappRules().bounds_s), request, 500) == 500 + expected


def replayed(rules: DappRules, rows: list[tuple[int, int, float, float]], **kwargs: Any) -> sim.Result:
    """With an oracle on hosts of 10 cores and 10 GiB."""
    hosts = pd.DataFrame({"host_id": range(3), "cpu_cores": 10.0, "mem_gib": 10.0})
    trace = naive.trace_of(rows, 80 * DAY)
    workload = sim.Workload("test", trace, hosts, trace.lifetime_s())
    return sim.simulate(workload, dapp_policy("dapp-made", rules), sim.Oracle(workload), **kwargs)


@pytest.mark.slow
@pytest.mark.parametrize(("tags", "expected"), [
    # By midnight's tags, or at any time, host 0 is of class 2 since an hour: the request goes to host 1.
    ("paper", 1), ("daily", 1), ("exact", 1),
    # By the tags of the first requests host 0 is still of class 3: the request goes to the fuller host 0.
    ("events", 0),
])  # fmt: skip
def test_a_tag_that_is_not_renewed_is_too_long(tags: Any, expected: int) -> None:
    # Host 0 is opened by a request of 2 d (class 3), host 1 by one of 12 d (class 4), for 7 + 6 cores are too many. An
    # hour after the first midnight a request of 3 d (class 3) comes. Host 0 has 23 h and 1 s left then.
    rows = [(0, 2 * DAY + 1, 7.0, 1.0), (0, 12 * DAY, 6.0, 1.0), (DAY + HOUR, 4 * DAY + HOUR, 1.0, 1.0)]
    rules = DappRules(tag_rule="max", tags=tags, groups=GroupRules("off"))
    # 24 h and 1 s are class 3 still, so midnight's tags hold that, too; only exact ones see the 23 h
    assert replayed(rules, rows).host.tolist() == [0, 1, int(tags == "exact")]
    # with a second less on host 0, midnight sees class 2
    assert replayed(rules, [(0, 2 * DAY, 7.0, 1.0), *rows[1:]]).host.tolist() == [0, 1, expected]


@pytest.mark.slow
def test_an_empty_host_comes_last_unless_it_is_scored() -> None:
    # A request of 60 d (class 5) finds host 0 of class 1: short by 4, affinity 0.2 x 2/6 = 0.07. An empty one has 0.15.
    rows = [(0, HOUR // 2, 5.0, 1.0), (60, 60 * DAY, 1.0, 1.0)]
    assert replayed(DappRules(), rows).host.tolist() == [0, 0]
    assert replayed(DappRules(empty="scored"), rows).host.tolist() == [0, 1]


@pytest.mark.parametrize(("change", "message"), [
    ({"base": "both"}, "base must be one of one-sided, symmetric, got 'both'"),
    ({"tags": "hourly"}, "tags must be one of paper, daily, events, exact, got 'hourly'"),
    ({"bounds_s": ()}, r"bounds_s must ascend from above 0, got \(\)"),
    ({"long_class": 7}, "long_class and n_least must be at most 6, the number of classes, got 7 and 2"),
    ({"day_s": 1}, "day_s must be 2 or more, got 1"),
])
def test_rules_that_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DappRules(**change)
