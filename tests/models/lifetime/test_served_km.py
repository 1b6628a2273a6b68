"""`km` as it is served: the model's own bits on every way to an answer, and tables that are none refused."""

from __future__ import annotations

import io
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from made_bundles import rewrite, rewrite_schema
from made_c import CModels, needs_c
from made_c_history import CHistory
from sojourn.features import Trace
from sojourn.features.creation import FeatureRows, backoff_keys, build_rows, default_encoder
from sojourn.features.split import Split, split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.flows.retrain.gates import table_latency_gate, table_parity_gate
from sojourn.models import FitSettings, write_bundle
from sojourn.models.bundle_writer import packed_arrays, table_of
from sojourn.models.importance import background_rows
from sojourn.models.lifetime import Exported, HazardModel
from sojourn.models.lifetime.baselines import KaplanMeierModel
from sojourn.models.lifetime.contract import ExportedLookup
from sojourn.serving import BundleError, Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.answers.attribution import LOOKUP_ROW
from sojourn.serving.bundle import read_arrays
from sojourn.serving.c import c_source
from sojourn.serving.curves import HazardCurve
from sojourn.serving.decisions import read_log
from sojourn.serving.inputs import ROW, HistoryState, key_code
from sojourn.serving.pyfunc import PyfuncModel

UPTIMES_S = (0.0, 61.0, 3_600.0, 90_000.0, 1e7)
PARTS = ("rates", "cumulative", "after", "gaps")


@dataclass(frozen=True)
class Served:
    """A trace, its windows, km fitted on the earlier ones, its bundle, and one of it mixed half and half with trees."""

    trace: Trace
    rows: FeatureRows
    split: Split
    model: KaplanMeierModel
    folder: Path
    mixed: Path

    def request(self, idx: int) -> dict[str, Any]:
        """The request of a test row, as a scheduler would send it."""
        row = self.trace.requests.iloc[int(self.rows.idx_request[self.split.test.idx_row[idx]])]
        return {name: row[name] for name in default_encoder(self.trace).columns()}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    trace = synthesize(3_000, seed=1)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    rows = build_rows(trace, encoder, history)
    split = split_by_time(rows)
    settings = FitSettings(backoff_keys(encoder), 1, 0, {"num_leaves": 7, "learning_rate": 0.4}, rows.names)
    model = KaplanMeierModel().fit(split.train, split.valid, split.past, settings)
    exported = model.export()
    about = {"training": {"history_to_s": trace.horizon_s},
             "background": background_rows(model, split.past, exported.encoder(encoder))}
    root = tmp_path_factory.mktemp("km")
    folder = write_bundle(root / "km", "km", exported, encoder, history, about)
    hazard = HazardModel(n_rounds=10).fit(split.train, split.valid, split.past, settings).export()
    weights = tuple(np.linspace(0.0, 1.0, len(model.axis_.intervals.offsets)).tolist())
    lookup = ExportedLookup(model.lookup_, model.hazards_, weights)
    mixed = write_bundle(root / "mixed", "mixed", replace(hazard, lookup=lookup), encoder, history, {})
    return Served(trace, rows, split, model, folder, mixed)


def _builder(folder: Path, is_compiled: bool = True) -> CurveBuilder:
    bundle = load_bundle(folder)
    return CurveBuilder(bundle.schema, bundle.model, is_compiled)


def test_the_bundle_has_the_models_bits_in_every_row(served: Served) -> None:
    builder = _builder(served.folder)
    for rows in (served.split.past, served.split.test):
        own = served.model.curve_table(rows)
        found: Any = table_of(builder.schema, builder.forest,
                              builder.schema.encoder.with_row(rows.features, rows.keys))
        for part in PARTS:
            assert getattr(found, part).tolist() == getattr(own, part).tolist()
    assert len(np.unique(own.rates[:, 9])) > 5  # rows of many keys, not one for all


@pytest.mark.parametrize("name", ["folder", "mixed"])
def test_every_way_to_an_answer_has_the_same_bits(served: Served, name: str, tmp_path: Path) -> None:
    folder = getattr(served, name)
    fast, slow = _builder(folder), _builder(folder, is_compiled=False)
    test, encoder = served.split.test, fast.schema.encoder
    features = encoder.with_row(test.features, test.keys)
    table = table_of(fast.schema, fast.forest, features)
    predictor = Predictor.load(folder)
    requests = [served.request(idx) for idx in range(40)]
    vms = [predictor.admit(request, served.trace.horizon_s) for request in requests]
    frame = {**{column: [request[column] for request in requests] for column in requests[0]},
             "uptime_s": [61.0] * len(requests), "now_s": [served.trace.horizon_s] * len(requests)}
    for idx, vm in enumerate(vms):
        assert vm.features[len(encoder.numbers)] == features[idx, len(encoder.numbers)]
        ways = [slow.curve(vm.features), fast.curve(vm.features), predictor.handle(str(vm.id)).curve]
        for uptime_s in UPTIMES_S:
            assert {way.remaining(uptime_s) for way in ways} == {vm.remaining(uptime_s)}
        alone = slow.curve(features[idx].tolist())
        assert [alone.remaining(uptime_s) for uptime_s in UPTIMES_S] == [
            table.remaining(uptime_s)[idx] for uptime_s in UPTIMES_S]
    fresh = Predictor.load(folder)
    lives = [fresh.predict(request, served.trace.horizon_s) for request in requests]
    at_once = fresh.remaining_many(requests, [61.0] * len(requests), served.trace.horizon_s).tolist()
    assert at_once == [life.remaining(61.0) for life in lives]
    import pandas as pd

    assert PyfuncModel(load_bundle(folder)).predict(pd.DataFrame(frame))["remaining_s"].tolist() == at_once
    predictor.snapshot(tmp_path / "live")
    again = Predictor.load(folder, history=tmp_path / "live")
    assert [again.handle(str(vm.id)).remaining(61.0) for vm in vms] == [vm.remaining(61.0) for vm in vms]


def _without_first_row(served: Served, root: Path) -> Path:
    """The bundle of a table that lacks row 1, so that all others have another number."""
    encoder = default_encoder(served.trace)
    lookup = served.model.lookup_
    fewer = replace(lookup, rows=tuple({code: row - 1 for code, row in rows.items() if row > 1}
                                       for rows in lookup.rows))
    hazards = np.delete(served.model.hazards_, 1, axis=0)
    exported = served.model.export()
    assert exported.lookup is not None
    table = replace(exported.lookup, keys=fewer, hazards=hazards)
    return write_bundle(root / "fewer", "km", replace(exported, lookup=table), encoder,
                        HistoryState(encoder.history), {})


def test_a_version_with_other_row_numbers_finds_a_running_requests_row_anew(served: Served, tmp_path: Path) -> None:
    other = _without_first_row(served, tmp_path)
    predictor = Predictor.load(served.folder, shadow=other)
    predictor.log_to(tmp_path / "log")
    vms = [predictor.admit(served.request(idx), served.trace.horizon_s) for idx in range(40)]
    alone = Predictor.load(other)
    expected = [alone.predict(served.request(idx), served.trace.horizon_s) for idx in range(40)]
    place = len(default_encoder(served.trace).numbers)
    rows = [(vm.features[place], life.features[place]) for vm, life in zip(vms, expected, strict=True)]
    assert sum(own != new for own, new in rows) > 20
    predictor.flush_decisions()
    predictor.stop_logging()
    log = read_log(tmp_path / "log")
    n = len(served.model.axis_.intervals.offsets)
    assert log.shadows[0].curves[:, :n].tolist() == [
        cast("HazardCurve", life.curve).numbers[:n].tolist() for life in expected]
    predictor.reload(other)
    for vm, life in zip(vms, expected, strict=True):
        handle = predictor.handle(str(vm.id))
        assert handle.features[place] == life.features[place]
        assert [handle.remaining(uptime_s) for uptime_s in UPTIMES_S] == [
            life.remaining(uptime_s) for uptime_s in UPTIMES_S]


def test_an_explanation_rests_on_the_row_alone(served: Served) -> None:
    predictor = Predictor.load(served.folder)
    found = predictor.explain(predictor.predict(served.request(3), served.trace.horizon_s))
    effects = dict(zip([group.name for group in found.groups], found.effects, strict=True))
    assert all(effect == pytest.approx(0.0, abs=1e-12) for name, effect in effects.items() if name != LOOKUP_ROW)
    assert effects[LOOKUP_ROW] == pytest.approx(found.answer - found.base)
    assert abs(effects[LOOKUP_ROW]) > 0.01


@needs_c
@pytest.mark.parametrize("name", ["folder", "mixed"])
def test_c_has_the_same_answers(served: Served, name: str, tmp_path: Path) -> None:
    bundle = load_bundle(getattr(served, name))
    test, builder = served.split.test, CurveBuilder(bundle.schema, bundle.model)
    features = np.ascontiguousarray(bundle.schema.encoder.with_row(test.features, test.keys)[:60])
    features[:4, len(bundle.schema.encoder.numbers)] = (math.nan, -1.0, 1e9, math.inf)  # of no row: that of all
    asked = np.array([(uptime_s, 0.5, 600.0) for uptime_s in UPTIMES_S])
    source = c_source(bundle, "table")
    assert "TABLE_FEATURE_LOOKUP_ROW" in source.header
    models = CModels(tmp_path, [source])
    answers = models.answers("table", features, asked)
    lookup = bundle.schema.encoder.lookup
    assert lookup is not None
    for key, rows in enumerate(reversed(lookup.rows)):
        assert [models.lookup_row("table", key, code) for code in rows] == list(rows.values())
        assert models.lookup_row("table", key, min(rows, default=1) - 1) == 0.0
    assert [models.lookup_row("table", key, 1) for key in (0, -1, 9)] == [0.0] * 3
    encoder, in_c, now_s = bundle.schema.encoder, CHistory(tmp_path, bundle, 1_000, 1, ("-O0",)), served.trace.horizon_s
    found_rows: set[float] = set()
    for request in ({}, *(served.request(idx) for idx in range(60))):
        assert in_c.read({column: str(value) if column in encoder.names else float(value)
                          for column, value in request.items()}) == 1
        found = in_c.encoded(now_s)
        np.testing.assert_array_equal(found, encoder.encode(encoder.parse(request), now_s, bundle.history))
        found_rows.add(found[len(encoder.numbers)])
    assert len(found_rows) > 5
    for idx, row in enumerate(features.tolist()):
        curve = builder.curve(row)
        assert answers[idx, :, 0].tolist() == [curve.remaining(uptime_s) for uptime_s in UPTIMES_S]
        assert answers[idx, :, 1].tolist() == [curve.quantile(0.5, uptime_s) for uptime_s in UPTIMES_S]


def test_the_gates_of_a_model_without_trees(served: Served) -> None:
    builder = _builder(served.folder)
    test = served.split.test
    features = builder.schema.encoder.with_row(test.features, test.keys)
    own = served.model.curve_table(test)
    assert table_parity_gate(own, builder, features).is_passed
    assert "no trees" in table_latency_gate(builder, features).finding
    wrong = features.copy()
    wrong[5, len(builder.schema.encoder.numbers)] = 0.0 if wrong[5, len(builder.schema.encoder.numbers)] else 1.0
    refused = table_parity_gate(own, builder, wrong)
    assert not refused.is_passed and refused.finding.startswith(f"1 of {len(test):,} curves")


def test_the_table_holds_codes_and_no_names(served: Served) -> None:
    arrays = read_arrays((served.folder / "history.npz").read_bytes())
    codes = set(arrays["lookup:codes"].tolist())
    owner = served.request(0)["subscription"]
    assert len(codes) == served.model.lookup_.n_rows - 1
    assert key_code((owner,)) in codes or key_code((owner,)) not in served.model.lookup_.rows[-1]
    schema = json.loads((served.folder / "schema.json").read_text())
    assert set(schema["lookup"]) == {"keys", "weights"} and ROW in schema["features"]


Arrays = dict[str, np.ndarray]


def _changed(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {**arrays, name: change(arrays[name])}


def _first(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: np.concatenate([np.full(1, value, array.dtype), array[1:]])


@pytest.mark.parametrize("change, reason", [
    (_changed("lookup:hazards", lambda array: array[:-1]), "lookup:hazards must be .* doubles, .* for each of"),
    (_changed("lookup:hazards", lambda array: array.astype(np.int64)), "lookup:hazards must be .* doubles"),
    (_changed("lookup:hazards", _first(math.nan)), "lookup:hazards must be within 0 and 1000"),
    (_changed("lookup:hazards", _first(-0.1)), "lookup:hazards must be within 0 and 1000"),
    (_changed("lookup:hazards", _first(math.inf)), "lookup:hazards must be within 0 and 1000"),
    (_changed("lookup:hazards", _first(1e4)), "lookup:hazards must be within 0 and 1000"),
    (_changed("lookup:codes", lambda array: array[:-1]), "history.npz: lookup codes must be whole numbers"),
    (_changed("lookup:codes", lambda array: np.repeat(array[:1], len(array))), "lookup codes must name each key once"),
    (_changed("lookup:places", lambda array: array + 9), "lookup places must be below"),
    (_changed("lookup:places", lambda array: array.astype(np.float64)), "lookup places must be whole numbers"),
    (lambda arrays: {name: array for name, array in arrays.items() if name != "lookup:codes"},
     "history.npz must hold lookup:places, lookup:codes, lookup:hazards, got no lookup:codes"),
])  # fmt: skip
def test_a_table_that_is_none_is_refused_by_name(served: Served, tmp_path: Path, reason: str,
                                                 change: Callable[[Arrays], Arrays]) -> None:
    folder = Path(shutil.copytree(served.folder, tmp_path / "bundle"))
    arrays = read_arrays((folder / "history.npz").read_bytes())
    rewrite(folder, "history.npz", packed_arrays(change(arrays)))
    with pytest.raises(BundleError, match=reason):
        load_bundle(folder)


@pytest.mark.parametrize("change, reason", [
    (lambda schema: schema["lookup"].update(keys=["nobody"]), "lookup's keys must be history keys, each once"),
    (lambda schema: schema["lookup"].update(keys=schema["lookup"]["keys"] * 2), "history keys, each once"),
    (lambda schema: schema["lookup"].update(weights=[0.0]), "lookup:hazards must be"),
    (lambda schema: schema["lookup"].update(weights=[]), "lookup:hazards must be"),
    (lambda schema: schema["lookup"]["weights"].__setitem__(0, 1.5), "weights must be within 0 and 1"),
    (lambda schema: schema["lookup"]["weights"].__setitem__(0, "x"), "weights must be a number"),
    (lambda schema: schema.pop("lookup"), "features must be those that the encoder gives"),
    (lambda schema: schema.update(lookup=3), "schema.json must be complete"),
    (lambda schema: schema.update(kind="once"), "lookup must be of a hazard model, got one of kind once"),
])  # fmt: skip
def test_a_schema_that_does_not_fit_its_table_is_refused(served: Served, tmp_path: Path, reason: str,
                                                         change: Callable[[dict[str, Any]], object]) -> None:
    folder = Path(shutil.copytree(served.folder, tmp_path / "bundle"))
    rewrite_schema(folder, change)
    with pytest.raises(BundleError, match=reason):
        load_bundle(folder)


def test_a_trace_without_keys_has_one_curve(served: Served, tmp_path: Path) -> None:
    past = replace(served.split.past, keys=())
    model = KaplanMeierModel().fit(past, past, past, FitSettings())
    exported: Exported = model.export()
    assert exported.lookup is not None and exported.lookup.hazards.shape[0] == 1 and exported.lookup.is_all
    assert len(np.unique(model.curve_table(past).remaining(0.0))) == 1
    assert io.BytesIO(packed_arrays(exported.lookup.keys.to_arrays())).getbuffer().nbytes > 0
