"""Owner history: golden features, and a slow twin that counts everything again from the log of events."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.serving.inputs import (
    CATEGORY_FEATURES,
    OWNER_FEATURES,
    UNKNOWN,
    HistoryDefinition,
    HistoryKey,
    HistoryState,
    Receipt,
    whole_arrays,
    whole_history,
)

DEFINITION = HistoryDefinition((HistoryKey("user", ("user",), "owner"), HistoryKey("zone", ("zone",), "category")),
                               window=3, category_memory=4, prior_strength=2.0)  # fmt: skip
Keys = tuple[tuple[str, ...] | None, ...]
ANN: Keys = (("ann",), ("z",))
ZONES = {"c": "y", "d": "x"}
"""Zones of the owners that have another one than z."""


def is_known(state: HistoryState, idx: int, key: tuple[str, ...]) -> bool:
    keys = [key if idx == position else None for position in range(len(state.definition.keys))]
    return state.slots(keys)[idx] != UNKNOWN


def owner_features(state: HistoryState, keys: Keys, now_s: int) -> dict[str, float]:
    return dict(zip(OWNER_FEATURES, state.features(keys, now_s), strict=False))


def test_golden_owner_features() -> None:
    state = HistoryState(DEFINITION)
    first = state.admit(ANN, 0)
    state.ended(first, 100)  # log10 100 = 2
    second, _third = state.admit(ANN, 200), state.admit(ANN, 230)
    log1p, log10 = math.log1p, math.log10
    assert owner_features(state, ANN, 260) == {
        "arrived": log1p(3), "running": log1p(2), "oldest_age": log10(60),
        "mean_age": log10(45),  # 260 - (200 + 230) / 2
        "since_last": log10(30), "batch": log1p(3),  # 0, 200, 230: no gap above 300 s
        "ended": log1p(1), "mean": 2.0, "spread": 0.0, "last": 2.0, "mean_2": 2.0, "longest": 2.0,
        "share_1h": 0.0, "share_1d": 0.0, "share_7d": 0.0,
    }  # fmt: skip
    state.ended(second, 10_200)  # log10 10000 = 4
    features = owner_features(state, ANN, 10_200)
    # lifetimes 2 and 4: mean 3, spread 1; 10000 s outlives an hour, so half do
    names = ("ended", "mean", "spread", "last", "mean_2", "longest", "share_1h", "share_1d")
    assert [features[name] for name in names] == [log1p(2), 3.0, 1.0, 4.0, 3.0, 4.0, 0.5, 0.0]
    assert features["batch"] == 0.0  # 9970 s since the last arrival
    assert features["running"] == log1p(1)


def test_golden_category_features() -> None:
    state = HistoryState(DEFINITION)
    for zone, lifetime_s in (("a", 100), ("b", 10_000), ("b", 10_000)):
        state.ended(state.admit((None, (zone,)), 0), lifetime_s)
    # overall mean (2 + 4 + 4) / 3; zone b: (2 * 4 + prior 2 * overall) / (2 + 2)
    overall = 2.0 + 2.0 / 2
    overall += (4.0 - overall) / 3
    found = state.features((None, ("b",)), 0)[len(OWNER_FEATURES):]
    assert found == [math.log1p(2), (2 * 4.0 + 2.0 * overall) / 4.0]
    assert state.features((None, ("new",)), 0)[len(OWNER_FEATURES):] == [0.0, overall]
    assert len(found) == len(CATEGORY_FEATURES)


def test_only_the_last_ones_are_remembered() -> None:
    state = HistoryState(DEFINITION)
    for lifetime_s in (10, 100, 1_000, 10_000):  # window 3: the first is forgotten, mean (2 + 3 + 4) / 3
        state.ended(state.admit(ANN, 0), lifetime_s)
    features = owner_features(state, ANN, 10_000)
    assert (features["ended"], features["mean"], features["longest"]) == (math.log1p(3), 3.0, 4.0)
    assert features["arrived"] == math.log1p(3)  # counts stop at the window, too


def test_eviction_forgets_the_oldest_last_arrival() -> None:
    definition = HistoryDefinition((HistoryKey("user", ("user",), "owner"),), n_keys_max=2)
    state = HistoryState(definition)
    first = {name: state.admit(((name,),), now_s) for now_s, name in enumerate(["a", "b"])}
    state.admit((("a",),), 2)
    state.admit((("c",),), 3)  # a arrived at 2, b at 1: b is forgotten
    assert [is_known(state, 0, (name,)) for name in "abc"] == [True, False, True]
    state.ended(first["b"], 10)  # the end of a forgotten one changes no owner
    state.admit((("b",),), 11)
    assert owner_features(state, (("b",),), 11)["ended"] == 0.0
    state.withdraw(first["b"])  # nor does its withdrawal
    assert owner_features(state, (("b",),), 11)["arrived"] == math.log1p(1)


def test_categories_are_bounded_too() -> None:
    definition = HistoryDefinition((HistoryKey("zone", ("zone",), "category"),), prior_strength=0.0, n_keys_max=2)
    state = HistoryState(definition)
    for zone, lifetime_s in (("a", 10), ("b", 100), ("a", 10), ("c", 1_000)):  # a ended after b: b is forgotten
        state.ended(state.admit(((zone,),), 0), lifetime_s)
    assert [is_known(state, 0, (zone,)) for zone in "abc"] == [True, False, True]
    assert state.features((("a",),), 0) == [math.log1p(2), 1.0]
    assert state.features((("c",),), 0) == [math.log1p(1), 3.0]  # in the slot of b, which has left nothing there
    assert state.features((("b",),), 0) == [0.0, state.overall]
    restored = HistoryState.from_arrays(definition, state.to_arrays())
    for each in (state, restored):  # the order of eviction is restored: a's last end is now the oldest
        each.ended(each.admit((("d",),), 0), 10)
        assert [is_known(each, 0, (zone,)) for zone in "abcd"] == [False, False, True, True]


@pytest.mark.slow
def test_a_full_table_stays_flat() -> None:
    """Neither rows nor memory grow with the owners and categories that pass through; every slot is used again."""
    n_max, n_owners = 1_000, 20_000
    state = HistoryState(HistoryDefinition(DEFINITION.keys, n_keys_max=n_max))

    def stream(first: int, n: int) -> None:
        for number in range(first, first + n):
            key = (f"{number:09d}",)
            receipt = state.admit((key, key), 500 * number)
            if number % 3 == 0:
                state.withdraw(receipt)
            elif number % 3 == 1:
                state.ended(receipt, 500 * number + 100)

    stream(0, 8 * n_max)
    n_slots = len(state.rows.values)
    tracemalloc.start()
    try:
        stream(8 * n_max, 8 * n_max)  # by now all that is in the table is counted
        tracemalloc.reset_peak()
        full, _ = tracemalloc.get_traced_memory()
        stream(16 * n_max, n_owners)
        grown = tracemalloc.get_traced_memory()[1] - full
    finally:
        tracemalloc.stop()
    assert len(state) == 2 * n_max
    assert len(state.rows.values) == n_slots <= 4 * n_max
    assert grown < 1_000 * n_max  # a table's dicts are made anew now and then; all 20,000 owners would take 10 MB


@dataclass
class Event:
    kind: str
    owner: str
    now_s: int
    target: int


@st.composite
def logs(draw: st.DrawFn, n_max: int = 25, steps_s: tuple[int, ...] = (0, 1, 100, 300, 301, 5_000),
         owners: str = "ab") -> list[Event]:
    """A log in time order: admissions, and ends or withdrawals of those that still run."""
    events: list[Event] = []
    running: list[int] = []
    now_s = draw(st.integers(-1_000, 1_000))
    for number in range(draw(st.integers(1, n_max))):
        now_s += draw(st.sampled_from(steps_s))
        kind = draw(st.sampled_from(["admit", "admit", "end", "withdraw"]))
        if kind == "admit" or not running:
            events.append(Event("admit", draw(st.sampled_from(owners)), now_s, number))
            running.append(number)
        else:
            target = running.pop(draw(st.integers(0, len(running) - 1)))
            events.append(Event(kind, events[target].owner, now_s, target))
    return events


def replay(events: list[Event], state: HistoryState | None = None) -> tuple[HistoryState, dict[int, Receipt]]:
    """A state that has seen the events, and the receipts of what still runs."""
    state = HistoryState(DEFINITION) if state is None else state
    admissions: dict[int, Receipt] = {}
    for event in events:
        if event.kind == "admit":
            admissions[event.target] = state.admit(((event.owner,), (ZONES.get(event.owner, "z"),)), event.now_s)
        elif event.kind == "end":
            state.ended(admissions.pop(event.target), event.now_s)
        else:
            state.withdraw(admissions.pop(event.target))
    return state, admissions


def seen(state: HistoryState, now_s: int, owners: str = "ab") -> bytes:
    """All features of the owners at a moment, as bits."""
    return np.array([state.features(((owner,), (ZONES.get(owner, "z"),)), now_s) for owner in owners]).tobytes()


def naive_owner(events: list[Event], owner: str, now_s: int) -> list[float]:
    """The slow twin of an owner's features: counted from the log, withdrawn admissions left out."""
    withdrawn = {event.target for event in events if event.kind == "withdraw"}
    ended = {event.target: event.now_s for event in events if event.kind == "end"}
    mine = [event for event in events
            if event.kind == "admit" and event.owner == owner and event.target not in withdrawn]
    running = [event.now_s for event in mine if event.target not in ended]
    lifetimes = [math.log10(max(event.now_s - events[event.target].now_s, 1)) for event in events
                 if event.kind == "end" and event.owner == owner]
    batch, time_s = 0, now_s
    for event in reversed(mine):
        if time_s - event.now_s > DEFINITION.batch_gap_s:
            break
        batch, time_s = batch + 1, event.now_s
    recent = lifetimes[-DEFINITION.window:]
    n = len(recent)
    mean = sum(recent) / n if n else math.nan
    log10 = math.log10
    return [
        math.log1p(min(len(mine), DEFINITION.window)), math.log1p(len(running)),
        log10(max(now_s - running[0], 1)) if running else math.nan,
        log10(max(now_s - sum(running) / len(running), 1.0)) if running else math.nan,
        log10(max(now_s - mine[-1].now_s, 1)) if mine else math.nan,
        math.log1p(batch), math.log1p(n), mean,
        math.sqrt(sum((value - mean) ** 2 for value in recent) / n) if n else math.nan,
        recent[-1] if n else math.nan, (recent[-1] + recent[-2]) / 2 if n > 1 else recent[-1] if n else math.nan,
        max(recent) if n else math.nan,
        *(sum(value >= log10(bound) for value in recent) / n if n else math.nan for bound in (3600, 86400, 604800)),
    ]  # fmt: skip


@given(logs(), st.sampled_from([0, 50, 300, 301, 4_000]))
@settings(deadline=None, max_examples=100)
def test_features_equal_the_slow_twin(events: list[Event], later_s: int) -> None:
    state, _ = replay(events)
    now_s = events[-1].now_s + later_s
    for owner in "ab":
        found = state.features(((owner,), None), now_s)[:len(OWNER_FEATURES)]
        np.testing.assert_allclose(found, naive_owner(events, owner, now_s), rtol=1e-12, atol=1e-15)


@given(logs(n_max=80, steps_s=(0, 100, 150, 200, 300)))
@settings(deadline=None, max_examples=100)
def test_unbroken_batches_equal_the_slow_twin(events: list[Event]) -> None:
    """Batches that hardly ever pause, parted and joined again by withdrawals."""
    state, _ = replay(events)
    for owner in "ab":
        found = state.features(((owner,), None), events[-1].now_s)[:len(OWNER_FEATURES)]
        np.testing.assert_allclose(found, naive_owner(events, owner, events[-1].now_s), rtol=1e-12, atol=1e-15)


@given(st.one_of(logs(), logs(n_max=80, steps_s=(0, 100, 150, 200, 300))), st.sampled_from([0, 300, 4_000]))
@settings(deadline=None, max_examples=100)
def test_a_withdrawn_admission_never_was(events: list[Event], later_s: int) -> None:
    withdrawn = {event.target for event in events if event.kind == "withdraw"}
    state, _ = replay(events)
    without, _ = replay([event for event in events if event.target not in withdrawn])
    assert seen(state, events[-1].now_s + later_s) == seen(without, events[-1].now_s + later_s)


@given(logs(), logs())
@settings(deadline=None, max_examples=100)
def test_a_restored_state_goes_on_to_the_bit(events: list[Event], more: list[Event]) -> None:
    state, running = replay(events)
    arrays = state.to_arrays()
    restored = HistoryState.from_arrays(DEFINITION, arrays)
    assert {name: array.tobytes() for name, array in restored.to_arrays().items()} == {
        name: array.tobytes() for name, array in arrays.items()}
    again = {target: restored.admit(receipt.keys, receipt.arrival_s)
             for target, receipt in sorted(running.items(), key=lambda pair: pair[1].arrival_s)}
    now_s = events[-1].now_s
    assert seen(restored, now_s) == seen(state, now_s)
    for target in running:
        state.ended(running[target], now_s)
        restored.ended(again[target], now_s)
    shift_s = now_s - more[0].now_s
    later = [Event(event.kind, event.owner, event.now_s + shift_s, event.target) for event in more]
    replay(later, state)
    replay(later, restored)
    assert seen(restored, later[-1].now_s) == seen(state, later[-1].now_s)


def whole(state: HistoryState, n_admitted: int | None = None) -> HistoryState:
    """The state that goes through arrays with all that runs."""
    cut = state.cut()
    state.release()
    return whole_history(state.definition, cut.n_admitted if n_admitted is None else n_admitted, whole_arrays(cut))


def in_bytes(state: HistoryState) -> dict[str, bytes]:
    cut = state.cut()
    state.release()
    return {name: array.tobytes() for name, array in whole_arrays(cut).items()}


SMALL = HistoryDefinition(DEFINITION.keys, window=3, category_memory=4, prior_strength=2.0, n_keys_max=2)


@given(logs(n_max=40, owners="abcd"), logs(n_max=40, owners="abcd"), st.sampled_from([DEFINITION, SMALL]))
@settings(deadline=None, max_examples=100)
def test_a_state_read_whole_goes_on_to_the_bit(events: list[Event], more: list[Event],
                                               definition: HistoryDefinition) -> None:
    """What runs included: its ends, its withdrawals and the evictions that follow are those of the one left alone."""
    state, running = replay(events, HistoryState(definition))
    copy = whole(state)
    assert in_bytes(copy) == in_bytes(state)
    shift_s = events[-1].now_s - more[0].now_s
    later = [Event(event.kind, event.owner, event.now_s + shift_s, event.target) for event in more]
    for each in (state, copy):
        left = dict(running)
        for number, target in enumerate(sorted(left)):
            if number % 3 == 0:
                each.withdraw(left.pop(target))
            elif number % 3 == 1:
                each.ended(left.pop(target), events[-1].now_s)
        replay(later, each)
        for receipt in left.values():
            each.withdraw(receipt)
    assert seen(copy, later[-1].now_s, "abcd") == seen(state, later[-1].now_s, "abcd")
    assert in_bytes(copy) == in_bytes(state)
    assert [list(owners) for owners in copy._owners] == [list(owners) for owners in state._owners]
    assert [list(names) for names in copy._categories] == [list(names) for names in state._categories]


@given(logs(n_max=40, owners="abcd"), logs(n_max=40, owners="abcd"), st.sampled_from([DEFINITION, SMALL]))
@settings(deadline=None, max_examples=100)
def test_a_cut_stays_as_it_was(events: list[Event], more: list[Event], definition: HistoryDefinition) -> None:
    """Whatever happens between the cut and its reading, and however often it does."""
    state, running = replay(events, HistoryState(definition))
    expected = in_bytes(state)
    for _ in range(2):
        expected = in_bytes(state)
        cut = state.cut()
        shift_s = events[-1].now_s - more[0].now_s
        replay([Event(event.kind, event.owner, event.now_s + shift_s, event.target) for event in more], state)
        for target in list(running)[:3]:
            state.withdraw(running.pop(target))
        assert {name: array.tobytes() for name, array in whole_arrays(cut).items()} == expected
        state.release()


def damaged(arrays: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """The arrays with one of them left out, reshaped, of another type, or one of its numbers another."""
    for name, array in arrays.items():
        yield {other: arrays[other] for other in arrays if other != name}
        other_type = np.int64 if array.dtype == np.float64 else np.float64
        changes = [array[:0], array[:-1], np.concatenate([array, array[-1:]]), array.astype(other_type), array[None, :]]
        for at in range(array.size):
            for value in (-1, 0, 1, 7, 2**53, 2**62, -2**63) if array.dtype == np.int64 else (0, 1, 200):
                changed = array.copy()
                changed.flat[at] = value
                changes.append(changed)
        yield from (arrays | {name: changed} for changed in changes)


def test_arrays_of_a_whole_state_that_do_not_fit_are_refused_or_answered() -> None:
    """Whoever changes a number gets an error, or a state that answers and takes more; never another exception."""
    state, _ = replay([Event("admit", "a", 0, 0), Event("admit", "a", 9_000, 1), Event("admit", "b", 9_100, 2),
                       Event("admit", "a", 9_200, 3), Event("end", "a", 9_300, 1), Event("admit", "a", 9_400, 5),
                       Event("end", "b", 9_500, 2), Event("admit", "a", 20_000, 7)])
    cut = state.cut()
    state.release()
    n_refused = n_all = 0
    for arrays in damaged(whole_arrays(cut)):
        n_all += 1
        try:
            other = whole_history(DEFINITION, cut.n_admitted, arrays)
        except (ValueError, KeyError):
            n_refused += 1
            continue
        seen(other, 30_000)
        for owner in "ab":
            other.withdraw(other.admit(((owner,), ("z",)), 20_100))
            other.ended(other.admit(((owner,), ("z",)), 20_200), 20_300)
        for number in range(cut.n_admitted):
            other.ended(Receipt(0, number, ANN, 0), 20_400)
        in_bytes(other)
    assert n_refused > 0.4 * n_all


def test_any_text_is_a_name() -> None:
    state = HistoryState(DEFINITION)
    names = ["", "é", "a\0b", "\udcff", "x" * 1_000]
    for name in names:
        state.ended(state.admit(((name,), (name,)), 0), 50)
    restored = HistoryState.from_arrays(DEFINITION, state.to_arrays())
    assert all(is_known(restored, idx, (name,)) for name in names for idx in (0, 1))


@pytest.mark.parametrize(("name", "change"), [
    ("overall", lambda array: array * np.nan),
    ("overall", lambda array: array[:1]),
    ("0:ended_n", lambda array: array - array),
    ("0:ended_n", lambda array: array.astype(np.float64)),
    ("0:last", lambda array: array[:0]),
    ("0:group_n", lambda array: array + 1),
    ("0:group", lambda array: array[:, :2]),
    ("0:group", lambda array: array + 1),  # after the latest that ended
    ("0:group", lambda array: array - np.array([0, 9, 0])),  # one request that arrived twice
    ("0:group", lambda array: array + np.array([0, 9, 0])),  # earliest after latest
    ("0:group", lambda array: array - np.array([0, 0, 1])),
    ("0:group", lambda array: array + np.array([0, 0, 1])),  # more than ended
    ("0:recent_n", lambda array: array + 1),
    ("0:recent", lambda array: array * np.inf),
    ("0:length", lambda array: array + 1),
    ("0:length", lambda array: array.reshape(1, -1)),
    ("0:text", lambda array: array[:0]),
    ("1:moments", lambda array: -array),
    ("1:moments", lambda array: array.reshape(-1)),
])  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(name: str, change: object) -> None:
    state = HistoryState(DEFINITION)
    state.ended(state.admit(ANN, 0), 50)
    arrays = state.to_arrays()
    arrays[name] = change(arrays[name])  # type: ignore[operator]
    with pytest.raises(ValueError):
        HistoryState.from_arrays(DEFINITION, arrays)


def test_groups_that_belong_together_are_refused() -> None:
    state = HistoryState(DEFINITION)
    receipts = [state.admit(ANN, now_s) for now_s in (0, 300, 600)]
    state.ended(receipts[0], 700)
    state.ended(receipts[2], 700)
    arrays = state.to_arrays()
    assert arrays["0:group"].tolist() == [[0, 0, 1], [600, 600, 1]]
    HistoryState.from_arrays(DEFINITION, arrays)
    for group in ([[300, 300, 1], [600, 600, 1]], [[600, 600, 1], [600, 600, 1]], [[900, 900, 1], [600, 600, 1]]):
        with pytest.raises(ValueError, match="of groups apart, in order"):
            HistoryState.from_arrays(DEFINITION, arrays | {"0:group": np.array(group)})


def test_more_values_than_the_bound_are_refused() -> None:
    state = HistoryState(DEFINITION)
    for name in "ab":
        state.ended(state.admit(((name,), (name,)), 0), 50)
    for keys in (DEFINITION.keys[:1], DEFINITION.keys[1:]):
        arrays = {"overall": state.to_arrays()["overall"]}
        idx = DEFINITION.keys.index(keys[0])
        arrays |= {f"0:{name.split(':')[1]}": array for name, array in state.to_arrays().items()
                   if name.startswith(f"{idx}:")}
        assert len(HistoryState.from_arrays(HistoryDefinition(keys, window=3), arrays)) == 2
        with pytest.raises(ValueError, match="must have at most 1 values, got 2"):
            HistoryState.from_arrays(HistoryDefinition(keys, window=3, n_keys_max=1), arrays)


def test_missing_and_doubled_names_are_refused() -> None:
    state = HistoryState(DEFINITION)
    for name in "ab":
        state.ended(state.admit(((name,), (name,)), 0), 50)
    arrays = state.to_arrays()
    with pytest.raises(KeyError):
        HistoryState.from_arrays(DEFINITION, {name: array for name, array in arrays.items() if name != "0:last"})
    arrays["0:text"] = np.frombuffer(b"aa", np.uint8)
    with pytest.raises(ValueError, match="0:text must name each key once"):
        HistoryState.from_arrays(DEFINITION, arrays)


@pytest.mark.parametrize(("field", "value"), [
    ("window", 0), ("window", 1.5), ("window", True), ("n_keys_max", "9"), ("category_memory", 0),
    ("batch_gap_s", -1), ("prior_strength", -1.0), ("prior_strength", math.nan), ("prior_strength", "20"),
])  # fmt: skip
def test_a_bad_definition_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{field} must be .*, got"):
        HistoryDefinition.from_dict(DEFINITION.as_dict() | {field: value})


def test_a_definition_survives_its_json_form() -> None:
    assert HistoryDefinition.from_dict(DEFINITION.as_dict()) == DEFINITION
    with pytest.raises(ValueError, match="kind must be owner or category, got 'other'"):
        HistoryKey("user", ("user",), "other")
    with pytest.raises(ValueError, match="at least one column"):
        HistoryKey("user", (), "owner")


@given(steps=st.lists(st.tuples(st.integers(0, 400), st.sampled_from(["admit", "admit", "end"]), st.integers(0, 9)),
                      min_size=1, max_size=40), n_lost=st.integers(1, 20))
@settings(deadline=None, max_examples=100)
def test_what_is_lost_is_withdrawn_at_once(steps: list[tuple[int, str, int]], n_lost: int) -> None:
    """Of two owners, whose batches (gap 300 s) go on or not: as if each had been withdrawn by itself."""
    definition = HistoryDefinition((HistoryKey("user", ("user",), "owner"),))
    at_once, one_by_one = HistoryState(definition), HistoryState(definition)
    running: list[tuple[Receipt, Receipt]] = []
    now_s = 0
    for after_s, what, place in steps:
        now_s += after_s
        if what == "admit":
            keys = ((f"u{place % 2}",),)
            running.append((at_once.admit(keys, now_s), one_by_one.admit(keys, now_s)))
        elif running:
            ended = running.pop(place % len(running))
            at_once.ended(ended[0], now_s)
            one_by_one.ended(ended[1], now_s)
    at_once.lose([each for each, _ in running[:n_lost]])
    for _, each in running[:n_lost]:
        one_by_one.withdraw(each)
    for keys in ((("u0",),), (("u1",),)):
        for later_s in (0, 1, 299, 300, 301):
            assert repr(at_once.features(keys, now_s + later_s)) == repr(one_by_one.features(keys, now_s + later_s))
        for state in (at_once, one_by_one):
            state.admit(keys, now_s + 250)  # the batch goes on alike
        assert repr(at_once.features(keys, now_s + 260)) == repr(one_by_one.features(keys, now_s + 260))
