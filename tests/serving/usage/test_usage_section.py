"""What is refused at loading a usage section: missing, changed, cut short, dishonest; whoever rehashed it."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_usage import made_contents, made_section, rehash
from sojourn.publishing import publish_files
from sojourn.serving import BundleError, UsagePredictor
from sojourn.serving.bundle import read_arrays, write_arrays
from sojourn.serving.usage import check_usage_files, load_usage

FILES = ("MANIFEST.json", "usage.json", "usage.npz")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_section(tmp_path / "section")


def test_what_is_written_is_read(folder: Path) -> None:
    section = load_usage(folder)
    assert section.version == check_usage_files(folder)
    assert (section.observed_s, sorted(section.classes), sorted(section.rows)) == (10_800, ["cpu", "mem"],
                                                                                   ["vm-1", "vm-2"])
    assert section.waves_of("vm-3") is None
    assert made_contents() == made_contents()


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(BundleError, match=rf"section/{name} must be a readable file of the usage section"):
        load_usage(folder)


@pytest.mark.parametrize("name", FILES[1:])
def test_a_changed_byte_is_refused(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(BundleError, match=rf"{name}: sha256 must be"):
        load_usage(folder)


@pytest.mark.parametrize(("content", "message"), [
    ("{}", "format_version must be 3, got None"), ("[]", "must hold a JSON object"), ("", "must be JSON"),
    ('{"format_version": 3, "sha256": {"model.onnx": "a"}}', "must name exactly usage.json, usage.npz"),
    ('{"format_version": 3, "sha256": {"usage.json": 1, "usage.npz": 2}}', "must be 64 digits"),
])  # fmt: skip
def test_a_bad_manifest_is_refused(folder: Path, content: str, message: str) -> None:
    (folder / "MANIFEST.json").write_text(content)
    with pytest.raises(BundleError, match=message):
        load_usage(folder)


@pytest.mark.parametrize("change", [
    {"format_version": 1}, {"format_version": None}, {"kind": "hazard"}, {"clock": None}, {"clock": {}},
    {"clock": {"start_unix_s": 0.5, "timezone": "UTC"}}, {"clock": {"start_unix_s": 2**60, "timezone": "UTC"}},
    {"clock": {"start_unix_s": 0, "timezone": "../../etc/passwd"}}, {"clock": {"start_unix_s": 0, "timezone": 7}},
    {"observed_s": 0}, {"observed_s": -5}, {"observed_s": 1e9}, {"observed_s": "x"}, {"request_ids": None},
    {"request_ids": ["a", "a"]}, {"request_ids": [1, 2]}, {"request_ids": ["a"]}, {"request_ids": ["a", "b", "c"]},
    {"request_ids": ["a" * 513, "b"]}, {"request_ids": {"a": 1}},
    {"surplus_rules": []}, {"surplus_rules": {"gpu": []}}, {"surplus_rules": {"cpu": ["hours"]}},
    {"surplus_rules": {"cpu": ["hours", "hours", "none"]}},
])  # fmt: skip
def test_a_bad_document_is_refused(folder: Path, change: dict[str, Any]) -> None:
    document = json.loads((folder / "usage.json").read_text())
    (folder / "usage.json").write_text(json.dumps({**document, **change}))
    rehash(folder)
    with pytest.raises(BundleError, match="usage"):
        load_usage(folder)


def _set(name: str, at: int, value: float) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name][at] = value
    return change


@pytest.mark.parametrize("change", [
    lambda arrays: arrays.pop("waves"), lambda arrays: arrays.pop("cpu_centres"),
    lambda arrays: arrays.pop("mem_means"),
    lambda arrays: arrays.update(other=np.ones(3)), lambda arrays: arrays.update(waves=np.ones(7)),
    lambda arrays: arrays.update(waves=np.ones((2, 5))), lambda arrays: arrays.update(cpu_ids=np.array([1, 1])),
    lambda arrays: arrays.update(cpu_ids=np.array([1.0, 2.0])), lambda arrays: arrays.update(cpu_ids=np.arange(0)),
    lambda arrays: arrays.update(cpu_ids=np.arange(300)), lambda arrays: arrays.update(cpu_ids=np.array([[1], [2]])),
    lambda arrays: arrays.update(cpu_centres=np.ones(191)), lambda arrays: arrays.update(cpu_centres=np.ones((2, 2))),
    lambda arrays: arrays.update(cpu_means=np.ones(192, np.int64)),
    lambda arrays: arrays.update(cpu_surplus=np.ones(2)),
    lambda arrays: arrays.update(cpu_n_members=np.ones(3, np.int64)),
    lambda arrays: arrays.update(cpu_n_members=np.array([3, -1])),
    _set("cpu_centres", 5, math.nan), _set("cpu_surplus", 5, math.inf), _set("cpu_means", 5, -0.1),
    _set("mem_centres", 0, 1e300), _set("waves", 0, math.nan), _set("waves", 1, 5.0), _set("waves", 2, 0.0),
    _set("waves", 2, math.nan), _set("waves", 3, math.inf), _set("waves", 4, 1.0), _set("waves", 5, 0.1),
    _set("waves", 22, math.inf), _set("waves", 27, math.inf), _set("waves", 11, 5.0), _set("waves", 32, math.inf),
    _set("waves", 37, math.inf),
])  # fmt: skip
def test_bad_arrays_are_refused(folder: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    arrays = dict(read_arrays((folder / "usage.npz").read_bytes()))
    change(arrays)
    packed = io.BytesIO()
    write_arrays(packed, arrays)
    (folder / "usage.npz").write_bytes(packed.getvalue())
    rehash(folder)
    with pytest.raises(BundleError, match=r"usage\.npz must hold the section's arrays"):
        load_usage(folder)


def test_a_size_that_lies_is_refused(folder: Path) -> None:
    header = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999,), }".ljust(
        117) + b"\n"
    with zipfile.ZipFile(folder / "usage.npz", "w") as archive:
        archive.writestr("waves.npy", header)
    rehash(folder)
    with pytest.raises(BundleError, match=r"usage\.npz must hold"):
        load_usage(folder)


@pytest.mark.parametrize(("name", "size"), [("MANIFEST.json", 1 << 16), ("usage.json", 1 << 25),
                                            ("usage.npz", 1 << 27)])
def test_a_large_file_is_refused_unread(folder: Path, name: str, size: int) -> None:
    with (folder / name).open("r+b") as file:
        file.truncate(size + 1)
    with pytest.raises(BundleError, match=rf"{name} must be at most {size} bytes, got {size + 1}"):
        load_usage(folder)


def test_arrays_that_grow_are_refused_before_they_are_held(folder: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("waves.npy", bytes(1 << 25))
        archive.writestr("more.npy", bytes((1 << 25) - 1024))
    content = packed.getvalue().replace(b"\x00\x00\x00\x02", b"\x00\x00\x00\x09")  # sizes say 144 MiB
    (folder / "usage.npz").write_bytes(content)
    rehash(folder)
    with pytest.raises(BundleError, match=r"usage\.npz must .*, got ValueError: arrays of"):
        load_usage(folder)


@settings(max_examples=60)
@given(name=st.sampled_from(FILES[1:]), at=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255),
       cut=st.booleans())
def test_damage_is_refused_or_answers_are_numbers(tmp_path_factory: pytest.TempPathFactory, name: str, at: float,
                                                  byte: int, cut: bool) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "section"
    contents = made_contents()
    damaged = bytearray(contents[name])
    place = int(at * len(damaged))
    if cut:
        del damaged[place:]
    else:
        damaged[place] = byte
    publish_files(folder, {**contents, name: bytes(damaged)}, "MANIFEST.json")
    rehash(folder)
    try:
        predictor = UsagePredictor.load(folder)
    except BundleError as error:
        assert "usage." in str(error)
        return
    predictor.observe("a", 0, 0.5)
    for request_id in ("a", "vm-1"):
        answer = predictor.usage(request_id)
        assert math.isfinite(answer.at(5)) and math.isfinite(answer.peak(0, 1e5))
