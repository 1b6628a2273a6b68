"""A trace of two files: one clock, one history, and nothing of the later file in what is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.later_file import test_from_s as judged_from_s
from sojourn.features.later_file import with_later
from sojourn.features.split import Examples, Split, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.models import FitSettings
from sojourn.models.lifetime import HazardModel

ROLES = Roles(owners=("user",), categories=("zone",))
NAMES = ["request_id", "arrival_s", "departure_s", "user", "zone"]


def _trace(rows: Sequence[tuple[object, ...]], horizon_s: int, roles: Roles = ROLES, **meta: object) -> Trace:
    table = pd.DataFrame(rows, columns=NAMES).assign(cpu_cores=1.0, mem_gib=2.0)
    return Trace(table, horizon_s, roles, meta=meta)


PAST = [("a", 0, 30, "ann", "x"), ("b", 10, None, "ann", "x"), ("c", 20, None, "bob", "y")]


def _times(trace: Trace) -> dict[str, tuple[int, int, bool]]:
    """Start, end of observation and whether it ended, by id."""
    return dict(zip(trace.requests["request_id"],
                    zip(trace.start_s().tolist(), trace.end_s().tolist(), trace.is_event().tolist(), strict=True),
                    strict=True))


def test_a_request_of_both_files_is_one_and_an_unfollowed_one_is_censored_at_the_past_s_end() -> None:
    later = _trace([("b", -90, 40, "ann", "x"), ("c", 5, 9, "bob", "y"), ("d", 5, None, "cid", "y")], 60)
    joined, lines = with_later(_trace(PAST, 100), later, offset_s=100)
    # b runs on to 140; c began at another time, so that it is another request; the past's c is followed to 100 alone
    assert _times(joined) == {"a": (0, 30, True), "b": (10, 140, True), "c": (20, 100, False),
                              "test:c": (105, 109, True), "d": (105, 160, False)}
    assert joined.is_lost().tolist() == [False, False, True, False, False]
    assert (joined.horizon_s, judged_from_s(joined.meta)) == (160, 100)
    assert lines[1].endswith("1 followed in the test file by their id, 1 not")


@pytest.mark.parametrize(("same", "ids"), [
    (("b", None, 40, "ann", "x"), {"a", "b", "c"}),  # an unknown start, as where only what ran was listed
    (("b", -90, 40, "bob", "x"), {"a", "b", "c", "test:b"}),  # of another owner
    (("b", -89, 40, "ann", "x"), {"a", "b", "c", "test:b"}),  # of another start
])  # fmt: skip
def test_the_same_request_has_the_id_the_owner_and_the_start(same: tuple[object, ...], ids: set[str]) -> None:
    joined, _ = with_later(_trace(PAST, 100), _trace([same], 60), offset_s=100)
    assert set(joined.requests["request_id"]) == ids
    apart, _ = with_later(_trace(PAST, 100), _trace([same], 60), offset_s=100, file_ids=("request_id",))
    assert set(apart.requests["request_id"]) == {"a", "b", "c", "test:b"}


def test_what_began_before_enters_at_its_age_and_what_had_ended_is_left_out() -> None:
    rows = [(f"n{each}", 10 + each, 90, "ann", "x") for each in range(60)]
    later = _trace([("gone", -20, 0, "dan", "x"), ("ran", -30, 20, "dan", "x"), *rows], 200)
    joined, _ = with_later(_trace(PAST, 100), later, offset_s=100)
    assert "gone" not in set(joined.requests["request_id"])
    rows_of = build_rows(joined, default_encoder(joined))
    place = rows_of.idx_request.tolist().index(joined.requests["request_id"].tolist().index("ran"))
    assert (rows_of.arrival_s[place], rows_of.decided_s[place]) == (70, 100)
    # training windows need more requests than these few
    many = replace(joined, requests=pd.concat([joined.requests, joined.requests.iloc[[0] * 12].assign(
        request_id=[f"m{each}" for each in range(12)], arrival_s=range(30, 90, 5), departure_s=95)]))
    split = split_by_time(build_rows(many, default_encoder(many)), 0.3, 0.3, test_from_s=100)
    assert split.test.entry_s.max() == 30.0
    assert split.test.lifetime_s[np.argmax(split.test.entry_s)] == 50.0


def test_a_gap_between_the_files_is_not_observed() -> None:
    later = _trace([("ran", -300, 20, "dan", "x"), ("new", 5, 20, "dan", "x")], 60)
    joined, _ = with_later(_trace(PAST, 100), later, offset_s=1_000)
    rows = build_rows(joined, default_encoder(joined))
    assert dict(zip(rows.idx_request.tolist(), rows.decided_s.tolist(), strict=True))[3] == 1_000  # not asked at 700
    assert joined.meta["later_from_s"] == 1_000
    assert _times(joined)["b"] == (10, 100, False)


def test_owners_are_joined_and_numbers_of_one_file_are_kept_apart() -> None:
    batches = Roles(owners=("user",), categories=("zone",))
    later = _trace([("d", 5, 20, "ann", "x")], 60, batches)
    owners = [with_later(_trace(PAST, 100, batches), later, offset_s=100, file_ids=ids)[0].requests["user"].tolist()
              for ids in ((), ("user",))]
    assert owners == [["ann", "ann", "bob", "ann"], ["ann", "ann", "bob", "test:ann"]]
    joined = with_later(_trace(PAST, 100, batches), later, offset_s=100)[0]
    rows = build_rows(joined, default_encoder(joined))
    at = rows.names.index("user:last")
    assert rows.features[-1, at] == pytest.approx(np.log10(30.0))  # ann's request of the first file


@pytest.mark.parametrize(("users", "line"), [
    (("ann", "cid", "bob"), "requests of the test file whose user the trace knows: 2 of 3"),
    (("Ann", "cid", None), "check: requests of the test file whose user the trace knows: 0 of 2"),
])  # fmt: skip
def test_it_is_told_how_many_owners_are_known(users: tuple[str | None, ...], line: str) -> None:
    later = _trace([(f"d{k}", 5, 20, user, "x") for k, user in enumerate(users)], 60)
    assert with_later(_trace(PAST, 100), later, offset_s=100)[1][-1] == line


def test_owners_as_numbers_and_as_numbers_beside_missing_ones_are_the_same() -> None:
    past = _trace([(*row[:3], 7, "x") for row in PAST], 100)
    later = _trace([("d", 5, 20, 7.0, "x"), ("e", 6, 20, None, "x")], 60)
    users = with_later(past, later, offset_s=100)[0].requests["user"]
    assert users.astype(object).where(users.notna(), None).tolist() == ["7", "7", "7", "7", None]


def test_an_unfollowed_request_leaves_its_owner_s_history() -> None:
    later = _trace([("d", 5, 20, "bob", "y")], 60)
    joined, _ = with_later(_trace(PAST, 100), later, offset_s=100)
    rows = build_rows(joined, default_encoder(joined))
    stranger = build_rows(*(lambda trace: (trace, default_encoder(trace)))(
        with_later(_trace(PAST[:2], 100), later, offset_s=100)[0]))
    # bob's c was out of observation at 100: at 105 nothing runs of bob, as if c had not been
    np.testing.assert_array_equal(rows.features[-1], stranger.features[-1])


def test_dates_tell_the_clock_and_undated_files_need_an_offset() -> None:
    later = _trace([("d", 5, 20, "ann", "x")], 60).moved(1_150, 1_150)
    past = _trace(PAST, 100).moved(1_000, 1_000)
    joined, lines = with_later(past, later)
    assert _times(joined)["d"] == (1_155, 1_170, True)
    assert (joined.begin_s, judged_from_s(joined.meta), joined.meta["later_from_s"]) == (1_000, 1_100, 1_150)
    assert joined.horizon_s == 1_210 and lines[0].endswith("the test file begins at second 1,150")
    with pytest.raises(ValueError, match=r"both files are dated: their dates say 1,150, got 7"):
        with_later(past, later, offset_s=7)
    with pytest.raises(ValueError, match=r"where a file has no dates \(trace\), got none: --test-offset-s SECONDS"):
        with_later(_trace(PAST, 100), later)


@pytest.mark.parametrize(("is_past_dated", "begin_s"), [(True, 1_150), (False, 150)])
def test_an_offset_is_of_the_later_file_s_begin_on_the_trace_s_clock(is_past_dated: bool, begin_s: int) -> None:
    """One of the files is dated; without dates, both files give the same trace."""
    past, later = _trace(PAST, 100), _trace([("ran", -30, 20, "ann", "x"), ("d", 5, 20, "ann", "x")], 60)
    bare, _ = with_later(past, later, offset_s=150)
    joined, _ = (with_later(past.moved(1_000, 1_000), later, offset_s=begin_s) if is_past_dated
                 else with_later(past, later.moved(5_000, 5_000), offset_s=begin_s))
    assert joined.is_dated == is_past_dated
    pd.testing.assert_frame_equal(joined.since_begin().requests, bare.requests)
    assert joined.since_begin().meta == bare.meta and joined.span_s == bare.horizon_s == 210


def test_all_times_of_the_later_file_are_moved() -> None:
    """Also before the later file's begin: created at 100 + -20 and at 100 + 3 on the trace's clock."""
    past, later = _trace(PAST, 100), _trace([("ran", -30, 20, "ann", "x"), ("d", 5, 20, "ann", "x")], 60)
    past = Trace(past.requests.assign(creation_s=1), 100, past.roles)
    later = Trace(later.requests.assign(creation_s=[-20, 3]), 60, later.roles)
    table = with_later(past, later, offset_s=100)[0].requests.set_index("request_id")
    assert table.loc[["ran", "d"], "creation_s"].tolist() == [80, 103]


def test_bad_files_are_refused() -> None:
    past = _trace(PAST, 100)
    early = _trace([(f"n{each}", each, each + 30, "ann", "x") for each in range(40)], 90)
    with pytest.raises(ValueError, match=r"test must begin at the trace's end, second 100: .* got 75.0% \(30"):
        with_later(past, early, offset_s=70)
    allowed, _ = with_later(past, early, offset_s=70, is_overlap_allowed=True)
    assert len(allowed) > len(past)
    with pytest.raises(ValueError, match=r"test must end after the trace's end, second 100 .* got second 90"):
        with_later(past, early, offset_s=0)
    other = _trace([("d", 5, 20, "ann", "x")], 60)
    lacking = Trace(other.requests.drop(columns="zone"), 60, Roles(owners=("user",)))
    with pytest.raises(ValueError, match=r"test must .*, got none called 'zone'"):
        with_later(past, lacking, offset_s=100)


CUT_S = 14 * 86_400


@pytest.fixture(scope="module")
def files() -> tuple[Trace, Trace]:
    """Two files of one synthetic trace, each with what was known at its end."""
    whole = synthesize(1_500, seed=2).since_begin()
    start_s, end_s = whole.start_s(), whole.end_s()
    is_first = whole.is_start_known() & (start_s < CUT_S)
    first = whole.requests[is_first].copy()
    first["departure_s"] = first["departure_s"].where(first["departure_s"] <= CUT_S)
    second = whole.requests[whole.is_start_known() & (end_s > CUT_S)].copy()
    for name in ("arrival_s", "departure_s"):
        second[name] = second[name] - CUT_S
    return (Trace(first, CUT_S, whole.roles, meta=whole.meta),
            Trace(second, whole.horizon_s - CUT_S, whole.roles, meta=whole.meta))


def _split(past: Trace, later: Trace) -> tuple[Split, tuple[str, ...]]:
    joined, _ = with_later(past, later, offset_s=CUT_S)
    rows = build_rows(joined, default_encoder(joined))
    return split_by_time(rows, test_from_s=judged_from_s(joined.meta)), rows.names


def _other_outcomes(later: Trace, case: str) -> Trace:
    rng = np.random.default_rng(0)
    requests = later.requests.copy()
    ended = requests["departure_s"].notna().to_numpy()
    if case == "shuffled ends":
        lifetime_s = np.where(ended, later.lifetime_s(), rng.permutation(later.lifetime_s()))
        room_s = later.horizon_s - np.maximum(later.start_s(), 0)
        requests.loc[ended, "departure_s"] = (np.maximum(later.start_s(), 0)
                                              + rng.permutation(lifetime_s) % np.maximum(room_s, 1))[ended]
    elif case == "none ended":
        requests["departure_s"] = pd.array([pd.NA] * len(requests), "Int64")
    else:  # none of the past's requests, other owners, other sizes
        requests = requests[requests["arrival_s"] >= 0].assign(mem_gib=77.0)
        requests[later.roles.owners[0]] = "nobody"
    return Trace(requests, later.horizon_s, later.roles, meta=later.meta)


def _same(one: Examples, other: Examples) -> None:
    np.testing.assert_array_equal(one.features, other.features)
    for name in ("lifetime_s", "is_event", "entry_s", "arrival_s", "idx_row"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_nothing_of_the_later_file_reaches_the_fit(files: tuple[Trace, Trace]) -> None:
    past, later = files
    split, names = _split(past, later)
    settings = FitSettings(n_threads=1, params={"num_leaves": 7, "learning_rate": 0.3}, names=names)
    texts = set()
    for case in ("shuffled ends", "none ended", "other requests"):
        other, _ = _split(past, _other_outcomes(later, case))
        for window in ("train", "valid", "past"):
            _same(getattr(split, window), getattr(other, window))
        assert not (np.array_equal(split.test.lifetime_s, other.test.lifetime_s)
                    and np.array_equal(split.test.features, other.test.features)), case
    for each in (split, other):  # all windows of the others are these ones
        exported = HazardModel().fit(each.train, each.valid, each.past, settings).export()
        assert exported is not None
        texts.add(exported.text)
    assert len(texts) == 1


def test_the_windows_are_those_of_the_first_file_alone(files: tuple[Trace, Trace]) -> None:
    past, later = files
    split, _ = _split(past, later)
    rows = build_rows(past, default_encoder(past))
    assert len(split.past) == len(rows)
    np.testing.assert_array_equal(split.past.features, rows.features)
    np.testing.assert_array_equal(split.past.lifetime_s, np.maximum(rows.lifetime_s, 1))
    np.testing.assert_array_equal(split.past.is_event, rows.is_event)
