"""One owner's batch: undone in one step or counted again, small however long it goes on."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sojourn.serving.inputs import OWNER_FEATURES, fill_owner_features
from sojourn.serving.inputs.owner import UNKNOWN_OWNER, OwnerState, RunningRequests

GAP_S, WINDOW = 300, 3
Step = tuple[str, int, int]


@st.composite
def steps(draw: st.DrawFn, late_s: tuple[int, ...] = (0,)) -> list[Step]:
    """(what happens, admission's number, arrival): arrivals in order of time, some of them up to `late_s` late."""
    found: list[Step] = []
    running: list[int] = []
    now_s = 0
    for number in range(draw(st.integers(1, 60))):
        now_s += draw(st.sampled_from([0, 100, 200, 300, 301]))
        kind = draw(st.sampled_from(["arrive", "arrive", "arrive", "end", "withdraw", "withdraw_last"]))
        if kind == "arrive" or not running:
            found.append(("arrive", number, now_s - draw(st.sampled_from(late_s))))
            running.append(number)
        else:
            idx = -1 if kind == "withdraw_last" else draw(st.integers(0, len(running) - 1))
            found.append((kind.removesuffix("_last"), running.pop(idx), now_s))
    return found


def take(owner: OwnerState, step: Step) -> None:
    kind, number, now_s = step
    if kind == "arrive":
        owner.arrive(number, now_s, GAP_S)
    elif kind == "end":
        assert owner.end(number, 2.0, WINDOW, GAP_S)
    else:
        assert owner.withdraw(number, GAP_S)


def features(owner: OwnerState, now_s: int) -> list[float]:
    values = [0.0] * len(OWNER_FEATURES)
    fill_owner_features(owner.head(WINDOW) + UNKNOWN_OWNER[6:], now_s, GAP_S, values, 0)
    return values


def forget_undo(owner: OwnerState) -> None:
    if owner.running is not None:
        owner.running.undo = None


@given(steps())
@settings(deadline=None, max_examples=60)
def test_undoing_equals_counting_again(events: list[Step]) -> None:
    undone, counted = OwnerState(0), OwnerState(0)
    now_s = 0
    for step in events:
        now_s = max(now_s, step[2])
        forget_undo(counted)
        take(undone, step)
        take(counted, step)
        assert repr(features(undone, now_s)) == repr(features(counted, now_s))


@given(steps(late_s=(0, 0, 100, 300, 700, 5_000)))
@example([("arrive", 0, 0), ("arrive", 1, 301), ("end", 0, 301), ("withdraw", 1, 301), ("arrive", 4, 201)])
@settings(deadline=None, max_examples=60)
def test_what_is_kept_is_what_counting_again_finds(events: list[Step]) -> None:
    """The batch as it was carried along, also through admissions of requests that were running already."""
    owner = OwnerState(0)
    n_running = 0
    for step in events:
        take(owner, step)
        n_running += 1 if step[0] == "arrive" else -1
        groups = owner.batch_groups()
        assert len(groups) <= n_running + 1
        assert all((earliest_s < latest_s and n > 1) or (earliest_s == latest_s and n > 0)
                   for latest_s, earliest_s, n in groups)
        assert sum(n for _, _, n in groups) <= owner.n_ended
        if groups:
            assert owner.last_ended_s is not None
            assert groups[-1][0] <= owner.last_ended_s
        assert all(later[1] - earlier[0] > GAP_S for earlier, later in pairwise(groups))
        assert n_running == (0 if owner.running is None else len(owner.running.arrivals))
        if owner.running is not None:
            assert owner.running.sum_s == sum(owner.running.arrivals.values())
            if owner.batch:
                assert owner.running.batch(GAP_S) == (owner.last_arrival_s, owner.batch_start_s, owner.batch)


def test_a_batch_that_never_pauses_stays_small() -> None:
    """One arrival in 100 s, each ended 400 s later, but for one request that runs on."""
    n = 100_000
    owner = OwnerState(0)
    owner.arrive(-1, 0, GAP_S)
    for number in range(n):
        owner.arrive(number, 100 * number, GAP_S)
        if number >= 4:
            assert owner.end(number - 4, 2.0, WINDOW, GAP_S)
    assert owner.batch == n + 1
    assert owner.batch_groups() == [(100 * (n - 5), 0, n - 4)]
    assert owner.withdraw(-1, GAP_S)
    assert (owner.batch, owner.batch_start_s) == (n, 0)


def test_a_bridge_withdrawn_parts_the_batch() -> None:
    owner = OwnerState(0)
    for number, now_s in enumerate((0, 100, 400, 700, 800)):
        owner.arrive(number, now_s, GAP_S)
    for number in (0, 1, 3, 4):
        assert owner.end(number, 2.0, WINDOW, GAP_S)
    assert owner.batch_groups() == [(100, 0, 2), (800, 700, 2)]
    assert owner.batch == 5
    assert owner.withdraw(2, GAP_S)
    assert (owner.batch, owner.batch_start_s, owner.running) == (2, 700, None)


def test_the_latest_admission_is_undone_without_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = OwnerState(0)
    for number in range(5):
        owner.arrive(number, 100 * number, GAP_S)
    assert owner.end(0, 2.0, WINDOW, GAP_S)
    counted: list[int] = []
    count = RunningRequests.batch

    def counting(running: RunningRequests, batch_gap_s: int) -> tuple[int, int, int] | None:
        counted.append(len(running.arrivals))
        return count(running, batch_gap_s)

    monkeypatch.setattr(RunningRequests, "batch", counting)
    before = owner.head(WINDOW)
    for now_s in (500, 5_000):  # within the batch, and as a new one
        owner.arrive(9, now_s, GAP_S)
        assert owner.withdraw(9, GAP_S)
        assert owner.head(WINDOW) == before
    assert counted == []
    owner.arrive(9, 500, GAP_S)
    assert owner.end(1, 2.0, WINDOW, GAP_S)  # something happened since
    assert owner.withdraw(9, GAP_S)
    assert counted == [3]
    owner.arrive(10, 500, GAP_S)
    owner.arrive(11, 500, GAP_S)
    assert owner.withdraw(10, GAP_S)  # not the latest
    assert owner.withdraw(11, GAP_S)  # its undo was of a batch with the other one
    assert counted == [3, 4, 3]
    assert owner.batch == 5


def test_an_owner_at_rest_goes_on_as_if_it_had_kept_everything() -> None:
    """Its one group is not kept, but told by the batch."""
    owner = OwnerState(0)
    owner.arrive(0, 0, GAP_S)
    owner.arrive(1, 200, GAP_S)
    for number in (1, 0):
        assert owner.running is not None
        assert owner.end(number, 2.0, WINDOW, GAP_S)
    assert (owner.running, owner.batch_groups()) == (None, [(200, 0, 2)])
    twin = copy.copy(owner)
    for each in (owner, twin):
        each.arrive(2, 500, GAP_S)
        assert each.batch == 3
    owner.arrive(3, 600, GAP_S)
    assert owner.withdraw(2, GAP_S)  # counted again: 200 to 600 is too far
    assert (owner.batch, owner.batch_start_s) == (1, 600)
    assert twin.withdraw(2, GAP_S)
    assert (twin.batch, twin.batch_groups(), twin.running) == (2, [(200, 0, 2)], None)


def test_one_that_does_not_run_is_told() -> None:
    owner = OwnerState(0)
    assert not owner.end(0, 2.0, WINDOW, GAP_S)
    owner.arrive(1, 0, GAP_S)
    assert not owner.withdraw(0, GAP_S)
    assert not owner.end(0, 2.0, WINDOW, GAP_S)
    assert owner.withdraw(1, GAP_S)
