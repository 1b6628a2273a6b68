"""Habits inside a predictor: the same answers as in training, and the same after a restart."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, default_encoder, parsed_requests
from sojourn.features.split import Split, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.features.trace import Trace
from sojourn.models.bundle_writer import table_of, write_bundle
from sojourn.models.curve_table import HazardTable, online_table
from sojourn.models.lifetime import EventLog, FitSettings
from sojourn.models.lifetime.online import BlendModel, Events, OnlineModel, Weighing
from sojourn.models.served_curves import ServedCurves
from sojourn.serving import BundleError, Lifetime, Predictor, load_bundle
from sojourn.serving.bundle import HabitSection
from sojourn.serving.curves import HazardCurve, curve_steps, recalibrated
from sojourn.serving.curves.habit_kernels import BlendRules
from sojourn.serving.inputs import HistoryState
from sojourn.serving.live import LiveHabits, Recalibration, recalibration


class Made:
    """A trace, both fitted families, and a bundle of `blend`."""

    def __init__(self, folder: Path) -> None:
        self.trace: Trace = synthesize(1_500, seed=3)
        self.encoder = default_encoder(self.trace)
        self.history = HistoryState(self.encoder.history)
        self.rows: FeatureRows = build_rows(self.trace, self.encoder, self.history)
        self.split: Split = split_by_time(self.rows, 0.3, 0.2)
        self.log = EventLog.of(self.rows, self.encoder.history)
        settings = FitSettings(backoff_keys(self.encoder), 1, 0, {"num_leaves": 7, "learning_rate": 0.4},
                               self.rows.names, log=self.log)
        windows = self.split.train, self.split.valid, self.split.past
        self.online = OnlineModel().fit(*windows, settings)
        self.blend = BlendModel().fit(*windows, replace(settings, fitted={"online": self.online}))
        self.folders = {name: folder / name for name in ("blend", "online")}
        for name, model in (("blend", self.blend), ("online", self.online)):
            exported = model.export()
            assert exported is not None
            about = {"training": {"history_to_s": self.trace.horizon_s}, "metrics": {}}
            write_bundle(self.folders[name], name, exported, self.encoder, self.history, about)
        columns = self.trace.requests[list(self.encoder.columns())]
        self.requests = [{str(name): value for name, value in row.items() if value == value}
                         for row in columns.astype(object).to_dict("records")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("habits"))


def _empty(made: Made, name: str, rules: BlendRules) -> LiveHabits:
    """Habits of the bundle's meaning without counts."""
    bundle = load_bundle(made.folders[name])
    assert bundle.habits is not None
    n_nodes = len(bundle.habits.arrays["codes"]) + 1
    arrays = {name: np.zeros(len(bundle.habits.arrays[name]) // n_nodes) for name in ("counts", "sums")}
    arrays["codes"] = np.empty((0, 2), np.int64)
    return LiveHabits(bundle.schema, HabitSection({**bundle.habits.fields, "blend": list(rules), "is_blended": True},
                                                  arrays))


def _curve(live: LiveHabits) -> HazardCurve:
    """Any curve on the edges of the habits."""
    edges = tuple(live.habits.edges.tolist())
    return HazardCurve.from_hazards(edges, [0.1] * (len(edges) - 1), 1_000.0, edges)


def test_a_live_replay_gives_the_bits_of_training(made: Made) -> None:
    """Every request asked in order of decision: hazards and weights of all rows are those of the compiled replay."""
    rows, rules = made.rows, BlendRules(prior=1.0)
    axis, events = made.online.axis_, made.online.events_
    n, n_intervals = len(rows), len(axis.intervals.offsets)
    model = np.random.default_rng(0).uniform(0.01, 1.0, (n, n_intervals)).astype(np.float32)
    offline = events.replayed(axis, made.online.rules_, np.ones(n, bool), Weighing(rules, model, np.ones(n, bool)))
    live = _empty(made, "online", rules)
    parsed = list(parsed_requests(made.trace.requests.iloc[rows.idx_request], made.encoder))
    end_s = rows.arrival_s + np.maximum(rows.lifetime_s, 1)
    curve = _curve(live)
    by_end, n_ended = np.argsort(end_s, kind="stable").tolist(), 0
    for row in range(n):
        now_s = int(rows.decided_s[row])
        while n_ended < n and end_s[by_end[n_ended]] <= now_s:
            one = by_end[n_ended]
            if rows.is_event[one]:
                live.ended(one, int(end_s[one]), int(rows.arrival_s[one]))
            n_ended += 1
        given = live.answer(curve, parsed[row], now_s)[1]
        np.testing.assert_array_equal(given.known, offline.hazards[row])
        np.testing.assert_array_equal(given.weights, offline.weights[row])
        live.follow(row, given._replace(model=model[row]), int(rows.arrival_s[row]), max(now_s, rows.begin_s))
    assert len(live) > 20


def _numbers(table: HazardTable, row: int) -> np.ndarray:
    """A curve's numbers, as `HazardCurve.numbers` of a curve on the age alone has them."""
    return np.concatenate([part[row] for part in (table.rates, table.cumulative, table.after, table.gaps)])


def test_a_trace_is_answered_as_in_training(made: Made) -> None:
    """`online` to the bit; `blend` but for the losses of the validation window, on which the model alone was judged."""
    idx = made.split.test.idx_row
    for name, model, most in (("online", made.online, 0.0), ("blend", made.blend, 0.25)):
        curves = ServedCurves(load_bundle(made.folders[name]), made.rows, made.split.test_from_s)
        served, learnt = curves.at(idx), model.curve_table(made.split.test)
        for share in (0.1, 0.5, 0.9):
            ratio = np.log10(served.quantile(share, 600.0) / learnt.quantile(share, 600.0))
            assert np.median(np.abs(ratio)) <= most
    with_forest = table_of(load_bundle(made.folders["blend"]).schema, curves.forest, made.rows.features[idx])
    assert (with_forest.remaining(0.0) != served.remaining(0.0)).mean() > 0.9


@pytest.mark.parametrize(("name", "recalibrates"), [("blend", False), ("blend", True), ("plain", True)])
def test_a_later_trace_is_answered_as_by_a_predictor(
        made: Made, name: str, recalibrates: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts go on from the bundle's, and each request is answered as by a predictor at its moment.

    A predictor blends the rates of a curve, a table its hazards: their last bits may differ.
    """
    monkeypatch.setattr(recalibration, "N_ENDS_COUNTED", 4)
    bundle, fresh = (replace(load_bundle(made.folders["blend"]), recalibrates=recalibrates) for _ in range(2))
    if name == "plain":
        bundle, fresh = replace(bundle, habits=None), replace(fresh, habits=None)
    later = made.trace.requests.iloc[:400].copy()
    moved_s = made.trace.horizon_s - int(later["arrival_s"].min()) + 60
    for column in ("arrival_s", "departure_s"):
        later[column] = later[column] + moved_s
    trace = Trace(later, int(later["departure_s"].max()) + 1, made.trace.roles)
    rows = build_rows(trace, bundle.schema.encoder, bundle.history)
    table = ServedCurves(bundle, rows, goes_on=True).at(np.arange(len(rows)))
    assert isinstance(table, HazardTable)
    predictor = Predictor(fresh)
    assert predictor.info()["recalibration"] == ("on" if recalibrates else "off")
    requests = later[list(made.encoder.columns())].astype(object).to_dict("records")
    events = sorted([(int(end_s), 0, row) for row, end_s in enumerate(rows.arrival_s + rows.lifetime_s)
                     if rows.is_event[row]] + [(int(at_s), 1, row) for row, at_s in enumerate(rows.decided_s)])
    ids: dict[int, str] = {}
    for now_s, kind, row in events:
        if kind == 0:
            predictor.ended(ids.pop(row), now_s)
            continue
        request = {str(name): value for name, value in requests[rows.idx_request[row]].items() if value == value}
        vm = predictor.admit(request, now_s)
        assert isinstance(vm.curve, HazardCurve) and vm.id is not None
        np.testing.assert_allclose(_numbers(table, row), vm.curve.numbers[:table.rates.shape[1] * 4], rtol=1e-9)
        assert table.take(np.array([row])).quantile(0.5, 600.0)[0] == vm.quantile(0.5, 600.0)
        ids[row] = vm.id
    without = ServedCurves(replace(bundle, recalibrates=False), rows, goes_on=True).at(np.arange(len(rows)))
    assert (without.remaining(0.0) != table.remaining(0.0)).any() == recalibrates


def test_a_replay_recalibrates_by_what_the_model_has_not_seen(made: Made) -> None:
    """Requests before the test window have factors of 1, and the window the curves that training judges."""
    bundle = load_bundle(made.folders["online"])
    plain, found = (ServedCurves(replace(bundle, recalibrates=each), made.rows, made.split.test_from_s)
                    for each in (False, True))
    early, late = made.split.past.idx_row, made.split.test.idx_row
    np.testing.assert_array_equal(plain.at(early).quantile(0.5, 60.0), found.at(early).quantile(0.5, 60.0))
    table = made.online.curve_table(made.split.test)
    assert isinstance(table, HazardTable)
    judged = online_table(table, made.split.test, made.rows.decided_s[late])
    np.testing.assert_array_equal(judged.quantile(0.5, 60.0), found.at(late).quantile(0.5, 60.0))
    assert (judged.quantile(0.5, 60.0) != plain.at(late).quantile(0.5, 60.0)).any()


def test_only_a_predictor_loads_the_loops_of_answers(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retrain reads a bundle's habits, too; on a new machine the loops would be compiled for 10 s."""
    loaded: list[LiveHabits] = []
    monkeypatch.setattr(LiveHabits, "_load_loops", lambda live: loaded.append(live))
    bundle = load_bundle(made.folders["blend"])
    ServedCurves(bundle, made.rows).at(np.arange(3))
    assert not loaded
    Predictor.load(made.folders["blend"])
    assert len(loaded) == 1


def test_the_future_changes_no_curve_of_a_trace(made: Made) -> None:
    """All that ends after a cut ends at another time, and no curve of an earlier decision changes."""
    rows, cut_s = made.rows, int(np.quantile(made.rows.decided_s, 0.8))
    rng = np.random.default_rng(1)
    is_later = rows.arrival_s + rows.lifetime_s > cut_s
    other_s = np.maximum(cut_s - rows.arrival_s, 0) + rng.integers(1, 100_000, len(rows))
    changed = replace(rows, lifetime_s=np.where(is_later, other_s, rows.lifetime_s))
    bundle, is_early = replace(load_bundle(made.folders["blend"]), recalibrates=True), rows.decided_s <= cut_s
    tables = [ServedCurves(bundle, each).at(is_early) for each in (rows, changed)]
    np.testing.assert_array_equal(tables[0].quantile(0.5, 60.0), tables[1].quantile(0.5, 60.0))
    late = [ServedCurves(bundle, each).at(~is_early).quantile(0.5, 60.0) for each in (rows, changed)]
    assert (late[0] != late[1]).any()


def test_an_explanation_adds_up_with_the_latest_ends(made: Made) -> None:
    predictor = Predictor.load(made.folders["blend"])
    _admit_all(made, predictor, 0, 60)
    vm = predictor.predict(made.requests[0], made.trace.horizon_s + 9_000)
    found = predictor.explain(vm)
    assert found.groups[-1].name == "latest ends" and found.effects[-1] != 0.0
    assert found.base + sum(found.effects) == pytest.approx(math.log10(vm.quantile(0.5, 0.0)))
    assert found.answer == math.log10(vm.quantile(0.5, 0.0))


def test_a_shadow_learns_from_the_ends_that_the_champion_is_told(made: Made) -> None:
    """It gives the answers of a predictor of its own."""
    champion = Predictor.load(made.folders["online"], shadow=made.folders["blend"])
    other = Predictor.load(made.folders["blend"])
    recorder = champion._decisions.recorder
    assert recorder is not None and recorder.shadow is not None
    for predictor in (champion, other):
        ids = _admit_all(made, predictor, 0, 150)
        predictor.withdraw(ids[-1])
    assert champion.flush_decisions()
    assert champion.counters["shadow_errors"] == 0
    habits = recorder.shadow._habits
    assert habits is not None and other._open.habits is not None
    np.testing.assert_array_equal(habits.counted()[0], other._open.habits.counted()[0])
    np.testing.assert_array_equal(habits.counted()[1], other._open.habits.counted()[1])
    assert len(habits) == len(other.running())


def _admit_all(made: Made, predictor: Predictor, start: int, n: int) -> list[str]:
    """Admit requests a minute apart after the trace's end; each third ends after five minutes."""
    open_ids: list[str] = []
    base_s = made.trace.horizon_s + 60
    for idx in range(start, start + n):
        vm = predictor.admit(made.requests[idx], base_s + 60 * idx)
        assert vm.id is not None
        open_ids.append(vm.id)
        if idx % 3 == 2:
            predictor.ended(open_ids.pop(0), base_s + 60 * idx + 30)
    return open_ids


@pytest.mark.parametrize("name", ["blend", "online"])
def test_ends_change_the_next_answers(made: Made, name: str) -> None:
    predictor = Predictor.load(made.folders[name])
    request, now_s = made.requests[0], made.trace.horizon_s + 60
    before = predictor.predict(request, now_s).quantile(0.5, 0.0)
    for _ in range(40):
        predictor.ended(predictor.admit(request, now_s), now_s + 5_000)
        now_s += 5_001
    after = predictor.predict(request, now_s).quantile(0.5, 0.0)
    assert before < 2_500 or before > 10_000
    assert after == pytest.approx(5_000, rel=0.3)


@pytest.mark.parametrize("name", ["blend", "online"])
def test_a_snapshot_continues_to_the_bit(made: Made, name: str, tmp_path: Path) -> None:
    one = Predictor.load(made.folders[name])
    ids = _admit_all(made, one, 0, 200)
    one.snapshot(tmp_path / "snapshot")
    other = Predictor.load(made.folders[name], history=tmp_path / "snapshot")
    now_s = made.trace.horizon_s + 60 * 300
    assert other.running() == one.running() and set(ids) == set(one.running())
    for each in one.running():
        assert one.handle(each).curve == other.handle(each).curve
    for idx in range(200, 260):
        assert one.predict(made.requests[idx], now_s).curve == other.predict(made.requests[idx], now_s).curve
        for predictor in (one, other):
            predictor.ended(ids[idx - 200], now_s)
        now_s += 60


def test_a_handle_keeps_its_curve_until_it_ends(made: Made) -> None:
    predictor = Predictor.load(made.folders["blend"])
    vm = predictor.admit(made.requests[5], made.trace.horizon_s + 60)
    assert vm.id is not None
    assert predictor.handle(vm.id).curve == vm.curve
    _admit_all(made, predictor, 10, 100)
    assert predictor.handle(vm.id).curve == vm.curve
    predictor.withdraw(vm)
    assert predictor._open.habits is not None
    assert len(predictor._open.habits) == len(predictor.running())


def test_remaining_of_many_is_that_of_each(made: Made) -> None:
    predictor = Predictor.load(made.folders["blend"])
    now_s = made.trace.horizon_s + 60
    many = predictor.remaining_many(made.requests[:20], [0.0] * 20, now_s)
    assert many.tolist() == [predictor.predict(request, now_s).remaining(0.0) for request in made.requests[:20]]


def test_a_reload_of_the_same_version_goes_on_and_of_another_begins_anew(made: Made) -> None:
    predictor = Predictor.load(made.folders["blend"])
    _admit_all(made, predictor, 0, 100)
    now_s = made.trace.horizon_s + 60 * 200
    before = predictor.predict(made.requests[3], now_s).curve
    predictor.reload()
    assert predictor.predict(made.requests[3], now_s).curve == before
    predictor.reload(made.folders["online"])
    fresh = Predictor.load(made.folders["online"], is_history_kept=False)
    assert predictor.predict(made.requests[3], now_s).curve == fresh.predict(made.requests[3], now_s).curve
    for each in predictor.running():  # admitted by the other version: they end as always
        predictor.ended(each, now_s)


def test_clocks_that_jump_and_owners_that_come_back_after_a_year_are_answered(made: Made) -> None:
    predictor = Predictor.load(made.folders["blend"])
    ids = _admit_all(made, predictor, 0, 60)
    now_s = made.trace.horizon_s + 86_400
    for later_s in (now_s, now_s + 365 * 86_400, now_s, now_s - 3_600):
        vm = predictor.admit(made.requests[1], later_s)
        assert 0.0 < vm.remaining(0.0) < 1e9
        predictor.ended(vm, later_s)
    for each in ids:
        predictor.ended(each, now_s)
    assert 0.0 < predictor.predict(made.requests[1], now_s + 2 * 365 * 86_400).quantile(0.9, 0.0) < 1e9


def test_requests_that_wait_after_their_admission_count_from_their_begin(made: Made) -> None:
    """The first wait shows that admissions are no starts; from then on a request counts when it ends."""
    predictor = Predictor.load(made.folders["online"])
    request, now_s = made.requests[0], made.trace.horizon_s + 60
    for _ in range(60):
        vm = predictor.admit(request, now_s)
        predictor.ended(vm, now_s + 500_000 + 1_000, arrival_s=now_s + 500_000)
        now_s += 501_001
    assert predictor.predict(request, now_s).quantile(0.5, 0.0) == pytest.approx(1_000, rel=0.3)


def test_limits_that_are_none_have_a_key_of_their_own(made: Made) -> None:
    live = _empty(made, "blend", BlendRules())
    live.limit_place, live.has_limit_level = 0, True
    keys = made.encoder.parse(made.requests[0]).keys
    codes = {limit_s: live.codes(keys, limit_s) for limit_s in (3_600.0, 7_200.0, 0.0, -5.0, 1e12, math.inf)}
    at = len(live.owners) - 1
    assert codes[3_600.0][at] != codes[7_200.0][at] != codes[0.0][at]
    assert codes[0.0] == codes[-5.0] == codes[1e12] == codes[math.inf] == live.codes(keys, math.nan)


@pytest.mark.parametrize("change", ["rules", "keys", "counts", "codes", "buckets", "missing"])
def test_a_malformed_section_is_refused(made: Made, change: str) -> None:
    bundle = load_bundle(made.folders["blend"])
    assert bundle.habits is not None
    fields, arrays = dict(bundle.habits.fields), dict(bundle.habits.arrays)
    if change == "rules":
        fields["rules"] = [1.0, 0.0, 2.0, 3.0, 4.0]
    elif change == "keys":
        fields["keys"] = ["nobody"]
    elif change == "counts":
        arrays["counts"] = arrays["counts"][:-1]
    elif change == "codes":
        arrays["codes"] = arrays["codes"] - 10
    elif change == "buckets":
        fields["buckets"] = [999] * len(fields["buckets"])
    else:
        del arrays["sums"]
    with pytest.raises(BundleError, match="habits must"):
        Predictor(replace(bundle, habits=HabitSection(fields, arrays)))


def test_the_bundle_says_what_it_is_mixed_with_and_stays_small(made: Made) -> None:
    schema = json.loads((made.folders["blend"] / "schema.json").read_text())
    assert schema["habits"]["keys"] == ["subscription", "deployment", "deployment+shape"]
    assert (made.folders["blend"] / "history.npz").stat().st_size < 1_500_000


@pytest.mark.parametrize("name", ["blend", "online"])
def test_recalibration_learns_from_the_mixed_curves_and_acts_on_them(
        made: Made, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Factors are those of the curves that a predictor without recalibration gives; a restart goes on to the bit."""
    monkeypatch.setattr(recalibration, "N_ENDS_COUNTED", 4)
    left, plain, own = Predictor.load(made.folders[name], recalibrate=True), Predictor.load(made.folders[name]), \
        Recalibration()
    assert left.info()["recalibration"] == "on"
    first_s = made.trace.horizon_s
    pairs: list[tuple[Lifetime, Lifetime, int]] = []
    curves: dict[int, np.ndarray] = {}
    for step in range(60):
        now_s, request = first_s + 100 * step, made.requests[step % 7]
        factors = own.factors if own.is_learnt else None
        pairs.append((left.admit(request, now_s), plain.admit(request, now_s), step))
        mixed = pairs[-1][1].curve
        assert isinstance(mixed, HazardCurve)
        assert pairs[-1][0].curve == (mixed if factors is None else recalibrated(mixed, factors))
        own.follow(step, now_s)
        curves[step] = curve_steps(mixed)
        if step % 2:
            vm, other, number = pairs.pop(0)
            left.ended(vm, now_s + 7)
            plain.ended(other, now_s + 7)
            own.ended(number, now_s + 7, curves[number])
            if own.is_due:
                own.count(now_s + 7, curves.__getitem__)
    learnt = left._open.recalibration.learnt
    assert learnt is not None and own.is_learnt and learnt.factors.tolist() == own.factors.tolist()
    left.snapshot(tmp_path / "s")
    right = Predictor.load(made.folders[name], history=tmp_path / "s", recalibrate=True)
    for vm, _, _ in pairs:
        assert vm.id is not None and right.handle(vm.id).curve == vm.curve == left.handle(vm.id).curve
    for vm, _, _ in pairs[:9]:
        for predictor in (left, right):
            predictor.ended(str(vm.id), first_s + 7_000)
    assert left.predict(made.requests[0], first_s + 7_000).curve == right.predict(made.requests[0],
                                                                                 first_s + 7_000).curve


def test_a_snapshot_from_before_a_change_of_the_family_goes_on_without_its_habits(made: Made, tmp_path: Path) -> None:
    """Running requests can be asked and ended; new ones are answered from the bundle's counts."""
    before = Predictor.load(made.folders["online"])
    running = [before.admit(request, made.trace.horizon_s) for request in made.requests[:5]]
    before.snapshot(tmp_path / "s")
    after = Predictor.load(made.folders["blend"], history=tmp_path / "s")
    fresh = Predictor.load(made.folders["blend"])
    now_s = made.trace.horizon_s + 60
    for vm in running:
        handle = after.handle(str(vm.id))
        assert math.isfinite(handle.remaining(60.0)) and handle.remaining(60.0) >= 0.0
    given = after._open.habits
    assert given is not None and len(given) == 0
    one = after.admit(made.requests[9], now_s)
    assert isinstance(one.curve, HazardCurve) and len(given) == 1
    for vm in (*running, one):
        after.ended(str(vm.id), now_s + 60)
    assert len(given) == 0 and fresh._open.habits is not None
    assert given.counted()[0].shape == fresh._open.habits.counted()[0].shape


def test_tables_grow_as_requests_come(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.serving.live import live_habits

    whole = _empty(made, "blend", BlendRules())
    monkeypatch.setattr(live_habits, "N_FIRST", 2)
    small = _empty(made, "blend", BlendRules())
    parsed = [made.encoder.parse(request) for request in made.requests[:300]]
    for idx, one in enumerate(parsed):
        answers = []
        for live in (whole, small):
            given = live.answer(_curve(live), one, 10 * idx)[1]
            live.follow(idx, given, 10 * idx, 10 * idx)
            if idx % 2:
                live.ended(idx - 1, 10 * idx + 5, 10 * (idx - 1))
            answers.append(given.known)
        np.testing.assert_array_equal(answers[0], answers[1])
    assert len(small.ones.due_s) < 1_024


def test_plain_python_gives_the_same_curves(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.serving.curves import habit_kernels as habits
    from sojourn.serving.live import live_habits

    compiled = Predictor.load(made.folders["blend"])
    _admit_all(made, compiled, 0, 40)
    expected = [compiled.predict(request, made.trace.horizon_s + 9_000).curve for request in made.requests[:10]]
    monkeypatch.setattr(live_habits, "_LOOPS", habits)
    monkeypatch.setattr(live_habits, "KERNELS", None)
    plain = Predictor.load(made.folders["blend"])
    _admit_all(made, plain, 0, 40)
    for request, curve in zip(made.requests[:10], expected, strict=True):
        other = plain.predict(request, made.trace.horizon_s + 9_000).curve
        assert isinstance(other, HazardCurve) and isinstance(curve, HazardCurve)
        np.testing.assert_allclose(other.numbers, curve.numbers, rtol=1e-5)


def test_events_of_a_window_alone_are_in_the_order_of_their_start(made: Made) -> None:
    settings = FitSettings(backoff_keys(made.encoder), names=made.rows.names)
    events = Events.of_examples(made.split.past, settings, -1)
    assert (np.diff(events.decided_s) >= 0).all()
    at, is_found = events.places(made.split.past.idx_row)
    assert is_found.all()
    np.testing.assert_array_equal(events.lifetime_s[at], made.split.past.lifetime_s)
