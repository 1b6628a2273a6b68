"""What is refused at loading: each file missing, changed, cut short, of another version, or dishonest."""

from __future__ import annotations

import io
import math
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_bundles import Made, rewrite, rewrite_schema
from sojourn.serving import BundleError, Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import FILES

KINDS = ("hazard", "hazard-limit", "uptime", "once")


@pytest.fixture
def folder(made: Made, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.folders["hazard"], tmp_path / "bundle"))


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"nowhere/MANIFEST.json must be a readable file.*No such file"):
        Predictor.load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", [*FILES, "MANIFEST.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(BundleError, match=rf"bundle/{name} must be a readable file of the bundle, got No such file"):
        load_bundle(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_refused_with_both_hashes(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(BundleError, match=rf"{name}: sha256 must be \w{{64}} \(MANIFEST.json\), got \w{{64}}"):
        load_bundle(folder)


@pytest.mark.parametrize(("content", "message"), [
    (b"", "MANIFEST.json must be JSON"),
    (b"\xff", "MANIFEST.json must be JSON"),
    (b"[" * 60_000, "MANIFEST.json must be JSON"),
    (b"[1]", "MANIFEST.json must hold a JSON object, got list"),
    (b"{}", "format_version must be 2, got None"),
    (b'{"format_version": 1}', "format_version must be 2, got 1; make the bundle anew"),
    (b'{"format_version": 2}', "sha256 must name exactly model.onnx, schema.json, history.npz"),
    (b'{"format_version": 2, "sha256": {"model.onnx": 1, "other": 2}}', "sha256 must name exactly"),
])  # fmt: skip
def test_a_bad_manifest_is_refused(folder: Path, content: bytes, message: str) -> None:
    (folder / "MANIFEST.json").write_bytes(content)
    with pytest.raises(BundleError, match=message):
        load_bundle(folder)


@pytest.mark.parametrize(("change", "message"), [
    (lambda s: s.update(format_version=1), "format_version must be 2, got 1"),
    (lambda s: s.update(kind="other"), "kind must be one of hazard, hazard-limit, uptime, once, got 'other'"),
    (lambda s: s.pop("family"), "schema.json must be complete, got KeyError: 'family'"),
    (lambda s: s.pop("features"), "schema.json must be complete, got KeyError: 'features'"),
    (lambda s: s["features"].pop(), "features must be those that the encoder gives"),
    (lambda s: s.update(features=None), "schema.json must be complete"),
    (lambda s: s["edges"].reverse(), "edges must rise from 0"),
    (lambda s: s["offsets"].pop(), "one offset per interval"),
    (lambda s: s.update(tail_s=0.0), "tail_s at least 1"),
    (lambda s: s.update(tail_s=math.nan), "tail_s at least 1"),
    (lambda s: s.update(edges=[0.0, 1e300]), "numbers must be within 1e[+]12"),
    (lambda s: s.update(phase_s=1.5), "schema.json must be complete, got TypeError"),
    (lambda s: s["age_features"]["sources"].append(["nobody", "log10"]), "schema.json must be complete, got KeyError"),
    (lambda s: s["age_features"]["sources"].append(["hour", "months"]), "schema.json must be complete, got KeyError"),
    (lambda s: s["age_features"]["sources"].pop(), "features must be those that the encoder gives"),
    (lambda s: s["age_features"]["ages_s"].pop(), "schema.json must be complete, got ValueError"),
    (lambda s: s["age_features"]["ages_s"].reverse(), "ages_s must rise from above 0"),
    (lambda s: [s["age_features"][name].pop() for name in ("ages_s", "log_ages")], "must name one age per interval"),
    (lambda s: s["history"].update(window="16"), "window must be a whole number >= 1, got '16'"),
    (lambda s: s["history"].update(surprise=1), "schema.json must be complete, got TypeError"),
    (lambda s: s["history"]["keys"].append({"name": "x", "columns": ["x"], "kind": "owner"}), "must use known columns"),
])  # fmt: skip
def test_a_bad_schema_is_refused(folder: Path, change: Callable[[dict[str, Any]], object], message: str) -> None:
    rewrite_schema(folder, change)
    with pytest.raises(BundleError, match=message):
        load_bundle(folder)


def test_extra_keys_and_files_do_no_harm(folder: Path) -> None:
    rewrite_schema(folder, lambda schema: schema.update(note="read me", another=[1, 2]))
    (folder / "README.txt").write_text("not ours")
    assert load_bundle(folder).schema.document["note"] == "read me"


def test_a_history_of_another_definition_is_refused(folder: Path) -> None:
    rewrite_schema(folder, lambda schema: schema["history"].update(window=1))
    with pytest.raises(BundleError, match=r"history.npz must .*, got ValueError"):
        load_bundle(folder)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_history_is_refused(folder: Path, share: float) -> None:
    content = (folder / "history.npz").read_bytes()
    rewrite(folder, "history.npz", content[:int(len(content) * share)])
    with pytest.raises(BundleError, match=r"history.npz must hold the schema's history, got"):
        load_bundle(folder)


def test_pickles_are_never_read(folder: Path) -> None:
    stream = io.BytesIO()
    np.savez(stream, overall=np.array([print], dtype=object))
    rewrite(folder, "history.npz", stream.getvalue())
    with pytest.raises(BundleError, match="which is not of plain numbers"):
        load_bundle(folder)


def test_an_archive_that_claims_too_much_is_refused(folder: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("overall.npy", "w") as file:
        for _ in range(100):
            file.write(bytes(1 << 20))
    rewrite(folder, "history.npz", stream.getvalue())
    with pytest.raises(BundleError, match=r"arrays of 104857600 bytes, more than 6\d{6}"):
        load_bundle(folder)


def test_a_model_of_another_kind_is_refused(made: Made, folder: Path) -> None:
    n_features = load_bundle(folder).schema.n_features
    rewrite(folder, "model.onnx", (made.folders["once"] / "model.onnx").read_bytes())
    with pytest.raises(BundleError, match=rf"model.onnx must take doubles of shape \(n, {n_features}\)"):
        Predictor.load(folder)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=25)
def test_a_mutated_bundle_is_refused_or_answers(made: Made, tmp_path: Path, kind: str, data: st.DataObject) -> None:
    """Whether the manifest vouches for the change or not: BundleError, or one answer by both paths."""
    folder = tmp_path / "mutated"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(made.folders[kind], folder)
    name = data.draw(st.sampled_from([*FILES, "MANIFEST.json"]))
    content = bytearray((folder / name).read_bytes())
    first, second = sorted(data.draw(st.tuples(*[st.integers(0, len(content) - 1)] * 2)))
    match data.draw(st.sampled_from(["byte", "cut", "drop", "swap", "double", "zero"])):
        case "byte":
            content[first] = data.draw(st.integers(0, 255))
        case "cut":
            del content[first:]
        case "drop":
            del content[first:min(second, first + 40)]
        case "swap":
            size = min(second - first, len(content) - second, 30)
            content[first:first + size], content[second:second + size] = (content[second:second + size],
                                                                          content[first:first + size])
        case "double":
            content[first:first] = content[first:min(second, first + 40)]
        case "zero":
            content[first:min(second, first + 40)] = bytes(min(second - first, 40))
    if name == "MANIFEST.json" or data.draw(st.integers(0, 3)) == 0:
        (folder / name).write_bytes(content)
    else:
        rewrite(folder, name, bytes(content))
    try:
        bundle = load_bundle(folder)
        predictor = Predictor(bundle)
    except BundleError as error:
        assert str(error)
        return
    request = {column: value for column, value in made.request(7).items() if column in predictor.info()["columns"]}
    curve = predictor.predict(request, 3_000).curve
    answers = [curve.remaining(0), curve.remaining(7_200), curve.quantile(0.5, 60), curve.survival(60, 60)]
    assert all(0.0 <= answer < math.inf for answer in answers)
    features = bundle.schema.encoder.encode(bundle.schema.encoder.parse(request), 3_000, bundle.history)
    assert CurveBuilder(bundle.schema, bundle.model, is_compiled=False).curve(features) == curve
