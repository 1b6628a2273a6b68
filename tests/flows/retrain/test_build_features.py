"""The feature cache: found again, and built anew where it is damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sojourn.features.synthetic import synthesize
from sojourn.flows.retrain.features import build_features, stored_features
from sojourn.flows.retrain.ingest import Ingested, ingested_trace
from sojourn.flows.settings.retrain import RetrainConfig


@pytest.mark.parametrize("damaged", ["*.parquet", "*.history.npz"])
@pytest.mark.parametrize("keep", [0, 0.5, 0.99])
def test_a_damaged_cache_is_built_anew(tmp_path: Path, damaged: str, keep: float,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    ingested = Ingested(synthesize(1_000, seed=0).save(tmp_path / "trace"), "synthetic", "0" * 64, "")
    first = build_features.fn(tmp_path, ingested)
    rows, history = first.rows, first.history
    (file,) = (tmp_path / "features").glob(damaged)
    whole = file.read_bytes()
    assert build_features.fn(tmp_path, ingested).rows.names == rows.names
    assert "damaged" not in capsys.readouterr().out
    file.write_bytes(whole[:int(len(whole) * keep)])
    second = build_features.fn(tmp_path, ingested)
    again, state = second.rows, second.history
    assert "damaged and built anew" in capsys.readouterr().out
    np.testing.assert_array_equal(again.features, rows.features)
    assert {name: array.tolist() for name, array in state.to_arrays().items()} == {
        name: array.tolist() for name, array in history.to_arrays().items()}
    assert file.read_bytes() == whole


def test_a_cache_with_a_bit_flipped_is_built_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ingested = ingested_trace(tmp_path, RetrainConfig(n_requests=1_000).source, "0" * 64)
    stored_features(tmp_path, ingested)
    (file,) = (tmp_path / "features").glob("*.parquet")
    whole = file.read_bytes()
    at = whole.index(b"PAR1") + 300  # within the first column's values: nothing in the format vouches for them
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
    stored_features(tmp_path, ingested)
    assert "is not what was written" in capsys.readouterr().out
    assert file.read_bytes() == whole
