"""Running requests predicted anew: the replay's own bits, what is refused, and what outlives a restart or a reload."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_bundles import Made, publish, refreshing, rewrite, rewrite_schema
from sojourn.features.refreshed import refreshed_rows
from sojourn.models.bundle_writer import table_of
from sojourn.serving import BundleError, CurvePool, HostExits, Lifetime, Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder, RefreshedLifetime, curve_builder

AGES_S = (600, 3_600)
UPTIMES_S = (3_600.0, 86_400.5, 1e6)


@pytest.fixture(scope="module")
def folder(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return refreshing(made, tmp_path_factory.mktemp("refreshing") / "bundle", AGES_S)


@pytest.fixture
def predictor(folder: Path) -> Predictor:
    return Predictor.load(folder, is_history_kept=False)


def _replayed(made: Made, predictor: Predictor) -> tuple[list[Lifetime], list[tuple[int, int]]]:
    """Handles of all refreshes of a trace in live calls, and of which row and age each is."""
    rows = made.rows
    end_s = rows.arrival_s + rows.lifetime_s
    events = [(int(end_s[idx]), 0, idx, 0) for idx in np.flatnonzero(rows.is_event).tolist()]
    events += [(int(rows.decided_s[idx]), 2, idx, 0) for idx in range(len(rows))]
    events += [(int(rows.arrival_s[idx]) + age_s, 1, idx, age_s) for idx in range(len(rows)) for age_s in AGES_S
               if rows.arrival_s[idx] + age_s < end_s[idx] and rows.arrival_s[idx] + age_s > rows.decided_s[idx]]
    admitted: dict[int, Lifetime] = {}
    refreshed, asked = [], []
    for now_s, what, idx, age_s in sorted(events):
        if what == 0:
            predictor.ended(admitted[idx], now_s, arrival_s=int(rows.arrival_s[idx]))
        elif what == 1:
            refreshed.append(predictor.refresh(admitted[idx], now_s))
            asked.append((idx, age_s))
        else:
            admitted[idx] = predictor.admit(made.request(idx), now_s)
    return refreshed, asked


@pytest.mark.parametrize("is_compiled", [True, False])
def test_live_refreshes_have_the_bits_of_the_replay(made: Made, folder: Path, is_compiled: bool,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_compiled:
        monkeypatch.setattr(curve_builder, "NATIVE", None)
    predictor = Predictor.load(folder, is_history_kept=False)
    handles, asked = _replayed(made, predictor)
    rows = refreshed_rows(made.trace, made.encoder, made.rows, AGES_S)
    places = {(int(row), int(age_s)): k for k, (row, age_s) in enumerate(zip(rows.idx_row, rows.age_s, strict=True))}
    at = [places[one] for one in asked]
    assert len(at) == len(rows) > 100
    assert np.array([vm.features for vm in handles]).tobytes() == rows.features[at].tobytes()
    refresh = load_bundle(folder).refresh
    assert refresh is not None
    table = table_of(refresh.schema, CurveBuilder(refresh.schema, refresh.model).forest, rows.features[at])
    for uptime_s in UPTIMES_S:
        assert table.remaining(uptime_s).tolist() == [vm.remaining(uptime_s) for vm in handles]
        assert table.quantile(0.9, uptime_s).tolist() == [vm.quantile(0.9, uptime_s) for vm in handles]


def _running(made: Made, predictor: Predictor) -> Lifetime:
    """A request whose sibling, of the same owner and moment, has ended since."""
    vm, sibling = (predictor.admit(made.request(0), 1_000) for _ in range(2))
    predictor.ended(sibling, 1_500)
    return vm


def test_a_refreshed_handle_names_the_same_admission_and_knows_what_happened(made: Made, predictor: Predictor) -> None:
    vm = _running(made, predictor)
    fresh = predictor.refresh(vm, 1_600)
    assert isinstance(fresh, RefreshedLifetime) and fresh.refreshed_s == 1_600
    assert (fresh.id, fresh.arrival_s, fresh.version) == (vm.id, vm.arrival_s, vm.version)
    names = made.encoder.feature_names()
    ended = next(idx for idx, name in enumerate(names) if name.endswith(":ended"))
    assert (vm.features[ended], fresh.features[ended]) == (0.0, math.log1p(1))
    assert fresh.curve != vm.curve and fresh.not_seen == ()
    assert predictor.handle(str(vm.id)).curve == fresh.curve
    assert predictor.counters["refreshes"] == 1
    predictor.ended(vm, 1_700)
    with pytest.raises(ValueError, match="neither ended nor withdrawn"):
        predictor.refresh(fresh, 1_800)


def test_before_the_first_age_and_without_a_model_the_handle_stays_what_it_is(made: Made, predictor: Predictor) -> None:
    plain = Predictor.load(made.folders["hazard"], is_history_kept=False)
    for one, now_s in ((predictor, 1_599), (plain, 9_000)):
        vm = _running(made, one)
        again = one.refresh(vm, now_s)
        assert (again.curve, type(again)) == (vm.curve, Lifetime)
        np.testing.assert_array_equal(again.features, vm.features)
        assert one.counters["refreshes"] == 0
    assert plain.next_refresh(0.0) == math.inf and plain.info()["refresh_ages_s"] == []


def test_next_refresh_names_the_ages_that_gained(predictor: Predictor) -> None:
    asked = (0, 599.5, 600, 3_599, 3_600, 1e9)
    assert [predictor.next_refresh(uptime_s) for uptime_s in asked] == [600, 600, 3_600, 3_600, math.inf, math.inf]
    assert predictor.info()["refresh_ages_s"] == [600, 3_600]
    with pytest.raises(ValueError, match="uptime_s"):
        predictor.next_refresh(-1.0)


@pytest.mark.parametrize(("vm", "now_s", "arrival_s", "message"), [
    (None, 999, None, "now_s must be >= the arrival 1000, got 999"),
    (None, 2_000, 999, "arrival_s must be >= the admission 1000, got 999"),
    (None, 2_000, 2_001, "now_s must be >= the arrival 2001, got 2000"),
    (None, "2000", None, "now_s must be"),
    (None, 10**12, None, "now_s must be seconds on the own clock of the training trace"),
    ("0000000000000000-0", 2_000, None, "vm must be admitted by this predictor"),
    ("nothing", 2_000, None, "vm must be a Lifetime or the id of one"),
])  # fmt: skip
def test_what_cannot_be_refreshed_is_refused_and_changes_nothing(made: Made, predictor: Predictor, vm: Any, now_s: Any,
                                                                 arrival_s: int | None, message: str) -> None:
    own = _running(made, predictor)
    with pytest.raises(ValueError, match=message):
        predictor.refresh(own if vm is None else vm, now_s, arrival_s=arrival_s)
    assert predictor.counters["refreshes"] == 0 and predictor.counters["errors"] == 1
    assert predictor.handle(str(own.id)).curve == own.curve


def test_a_wait_in_a_queue_is_no_age(made: Made, predictor: Predictor) -> None:
    vm = _running(made, predictor)
    assert type(predictor.refresh(vm, 2_000, arrival_s=1_900)) is Lifetime
    assert type(predictor.refresh(vm, 2_000)) is RefreshedLifetime


def test_a_clock_set_back_is_taken_as_it_is(made: Made, predictor: Predictor) -> None:
    vm = _running(made, predictor)
    later, earlier = predictor.refresh(vm, 9_000), predictor.refresh(vm, 5_000)
    assert earlier.features != later.features
    assert predictor.handle(str(vm.id)).features == earlier.features


def test_a_snapshot_keeps_the_latest_prediction(made: Made, folder: Path, tmp_path: Path) -> None:
    predictor = Predictor.load(folder, is_history_kept=False)
    vm, held = _running(made, predictor), predictor.admit(made.request(3), 1_550)
    fresh = predictor.refresh(vm, 1_700)
    predictor.snapshot(tmp_path / "kept")
    again = Predictor.load(folder, history=tmp_path / "kept")
    handle = again.handle(str(vm.id))
    assert isinstance(handle, RefreshedLifetime)
    assert (handle.curve, handle.refreshed_s) == (fresh.curve, 1_700)
    np.testing.assert_array_equal(handle.features, fresh.features)
    assert again.handle(str(held.id)).curve == held.curve
    assert again.refresh(vm, 5_000).curve == predictor.refresh(vm, 5_000).curve
    again.snapshot(tmp_path / "kept")
    assert Predictor.load(folder, history=tmp_path / "kept").handle(str(vm.id)).curve == again.handle(str(vm.id)).curve


def test_after_a_reload_a_handle_is_of_the_version_that_is_served(made: Made, folder: Path, tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    publish(folder, live)
    predictor = Predictor.load(live, is_history_kept=False)
    vm = _running(made, predictor)
    fresh = predictor.refresh(vm, 1_700)
    publish(refreshing(made, tmp_path / "other", (600,)), live)
    predictor.reload()
    again = predictor.handle(str(vm.id))
    assert isinstance(again, RefreshedLifetime) and again.curve == fresh.curve and again.version != fresh.version
    publish(made.folders["hazard"], live)
    predictor.reload()
    plain = predictor.handle(str(vm.id))
    assert type(plain) is Lifetime and plain.curve == vm.curve


def test_pool_and_hosts_take_a_refreshed_curve_beside_others(made: Made, predictor: Predictor) -> None:
    vm = _running(made, predictor)
    fresh = predictor.refresh(vm, 1_700)
    pool, exits = CurvePool(), HostExits(1)
    slots = [pool.add(vm), pool.add(fresh)]
    assert pool.remaining(slots, [700.0, 700.0]).tolist() == [vm.remaining(700.0), fresh.remaining(700.0)]
    exits.place(0, vm)
    held_s = float(exits.at(1_700)[0])
    exits.leave(vm)
    exits.place(0, fresh)
    assert float(exits.at(1_700)[0]) != held_s


def test_a_refreshed_handle_is_explained_by_its_own_model(made: Made, predictor: Predictor) -> None:
    vm = _running(made, predictor)
    fresh = predictor.refresh(vm, 1_700)
    assert predictor.explain(fresh).answer == pytest.approx(math.log10(fresh.quantile(0.5, 700.0)), abs=0.01)
    assert predictor.explain(vm).answer == pytest.approx(math.log10(vm.quantile(0.5, 0.0)), abs=0.01)


@pytest.mark.parametrize("change", [
    lambda s: s.update(refresh=[1]), lambda s: s["refresh"].pop("edges"), lambda s: s["refresh"].update(ages_s=[]),
    lambda s: s["refresh"].update(ages_s=[600, 600]), lambda s: s["refresh"].update(ages_s=[0]),
    lambda s: s["refresh"].update(ages_s=[1.5]), lambda s: s["refresh"].update(kind="other"),
    lambda s: s["refresh"].update(features=["x"]), lambda s: s["refresh"].pop("ages_s"),
])  # fmt: skip
def test_a_bad_section_is_refused(made: Made, tmp_path: Path, change: Any) -> None:
    bad = refreshing(made, tmp_path / "bad")
    rewrite_schema(bad, change)
    with pytest.raises(BundleError, match=r"schema\.json"):
        Predictor.load(bad)


def test_a_section_without_its_model_is_refused(made: Made, tmp_path: Path) -> None:
    bad = refreshing(made, tmp_path / "bad")
    rewrite(bad, "history.npz", (made.folders["hazard"] / "history.npz").read_bytes())
    with pytest.raises(BundleError, match="refresh:model"):
        Predictor.load(bad)
