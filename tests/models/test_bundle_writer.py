"""Writing a bundle: the same bytes twice, data only, all or nothing."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn import publishing
from sojourn.models import bundle_writer, write_bundle
from sojourn.models.bundle_writer import packed_arrays
from sojourn.models.lifetime import Exported
from sojourn.serving import Predictor, load_bundle
from sojourn.serving.bundle import FILES
from sojourn.serving.forest import LEQ, Forest
from sojourn.serving.inputs import Encoder, HistoryDefinition, HistoryKey, HistoryState

HISTORY = HistoryDefinition((HistoryKey("user", ("user",), "owner"), HistoryKey("zone", ("zone",), "category")))
ENCODER = Encoder(("cores",), ("user", "zone"), HISTORY)
N_FEATURES = len(ENCODER.feature_names()) + 1


def exported(leaf: float = 3.0) -> Exported:
    """uptime <= 60 -> 2, else `leaf` (log10 s)."""
    forest = Forest(N_FEATURES, np.array([0]), np.array([N_FEATURES - 1]), np.array([60.0]), np.array([LEQ], np.uint8),
                    np.array([~0]), np.array([~1]), np.array([True]), np.array([2.0, leaf]), np.array([0, 0]),
                    np.zeros(0), np.zeros(N_FEATURES, bool))  # fmt: skip
    return Exported("uptime", forest, {"smearing": 1.0, "residuals": [-0.1, 0.1]})


def history() -> HistoryState:
    state = HistoryState(HISTORY)
    for number in range(50):
        state.ended(state.admit(((f"user-{number % 7}",), ("z",)), number), number + 100)
    return state


def write(folder: Path, leaf: float = 3.0, **about: Any) -> Path:
    return write_bundle(folder, "made", exported(leaf), ENCODER, history(), about)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (contents(write(tmp_path / name, training={"rows": 1})) for name in ("first", "second"))
    assert sorted(first) == sorted([*FILES, "MANIFEST.json"])
    assert first == second


def test_what_is_written_can_be_loaded_and_asked(tmp_path: Path) -> None:
    folder = write(tmp_path / "deep" / "bundle", training={"rows": 50}, metrics={"mae": 0.5})
    bundle = load_bundle(folder)
    assert bundle.schema.document["metrics"] == {"mae": 0.5}
    assert bundle.schema.encoder == ENCODER
    keys = (("user-1",), ("z",))
    np.testing.assert_array_equal(bundle.history.features(keys, 100), history().features(keys, 100))
    vm = Predictor(bundle).admit({"cores": 2, "user": "user-1", "zone": "z"}, 200)
    assert (vm.remaining(60), vm.remaining(61)) == (100.0, 1_000.0)
    assert vm.unknown == ()


def test_arrays_are_packed_without_pickle_or_clock(tmp_path: Path) -> None:
    with zipfile.ZipFile(write(tmp_path / "bundle") / "history.npz") as archive:
        for entry in archive.infolist():
            assert entry.date_time == (1980, 1, 1, 0, 0, 0)
            assert b"'|O'" not in archive.read(entry)[:128]
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        packed_arrays({"bad": np.array([object()])})


def test_an_older_bundle_is_replaced_whole(tmp_path: Path) -> None:
    folder = write(tmp_path / "bundle")
    (folder / "stray.txt").write_text("left over")
    old = load_bundle(folder).version
    write(folder, leaf=4.0)
    assert load_bundle(folder).version != old
    assert not (folder / "stray.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


@pytest.mark.parametrize("step", ["to_onnx", "packed_arrays", "publishing.exchange"])
def test_a_failure_leaves_the_old_bundle_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                       step: str) -> None:
    folder = write(tmp_path / "bundle")
    before = contents(folder)

    def fail(*_: object) -> None:
        raise OSError("no space left")

    module, _, name = step.rpartition(".")
    monkeypatch.setattr(publishing if module else bundle_writer, name, fail)
    with pytest.raises(OSError, match="no space left"):
        write(folder, leaf=4.0)
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_full_disk_leaves_the_old_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "bundle")
    before = contents(folder)
    genuine = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.name == "history.npz":
            genuine(path, content[:10])
            raise OSError("no space left")
        return genuine(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        write(folder, leaf=4.0)
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_what_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range float values"):
        write(tmp_path / "bundle", metrics={"mae": float("nan")})
    assert list(tmp_path.iterdir()) == []
    assert json.loads(json.dumps(ENCODER.history.as_dict())) == ENCODER.history.as_dict()
