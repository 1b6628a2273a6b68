"""Curves for a later part: never from a model that saw it, and none that are damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from made_bundles import make, rewrite
from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.split import split_by_time
from sojourn.features.synthetic import synthesize
from sojourn.flows.compare.cells import cut_s
from sojourn.flows.compare.comparison import learn
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.placement.predictors import Learning, fitted_curves, parse_predictor
from sojourn.flows.placement.workloads import TraceSpec
from sojourn.flows.retrain import ingest as ingesting
from sojourn.flows.retrain.ingest import content_hash


def _spec(store: Path) -> TraceSpec:
    return CompareConfig(store=store, n_requests=1_500).trace_specs()[0]


def _learnt(spec: TraceSpec, folder: Path, training: dict[str, Any]) -> str:
    """Why a bundle with these words on its training is refused, or ""."""
    schema = json.loads((folder / "schema.json").read_bytes())
    rewrite(folder, "schema.json", json.dumps({**schema, "training": training}, sort_keys=True).encode())
    predictor = parse_predictor(f"bundle:{folder}")
    return learn((spec, [predictor]), 1).get(predictor.learnt_name, "")


def test_a_bundle_that_saw_the_later_part_is_refused_whatever_code_reads_the_trace(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, folder = _spec(tmp_path / "store"), make(tmp_path, has_limits=False).folders["hazard"]
    own = {"content_hash": content_hash(spec.source), "data_hash": spec.data_hash}
    learn((spec, []), 1)
    from_s = cut_s(spec)
    assert from_s is not None
    assert "must be trained on requests before second" in _learnt(spec, folder, {**own, "to_s": from_s + 1})
    monkeypatch.setattr(ingesting, "trace_code", lambda: "edited")
    edited = _spec(tmp_path / "store")
    assert edited.data_hash != spec.data_hash
    assert "must be trained on requests before second" in _learnt(edited, folder, {**own, "to_s": from_s + 1})
    assert _learnt(edited, folder, {**own, "to_s": from_s}) == ""
    assert _learnt(edited, folder, {**own, "content_hash": "another", "to_s": from_s + 2}) == ""


def test_a_bundle_is_replayed_on_a_trace_without_its_categories(tmp_path: Path) -> None:
    folder, trace = make(tmp_path, has_limits=False).folders["hazard"], synthesize(300, seed=4)
    schema = json.loads((folder / "schema.json").read_bytes())
    training = {"content_hash": "another", "to_s": 0}
    rewrite(folder, "schema.json", json.dumps({**schema, "training": training}, sort_keys=True).encode())
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)

    def curves(requests: pd.DataFrame) -> tuple[int, float]:
        roles = replace(trace.roles, **{kind: tuple(name for name in getattr(trace.roles, kind) if name in requests)
                                        for kind in ("owners", "categories")})
        known = Learning(replace(trace, requests=requests, roles=roles), "", encoder, rows, split_by_time(rows), 0)
        ids, found = fitted_curves(parse_predictor(f"bundle:{folder}"), known, 1)
        return len(ids), float(found.total_s.sum())

    whole, names = curves(trace.requests), ["zone", "vm_category"]
    without = curves(trace.requests.drop(columns=names))
    assert without == curves(trace.requests.assign(**dict.fromkeys(names, None))) != whole
    assert without[0] == whole[0] > 0
    with pytest.raises(ValueError, match="got none of subscription, deployment, zone"):
        curves(trace.requests.drop(columns=[*names, "subscription", "deployment"]))


@pytest.mark.parametrize("damage", [
    lambda content: b"", lambda content: content[:-1], lambda content: content[:len(content) // 2],
    lambda content: content.replace(b"overhang_s.npy", b"overhung_s.npy"),
    lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
])
def test_damaged_curves_are_learnt_again(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    spec, km = _spec(tmp_path), parse_predictor("km")
    assert learn((spec, [km]), 1) == {}
    (file,) = (tmp_path / "curves").glob("*.npz")
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert learn((spec, [km]), 1) == {}
    assert file.read_bytes() == whole


@pytest.mark.parametrize("text", ["", '{"from_s": 16', "[]", "{}"])
def test_a_damaged_cut_is_made_again(tmp_path: Path, text: str) -> None:
    spec = _spec(tmp_path)
    assert learn((spec, []), 1) == {}
    (file,) = (tmp_path / "curves").glob("cut-*.json")
    whole = file.read_bytes()
    file.write_text(text)
    assert cut_s(spec) is None
    assert learn((spec, []), 1) == {}
    assert file.read_bytes() == whole


@pytest.mark.parametrize("training", [{}, {"data_hash": "0", "to_s": 0}, {"content_hash": "0"}])
def test_a_bundle_that_does_not_say_what_it_saw_is_refused(tmp_path: Path, training: dict[str, Any]) -> None:
    reason = _learnt(_spec(tmp_path / "store"), make(tmp_path).folders["hazard"], training)
    assert "must name its training data" in reason
