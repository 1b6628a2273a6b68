"""Bundles whose author means harm, their hashes right: refused by name, or answered alike on both paths."""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import stat
import struct
import subprocess
import sys
import threading
import warnings
import zipfile
import zlib
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from made_bundles import Made, rewrite
from made_forests import made_bundle, random_forest
from mutations import RAW, paths, with_raw
from sojourn.models import to_onnx
from sojourn.models.bundle_writer import packed_arrays
from sojourn.serving import Bundle, BundleError, Predictor, load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import FILES, MANIFEST, read_arrays
from sojourn.serving.bundle.bundle import EXPANSION_MAX, MANIFEST_N_BYTES_MAX, N_BYTES_FREE, N_BYTES_MAX
from sojourn.serving.checks import HISTORY_MAX, N_BACKGROUND_MAX, N_COLUMNS_MAX, N_INTERVALS_MAX, N_KEYS_MAX
from sojourn.serving.curves import N_STEPS_MAX
from sojourn.serving.forest import LEQ, Forest, read_forest
from sojourn.serving.forest.forest import DEPTH_MAX

KINDS = ("hazard", "hazard-limit", "uptime", "once")
UPTIMES_S = (0.0, 60.0, 7_200.0, 1e12, 1e300)


@pytest.fixture
def folder(made: Made, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.folders["hazard"], tmp_path / "bundle"))


def is_refused(folder: Path, request: dict[str, Any]) -> bool:
    """Whether the bundle is; where it is not, its answers are finite and those of both paths equal."""
    try:
        bundle = load_bundle(folder)
        predictor = Predictor(bundle)
    except BundleError as error:
        assert 0 < len(str(error)) < 2_000
        assert any(name in str(error) for name in (*FILES, MANIFEST))
        return True
    encoder = bundle.schema.encoder
    request = {column: value for column, value in request.items() if column in encoder.columns()}
    try:
        vm = predictor.predict(request, 3_000)
    except ValueError as error:  # the mutation made text of a number, or the other way round
        assert " must be " in str(error)
        return False
    slow = CurveBuilder(bundle.schema, bundle.model, is_compiled=False).curve(vm.features)
    for uptime_s in UPTIMES_S:
        answers = [vm.remaining(uptime_s), vm.quantile(0.5, uptime_s), vm.survival(60.0, uptime_s)]
        assert all(0.0 <= answer < math.inf for answer in answers) and answers[2] <= 1.0
        assert answers == [slow.remaining(uptime_s), slow.quantile(0.5, uptime_s), slow.survival(60.0, uptime_s)]
        assert vm.next_change(uptime_s) > uptime_s
    return False


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_the_schema_mutated(made: Made, tmp_path: Path, kind: str) -> None:
    folder = Path(shutil.copytree(made.folders[kind], tmp_path / "bundle"))
    whole = json.loads((folder / "schema.json").read_bytes())
    request = made.request(7)
    half = KINDS.index(kind) % 2
    elsewhere = {path for other in KINDS[1 - half::2]
                 for path in paths(json.loads((made.folders[other] / "schema.json").read_bytes()))}
    n_refused = n_all = 0
    for path in paths(whole):
        for raw in [None, *RAW][half::2] if path in elsewhere else [None, *RAW]:  # the others are tried elsewhere
            rewrite(folder, "schema.json", with_raw(whole, path, raw).encode())
            n_refused += is_refused(folder, request)
            n_all += 1
    assert 0.3 * n_all < n_refused < n_all


@pytest.mark.slow
@pytest.mark.parametrize("name", ["numbers", "names", "features", "edges", "offsets", "grid", "background", "history",
                                  "age_features", "family", "kind", "phase_s", "tail_s"])  # fmt: skip
@pytest.mark.parametrize("raw", ["[" + "0," * 999_999 + "0]", '"' + "z" * 1_000_000 + '"'], ids=["list", "text"])
def test_a_field_of_a_million_elements_is_refused(folder: Path, name: str, raw: str) -> None:
    schema = json.loads((folder / "schema.json").read_bytes()) | {name: "@here@"}
    rewrite(folder, "schema.json", json.dumps(schema).replace('"@here@"', raw).encode())
    assert is_refused(folder, {})


@pytest.mark.parametrize("name", ["schema.json", MANIFEST])
def test_a_name_that_stands_twice_is_refused(folder: Path, name: str) -> None:
    text = (folder / name).read_text().rstrip()
    changed = text[:-1] + ', "format_version": 2}'
    if name == MANIFEST:
        (folder / name).write_text(changed)
    else:
        rewrite(folder, name, changed.encode())
    with pytest.raises(BundleError, match=rf"{name} must be JSON, got an object of \d+ members, but \d+ names"):
        load_bundle(folder)


def owner_key(idx: int) -> dict[str, Any]:
    return {"name": f"k{idx}", "columns": ["zone"], "kind": "owner"}


@pytest.mark.parametrize(("change", "message"), [
    ({"numbers": [f"n{idx}" for idx in range(N_COLUMNS_MAX + 1)]}, "numbers must have at most 256 elements, got 257"),
    ({"names": [f"n{idx}" for idx in range(N_COLUMNS_MAX)]}, "numbers and names must have at most 256 elements, got 2"),
    ({"edges": list(range(N_INTERVALS_MAX + 2))}, "edges must have at most 1001 elements, got 1002"),
    ({"edges": [0.0, 5e-324]}, "edges must rise from 0 by 0.001 or more"),
    ({"residuals": [0.0] * 10_001}, "residuals must have at most 10000 elements"),
    ({"phase_s": 2**63}, "phase_s must be within 9007199254740992, got 9223372036854775808"),
    ({"phase_s": 10**4_000}, "phase_s must be within 9007199254740992, got 1000000"),
    ({"history": {"keys": [owner_key(idx) for idx in range(N_KEYS_MAX + 1)]}}, "history keys must have at most 64"),
    ({"history": {"keys": [owner_key(0) | {"columns": ["zone"] * 17}]}}, "columns of a history key must have at most"),
    ({"history": {"keys": [owner_key(0) | {"name": "z" * 513}]}}, "must be text of at most 512 characters"),
    *[({"history": {"keys": [], name: most + 1}}, f"{name} must be at most {most}")
      for name, most in HISTORY_MAX.items()],
    ({"history": {"keys": [], "prior_strength": 10**400}}, "OverflowError"),
    pytest.param({"background": [[0.0]] * (N_BACKGROUND_MAX + 1)}, "background must have at most 64 elements, got 65",
                 marks=pytest.mark.slow),
])  # fmt: skip
def test_what_goes_beyond_a_limit_is_refused_with_it(folder: Path, change: dict[str, Any], message: str) -> None:
    schema = json.loads((folder / "schema.json").read_bytes())
    rewrite(folder, "schema.json", json.dumps(schema | change).encode())
    with pytest.raises(BundleError, match=message) as caught:
        Predictor.load(folder)
    assert len(str(caught.value)) < 500


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_region_of_the_model_mutated(made: Made, tmp_path: Path, kind: str) -> None:
    folder = Path(shutil.copytree(made.folders[kind], tmp_path / "bundle"))
    content = (folder / "model.onnx").read_bytes()
    request, n_refused, n_all = made.request(7), 0, 0
    places = np.unique(np.concatenate([np.arange(120), np.linspace(0, len(content) - 9, 150, dtype=int)])).tolist()
    for at in places[KINDS.index(kind) % 2::2]:
        for piece in (bytes([content[at] ^ 1]), bytes([content[at] ^ 128]), bytes(8), b"\xff" * 8, b"\x80" * 12):
            rewrite(folder, "model.onnx", content[:at] + piece + content[at + len(piece):])
            n_refused += is_refused(folder, request)
            n_all += 1
    assert 0.2 * n_all < n_refused < n_all


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_byte_of_a_small_model_with_zeros_marked(kind: str) -> None:
    """The graph's constants and wires, every second byte changed: refused, or the same answers by both paths.

    The bytes between them are changed in the models of two other kinds.
    """
    rng = np.random.default_rng(3)
    forest = random_forest(rng, kind, n_trees=1, depth=2)
    while not forest.is_zero_missing.any():
        forest = random_forest(rng, kind, n_trees=1, depth=2)
    bundle = made_bundle(forest, kind)
    row = [1.0, 0.0, math.nan, 3.0, 5.0, 2.0]
    n_refused = 0
    places = range(KINDS.index(kind) % 2, len(bundle.model), 2)
    for at in places:
        model = bytes([*bundle.model[:at], bundle.model[at] ^ (1 << at % 8), *bundle.model[at + 1:]])
        try:
            fast = CurveBuilder(bundle.schema, model).curve(row)
        except BundleError:
            n_refused += 1
            continue
        slow = CurveBuilder(bundle.schema, model, is_compiled=False).curve(row)
        for uptime_s in UPTIMES_S:
            assert fast.remaining(uptime_s) == slow.remaining(uptime_s)
    assert n_refused > len(places) // 3


def deep_forest(n_features: int, depth: int = 1) -> Forest:
    """A tree that is a single row of nodes; made as it is, for a Forest would not take a deep one."""
    nodes = np.arange(depth)
    return cast(Forest, SimpleNamespace(
        n_features=n_features, roots=np.array([0]), feature=np.zeros(depth, int), split=-nodes.astype(float),
        mode=np.full(depth, LEQ, np.uint8), on_true=~nodes, on_false=np.array([*range(1, depth), ~depth]),
        is_nan_true=np.zeros(depth, bool), leaves=np.zeros(depth + 1), member_start=np.zeros(depth + 1, int),
        members=np.zeros(0), is_zero_missing=np.zeros(n_features, bool),
    ))  # fmt: skip


def test_a_tree_that_would_overflow_the_runtimes_stack_is_refused_before_it_sees_it() -> None:
    assert read_forest(to_onnx(deep_forest(3, DEPTH_MAX)), 3).depth() == DEPTH_MAX
    schema = made_bundle(random_forest(np.random.default_rng(0), "once"), "once").schema
    for depth in (DEPTH_MAX + 1, 100_000):
        with pytest.raises(BundleError, match=r"model.onnx must hold one .*: trees must be at most 1000 nodes deep"):
            CurveBuilder(schema, to_onnx(deep_forest(schema.n_features, depth)))


def comb_bundle(splits: np.ndarray) -> Bundle:
    """An uptime model with one tree for each split on the uptime."""
    n, n_features = len(splits), 7
    forest = Forest(
        n_features, np.arange(n), np.full(n, n_features - 1), splits, np.full(n, LEQ, np.uint8),
        ~np.arange(0, 2 * n, 2), ~np.arange(1, 2 * n, 2), np.zeros(n, bool), np.zeros(2 * n),
        np.zeros(n + 1, np.int64), np.zeros(0), np.zeros(n_features, bool),
    )  # fmt: skip
    return made_bundle(forest, "uptime")


@pytest.mark.parametrize(("splits", "is_met"), [
    (np.arange(N_STEPS_MAX, dtype=float), True), (np.arange(N_STEPS_MAX + 1, dtype=float), False),
    (np.array([1e12, np.inf]), True), (np.array([1e13]), False), (np.array([-1e13]), False),
])  # fmt: skip
def test_uptime_steps_are_bounded_in_number_and_size(splits: np.ndarray, is_met: bool) -> None:
    bundle = comb_bundle(splits)
    if is_met:
        assert len(CurveBuilder(bundle.schema, bundle.model).grid) == np.isfinite(splits).sum() + 1
    else:
        with pytest.raises(BundleError, match=r"model.onnx: uptime steps must be at most 4096, within 1e[+]12 s, got"):
            CurveBuilder(bundle.schema, bundle.model)


def npy(descr: str, shape: str, data: bytes, version: bytes = b"\x01\x00") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + data


def zipped(entries: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that stand twice
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return stream.getvalue()


EIGHT = bytes(16)


@pytest.mark.parametrize(("content", "message"), [
    (npy("'<f8'", "(2,)", EIGHT[:-1]), r"of shape \(2,\) in 15 bytes"),
    (npy("'<f8'", "(2,)", EIGHT + b"0"), r"of shape \(2,\) in 17 bytes"),
    (npy("'<f8'", "(999999999999,)", EIGHT), r"of shape \(999999999999,\) in 16 bytes"),
    (npy("'<f8'", "(99999999999999999999,)", EIGHT), "not of plain numbers"),
    (npy("'<f8'", "(-2,)", EIGHT), "not of plain numbers"),
    (npy("'<f8'", "()", EIGHT[:8]), "not of plain numbers"),
    (npy("'<f8'", "(1, 1, 2)", EIGHT), "not of plain numbers"),
    (npy("'|O'", "(2,)", EIGHT), "not of plain numbers"),
    (npy("'<f8'", "(2,)", EIGHT).replace(b"False", b"True "), "not of plain numbers"),  # Fortran order
    (npy("'>f8'", "(2,)", EIGHT), "not of plain numbers"),
    (npy("[('a', '<f8')]", "(2,)", EIGHT), "not of plain numbers"),
    (npy("__import__('os').system('true')", "(2,)", EIGHT), "not of plain numbers"),
    (npy("'<f8'", "(2,)", EIGHT, version=b"\x02\x00"), "not of plain numbers"),
    (b"\x93NUMPY\x01\x00\xff\xff", "not of plain numbers"), (b"", "not of plain numbers"),
])  # fmt: skip
def test_an_array_that_is_not_plain_is_refused_by_name(folder: Path, content: bytes, message: str) -> None:
    rewrite(folder, "history.npz", zipped([("overall.npy", content)]))
    with pytest.raises(BundleError, match=rf"history.npz must hold .* array 'overall'.*{message}"):
        load_bundle(folder)


@pytest.mark.slow
def test_every_array_of_the_history_changed(made: Made, folder: Path) -> None:
    arrays = made.history.to_arrays()
    for name, array in arrays.items():
        other = np.int64 if array.dtype == np.float64 else np.float64
        changes = [array[:0], array[:-1], np.append(array, array[-1:], axis=0), array.astype(other), array[None, :],
                   np.full_like(array, 255 if array.dtype == np.uint8 else np.iinfo(np.int64).max)]  # fmt: skip
        if array.dtype != np.uint8:
            changes += [-array, array * 0, np.full_like(array, -(2**63))]
        if array.dtype == np.float64:
            changes += [np.full_like(array, value) for value in (np.nan, np.inf, 1e308)]
        for changed in changes:
            rewrite(folder, "history.npz", packed_arrays(arrays | {name: changed}))
            is_refused(folder, made.request(7))
        rewrite(folder, "history.npz", packed_arrays({other: arrays[other] for other in arrays if other != name}))
        with pytest.raises(BundleError, match=f"KeyError: '{name}'"):
            load_bundle(folder)


FLOOD = b"PK\x01\x02" + bytes(42)
"""An entry of an archive's directory with no name: zipfile would make an object of each."""


def said(archive: bytes, size: int) -> bytes:
    """An archive whose directory gives its first entry another size."""
    at = archive.index(b"PK\x01\x02") + 24
    return archive[:at] + struct.pack("<I", size) + archive[at + 4:]


def test_archives_that_are_not_as_written_are_refused(made: Made, folder: Path) -> None:
    whole = (folder / "history.npz").read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        entries = [(name, archive.read(name)) for name in archive.namelist()]
    encrypted = bytearray(whole)
    for at in (whole.index(b"PK\x03\x04") + 6, whole.index(b"PK\x01\x02") + 8):
        encrypted[at] |= 1
    longer = bytearray(whole)  # the directory says more bytes than there are
    longer[whole.index(b"PK\x01\x02") + 24] ^= 64
    for content, message in [
        (zipped([*entries, entries[0]]), "twice"), (bytes(encrypted), "encrypted"),
        (zipped([*entries, (entries[0][0].removesuffix(".npy"), entries[0][1])]), "twice"),
        (whole.replace(b"0:last.npy", b"1:last.npy", 1), "File name in directory '0:last.npy' and header"),
        (said(whole, 7), r"of at least 8 bytes, where the archive says 7"),
        (said(whole, 10**6), "bytes, where the archive says 1000000"),
        (whole[:-22] + FLOOD * 20_000 + whole[-22:], r"200\d\d entries, more than 1000"),
        (zipped(entries, zipfile.ZIP_LZMA), "compressed otherwise than by deflate"), (bytes(longer), ""),
        (zipped(entries[1:]), "KeyError"), (b"PK\x05\x06" + bytes(18), "KeyError: 'overall'"),
        (zipped([(f"{idx}.npy", b"") for idx in range(1_001)]), "1001 entries, more than 1000"),
    ]:  # fmt: skip
        rewrite(folder, "history.npz", content)
        with pytest.raises(BundleError, match=rf"history.npz must hold the schema's history, got .*{message}"):
            load_bundle(folder)


def test_names_in_an_archive_are_only_names(made: Made, folder: Path) -> None:
    arrays = made.history.to_arrays()
    outside = {"../../../out": np.zeros(2), "/etc/passwd": np.zeros(2), "C:\\out": np.zeros(2)}
    rewrite(folder, "history.npz", packed_arrays(arrays | outside))
    before = sorted(folder.parent.rglob("*"))
    assert not is_refused(folder, made.request(7))
    assert sorted(folder.parent.rglob("*")) == before


class Canary:
    """A pickle that leaves a file behind when it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


def test_no_pickle_is_run(folder: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    stream = io.BytesIO()
    np.savez(stream, overall=np.array([Canary(canary)], dtype=object))
    with np.load(io.BytesIO(stream.getvalue()), allow_pickle=True) as arrays:
        assert arrays["overall"] is not None and canary.exists()  # it would have
    canary.unlink()
    pickled = zipfile.ZipFile(stream).read("overall.npy")
    for content in (stream.getvalue(), pickled, zipped([("overall", pickled)]), zipped([("overall", pickled[128:])])):
        for name in FILES:
            rewrite(folder, name, content)
            with pytest.raises(BundleError):
                Predictor.load(folder)
    assert not canary.exists()


def test_files_in_each_others_place_are_refused(made: Made, folder: Path) -> None:
    contents = {name: (made.folders["hazard"] / name).read_bytes() for name in FILES}
    for name in FILES:
        for other in {*FILES} - {name}:
            for each, content in contents.items():
                rewrite(folder, each, contents[other] if each == name else content)
            assert is_refused(folder, made.request(7))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.999])
def test_every_truncation_is_refused(made: Made, folder: Path, name: str, share: float) -> None:
    content = (folder / name).read_bytes()
    rewrite(folder, name, content[:int(share * len(content))])
    if name == "schema.json" and share > 0.99:
        assert content[int(share * len(content)):].strip()
    assert is_refused(folder, made.request(7))


@pytest.mark.parametrize("hashed", ["", "0" * 63, "0" * 65, "0" * 10_000, "../../etc/passwd", None, 0, [], {}, True])
def test_a_hash_that_is_none_is_refused(folder: Path, hashed: Any) -> None:
    manifest = json.loads((folder / MANIFEST).read_bytes())
    manifest["sha256"]["schema.json"] = hashed
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match=r"MANIFEST.json: sha256 of schema.json must be 64 digits, got") as caught:
        load_bundle(folder)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "README.txt", "", "model.onnx\0", "MANIFEST.json"])
def test_a_manifest_names_no_other_file(folder: Path, name: str) -> None:
    manifest = json.loads((folder / MANIFEST).read_bytes())
    manifest["sha256"][name] = "0" * 64
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match=r"sha256 must name exactly model.onnx, schema.json, history.npz"):
        load_bundle(folder)


def test_a_path_that_is_no_folder_is_refused(made: Made, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "file", tmp_path / "loop", Path("z" * 5_000), Path("/dev/null")):
        with pytest.raises(BundleError, match=r"MANIFEST.json must be a readable file of the bundle, got"):
            load_bundle(path)
    (tmp_path / "linked").symlink_to(made.folders["hazard"])
    assert load_bundle(tmp_path / "linked").version == load_bundle(made.folders["hazard"]).version


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_a_file_may_be_a_link_to_one_as_mounts_make_them(made: Made, folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")
    assert load_bundle(folder).version == load_bundle(made.folders["hazard"]).version


LOADS = """
import resource, sys
from pathlib import Path
from sojourn.serving import BundleError, Predictor
def peak_kib():  # not getrusage, which counts the parent's memory in
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
before = peak_kib()
try:
    Predictor.load(sys.argv[1])
    said = "loaded"
except BundleError as error:
    said = str(error)
print(peak_kib() - before >> 10, said)
"""


def loaded_apart(folder: Path) -> tuple[int, str]:
    """MiB that loading took in a process of its own, which may map 1.5 GiB more; and what came of it."""
    run = subprocess.run([sys.executable, "-c", LOADS, str(folder), str(3 << 29)], capture_output=True, text=True,
                         timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    n_mib, said = run.stdout.strip().split(" ", 1)
    return int(n_mib), said


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
@pytest.mark.parametrize("kind", ["fifo", "folder", "zeros", "socket"])
def test_what_is_no_regular_file_is_refused_at_once(folder: Path, name: str, kind: str) -> None:
    path = folder / name
    path.unlink()
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "zeros":
            path.symlink_to("/dev/zero")
        case "socket":
            os.mknod(path, stat.S_IFSOCK | 0o600)
    watchdog = threading.Timer(30.0, lambda: os._exit(1))  # a hang would be one for ever
    watchdog.start()
    try:
        with pytest.raises(BundleError, match=f"{name} must be a readable file of the bundle, got"):
            load_bundle(folder)
    finally:
        watchdog.cancel()


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_a_file_over_its_limit_is_refused_unread(folder: Path, name: str) -> None:
    limit = {MANIFEST: MANIFEST_N_BYTES_MAX, **N_BYTES_MAX}[name]
    with (folder / name).open("r+b") as file:
        file.truncate(limit + 1)  # sparse: takes no room
    with pytest.raises(BundleError, match=f"{name} must be at most {limit} bytes, got {limit + 1}"):
        load_bundle(folder)


@cache
def zeros(n_mib: int) -> bytes:
    """An archive of an array of zeros, a thousandth of its size."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("overall.npy", "w") as file:
        file.write(npy("'<f8'", f"({n_mib << 17},)", b""))
        for _ in range(n_mib):
            file.write(bytes(1 << 20))
    return stream.getvalue()


@pytest.mark.slow
def test_a_bomb_is_refused_and_does_not_fill_memory(folder: Path) -> None:
    bomb = zeros(900)
    assert len(bomb) < 1 << 20
    rewrite(folder, "history.npz", bomb)
    n_mib, told = loaded_apart(folder)
    assert "history.npz must hold" in told and f"more than {N_BYTES_FREE + EXPANSION_MAX * len(bomb)}" in told
    assert n_mib < 100
    rewrite(folder, "history.npz", zipped([("overall.npy", npy("'<f8'", f"({10**11},)", b""))]))
    n_mib, told = loaded_apart(folder)
    assert "of shape (100000000000,) in 0 bytes" in told and n_mib < 100


@pytest.mark.parametrize("size", [0, 128, 128 + 8_000_000])
def test_a_bomb_that_lies_about_its_size_is_refused_before_it_grows(folder: Path, size: int) -> None:
    """The directory says little, the data inflates to 300 MiB, and its checksum vouches for what it says."""
    with_lie = said(zeros(300), size)
    at = with_lie.index(b"PK\x01\x02") + 16
    header = npy("'<f8'", f"({300 << 17},)", b"") + bytes(8_000_000)
    rewrite(folder, "history.npz", with_lie[:at] + struct.pack("<I", zlib.crc32(header[:size])) + with_lie[at + 4:])
    n_mib, told = loaded_apart(folder)
    assert f"of at least {size + 1} bytes, where the archive says {size}" in told
    assert n_mib < 100


def test_an_archive_may_expand_so_far_and_no_further() -> None:
    kept, refused = (zipped([("a.npy", npy("'<f8'", f"({n},)", bytes(8 * n)))]) for n in (500_000, 600_000))
    assert read_arrays(kept)["a"].shape == (500_000,)
    with pytest.raises(ValueError, match="more than 42"):
        read_arrays(refused)


def crowded(n: int) -> dict[str, np.ndarray]:
    """A history of n owners, of one ended request each: what costs a loader most per byte."""
    names = [f"{idx:x}".encode() for idx in range(n)]
    ones = np.ones(n, np.int64)
    return {"overall": np.array([1.0, 3.0]), "0:text": np.frombuffer(b"".join(names), np.uint8),
            "0:length": np.array([len(name) for name in names], np.int64), "0:ended_n": ones, "0:last": 0 * ones,
            "0:group_n": 0 * ones, "0:group": np.zeros((0, 3), np.int64), "0:recent_n": ones,
            "0:recent": ones.astype(float)}  # fmt: skip


@pytest.mark.slow
def test_the_worst_bundle_of_a_megabyte_takes_less_than_a_gibibyte(tmp_path: Path) -> None:
    keys = [{"name": "a", "columns": ["a"], "kind": "owner"}]
    bundle = made_bundle(deep_forest(4 + 2 + 15), "once", history={"keys": keys, "n_keys_max": 10_000_000})
    (tmp_path / MANIFEST).write_text('{"format_version": 2, "sha256": {}}')
    schema, history = json.dumps(bundle.schema.document).encode(), packed_arrays(crowded(420_000))
    assert 900_000 < len(history) + len(bundle.model) + len(schema) < 1_000_000
    for name, content in zip(FILES, (bundle.model, schema, history), strict=True):
        rewrite(tmp_path, name, content)
    n_mib, told = loaded_apart(tmp_path)
    assert told == "loaded" and 200 < n_mib < 1_024


AUDITED = """
import sys
import sojourn.serving.answers.curve_builder as curve_builder
curve_builder.IS_COMPILED = False
from sojourn.serving import Predictor
Predictor.load(sys.argv[1]).predict({}, 0)
events = set()
sys.addaudithook(lambda event, given: events.add(f"{event} {given[0]}" if event == "open" else event))
Predictor.load(sys.argv[1]).predict({}, 0).remaining(60)
print(*sorted(events), sep="\\n")
"""


def test_loading_runs_no_code_and_opens_nothing_else(folder: Path) -> None:
    """By Python's own audit events: no pickle, compile, exec, import, process, library or connection."""
    run = subprocess.run([sys.executable, "-c", AUDITED, str(folder)], capture_output=True, text=True, timeout=120,
                         check=True)
    opened = {line.split(maxsplit=1)[1] for line in run.stdout.splitlines() if line.startswith("open ")}
    assert {name for name in opened if not name.isdigit()} == {str(folder), MANIFEST, *FILES}
    assert {line.split()[0] for line in run.stdout.splitlines()} == {"open", "array.__new__"}
