"""Requests and clocks that no training trace had: each a defined answer, which is a survival curve, or a refusal.

No history, an owner's first request, no limit, limits shorter than the run, clocks that jump by years.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_bundles import Made, refreshing
from made_curves import check_curve
from sojourn.serving import Lifetime, Predictor
from sojourn.serving.answers import REACH_S, RefreshedLifetime
from sojourn.serving.curves import curve_steps
from sojourn.serving.live import recalibration

YEAR_S = 31_557_600
NOW_S = 10**7
KINDS = ("hazard", "hazard-limit", "uptime", "once")
LIMITS_S: tuple[float | None, ...] = (None, math.nan, 0.0, -5.0, 1.0, 59.0, 60.0, 1e6, 1e300)
"""Of these 60 and a million are limits; the others are read as none."""


@pytest.fixture(scope="module")
def folders(made: Made, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {**made.folders, "refreshing": refreshing(made, tmp_path_factory.mktemp("refreshing") / "bundle")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("now_s", [0, -20 * YEAR_S, -2**53 + 1, 15 * YEAR_S])
def test_without_a_history_and_at_any_time_the_answer_is_a_curve(made: Made, kind: str, now_s: int) -> None:
    empty, full = (Predictor.load(made.folders[kind], is_history_kept=is_kept) for is_kept in (False, True))
    for predictor in (empty, full):
        for request in ({}, made.request(0), {"subscription": "nobody"}):
            check_curve(predictor.predict(request, now_s))
    unseen = empty.predict(made.request(0), now_s).not_seen
    assert unseen == tuple(key.name for key in made.encoder.history.keys)
    assert full.predict({**made.request(0), "subscription": "nobody"}, now_s).not_seen


@pytest.mark.parametrize("kind", KINDS)
def test_an_owners_first_request_is_named_and_its_end_is_known_to_the_second(made: Made, kind: str) -> None:
    predictor = Predictor.load(made.folders[kind], is_history_kept=False)
    request = {**made.request(0), "subscription": "new"}
    names = made.encoder.feature_names()
    last = names.index("subscription:last")
    first = predictor.admit(request, NOW_S)
    check_curve(first)
    assert "subscription" in first.not_seen and math.isnan(first.features[last])
    beside = predictor.admit(request, NOW_S)  # the first one runs: the owner is known, its lifetimes are not
    assert "subscription" not in beside.not_seen and math.isnan(beside.features[last])
    predictor.ended(first, NOW_S)  # within its own second: it counts as one second
    after = predictor.admit(request, NOW_S)
    assert after.features[last] == 0.0
    check_curve(after)


@pytest.mark.parametrize("limit_s", LIMITS_S)
def test_a_limit_of_any_size_gives_a_curve_long_after_it(made: Made, limit_s: float | None) -> None:
    """A request that outlived its limit by years, and one whose limit is none."""
    predictor = Predictor.load(made.folders["hazard-limit"])
    vm = predictor.predict({**made.request(0), "requested_s": limit_s}, NOW_S)
    check_curve(vm)
    plain = predictor.predict({**made.request(0), "requested_s": None}, NOW_S)
    own, without = curve_steps(vm.curve)[0], curve_steps(plain.curve)[0]  # type: ignore[arg-type]
    assert (own.tolist() == without.tolist()) == (limit_s not in (60.0, 1e6))
    assert vm.remaining(30.0 * 1e6) > 0.0  # longer than 20 limits: the tail


@pytest.mark.parametrize("kind", ["hazard", "hazard-limit", "refreshing"])
@pytest.mark.parametrize("is_recalibrated", [False, True])
def test_clocks_that_jump_give_curves_or_refusals_that_name_the_time(
        made: Made, folders: dict[str, Path], kind: str, is_recalibrated: bool,
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Between admissions, ends, refreshes and questions `now_s` jumps by up to 18 years, forwards and back."""
    monkeypatch.setattr(recalibration, "N_ENDS_COUNTED", 4)
    predictor = Predictor.load(folders[kind], recalibrate=is_recalibrated)
    rng = np.random.default_rng(3)
    running: list[Lifetime] = []
    refused, n_answers, now_s = [], 0, NOW_S
    for _ in range(250):
        if rng.random() < 0.15:
            now_s = int(rng.choice([NOW_S, -15 * YEAR_S, 18 * YEAR_S, NOW_S + 3_600, 0]))
        now_s += int(rng.integers(0, 2_000))
        act = rng.integers(4) if running else 0
        idx = int(rng.integers(len(running))) if running else -1
        try:
            if act == 0:
                running.append(predictor.admit(made.request(int(rng.integers(500))), now_s))
            elif act == 1:
                predictor.ended(running[idx], now_s)
                del running[idx]
            elif act == 2:
                check_curve(predictor.refresh(running[idx], now_s))
                n_answers += 1
            else:
                check_curve(predictor.predict(made.request(int(rng.integers(500))), now_s))
                n_answers += 1
        except ValueError as error:
            refused.append((str(error), running[idx].arrival_s, now_s))
    assert n_answers > 50 and len(refused) > 20
    for message, arrival_s, at_s in refused:
        assert message == f"now_s must be >= the arrival {arrival_s}, got {at_s}"
        assert at_s < arrival_s
    assert predictor.counters["errors"] == len(refused) and len(predictor.running()) == len(running)
    for vm in running:
        check_curve(predictor.handle(str(vm.id)))


@pytest.mark.parametrize("call", ["admit", "predict", "refresh", "remaining_many"])
def test_more_than_20_years_after_the_trace_is_refused_by_every_call_that_asks_the_model(
        made: Made, folders: dict[str, Path], call: str) -> None:
    predictor = Predictor.load(folders["refreshing"])
    vm = predictor.admit(made.request(0), NOW_S)
    latest_s = made.trace.horizon_s + REACH_S
    asks: dict[str, Any] = {
        "admit": lambda now_s: predictor.admit(made.request(0), now_s),
        "predict": lambda now_s: predictor.predict(made.request(0), now_s),
        "refresh": lambda now_s: predictor.refresh(vm, now_s),
        "remaining_many": lambda now_s: predictor.remaining_many([made.request(0)], [0.0], now_s)}
    asks[call](latest_s)
    with pytest.raises(ValueError, match=rf"now_s must be seconds on the own clock of the training trace, which has no "
                                         rf"dates and ends at {made.trace.horizon_s}; got {latest_s + 1}"):
        asks[call](latest_s + 1)


def test_a_refresh_after_years_and_back_is_of_the_age_that_is_told(made: Made, folders: dict[str, Path]) -> None:
    predictor = Predictor.load(folders["refreshing"], is_history_kept=False)
    vm = predictor.admit(made.request(0), NOW_S)
    late = predictor.refresh(vm, NOW_S + 15 * YEAR_S)
    back = predictor.refresh(vm, NOW_S + 700)
    assert isinstance(late, RefreshedLifetime) and isinstance(back, RefreshedLifetime)
    assert (late.refreshed_s, back.refreshed_s) == (NOW_S + 15 * YEAR_S, NOW_S + 700)
    for one in (late, back):
        check_curve(one)
    assert predictor.handle(str(vm.id)).curve == back.curve  # the latest call, not the latest time
    assert predictor.next_refresh(15.0 * YEAR_S) == math.inf and predictor.next_refresh(700.0) == 3_600.0


def test_requests_that_end_in_their_own_second_leave_curves(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of 200 requests: the history holds lifetimes of a second, the recalibrated hazards rise to their bound."""
    monkeypatch.setattr(recalibration, "N_ENDS_COUNTED", 4)
    predictor, plain = (Predictor.load(made.folders["hazard"], is_history_kept=False, recalibrate=is_recalibrated)
                        for is_recalibrated in (True, False))
    for one in (predictor, plain):
        for step in range(200):
            one.ended(one.admit(made.request(0), NOW_S + step), NOW_S + step)
    vm, other = (one.admit(made.request(0), NOW_S + 200) for one in (predictor, plain))
    check_curve(vm)
    features = dict(zip(made.encoder.feature_names(), vm.features, strict=True))
    assert [features[f"subscription:{name}"] for name in ("last", "mean", "spread", "longest")] == [0.0] * 4
    own = predictor._open.recalibration.learnt
    assert own is not None and own.factors.max() == recalibration.FACTOR_MAX
    assert vm.survival(1.0, 0.0) < other.survival(1.0, 0.0)


def test_a_clock_that_was_years_ahead_leaves_no_trace_in_the_factors(made: Made, tmp_path: Path,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted up to a wrong time, what runs would seem to outlive everything: the factors fell to their bound, 1/8.
    Set back, all counts begin anew; what was admitted by the right clock afterwards counts again."""
    monkeypatch.setattr(recalibration, "N_ENDS_COUNTED", 4)
    predictor = Predictor.load(made.folders["hazard"], recalibrate=True)
    own = predictor._open.recalibration.learnt
    assert own is not None

    def ends(now_s: int, n: int) -> None:
        for step in range(n):
            predictor.ended(predictor.admit(made.request(step), now_s), now_s + 60)

    held = [predictor.admit(made.request(step % 40), NOW_S) for step in range(300)]
    ends(NOW_S, 8)
    right = own.factors
    ends(NOW_S + YEAR_S, 4)
    assert (own.factors == 1.0 / recalibration.FACTOR_MAX).all() and right.mean() > 0.2
    predictor.snapshot(tmp_path / "ahead")
    again = Predictor.load(made.folders["hazard"], history=tmp_path / "ahead", recalibrate=True)
    for one in (predictor, again):
        for step in range(4):
            one.ended(one.admit(made.request(step), NOW_S + 100), NOW_S + 160)
        learnt = one._open.recalibration.learnt
        assert learnt is not None and (learnt.factors == 1.0).all() and not learnt.is_learnt and len(learnt) == 0
        assert one.predict(made.request(5), NOW_S + 200).curve == Predictor.load(
            made.folders["hazard"], history=tmp_path / "ahead").predict(made.request(5), NOW_S + 200).curve
        for vm in held[:8]:  # not followed any longer, and no error
            one.ended(str(vm.id), NOW_S + 300)
        for step in range(4):
            one.ended(one.admit(made.request(step), NOW_S + 400), NOW_S + 460)
        assert learnt.is_learnt and learnt.factors.mean() > 0.2


def test_what_is_no_time_is_named(made: Made) -> None:
    predictor = Predictor.load(made.folders["hazard"])
    vm = predictor.admit(made.request(0), NOW_S)
    times: tuple[Any, ...] = (math.nan, math.inf, None, "now", True, 2**60)
    for bad in times:
        for call in (predictor.predict, predictor.admit):
            with pytest.raises(ValueError, match=r"^now_s must be seconds or a datetime with a time zone, got "):
                call(made.request(0), bad)
        for ask in (predictor.ended, predictor.refresh):
            with pytest.raises(ValueError, match="^now_s must be seconds or a datetime with a time zone, got "
                               + re.escape(repr(bad))[:3]):
                ask(vm, bad)
