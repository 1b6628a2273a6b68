"""The feature cache: found again, and built anew where it is damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from made_imports import imported_by
from sojourn.features.synthetic import synthesize
from sojourn.flows.build_features import BUILT_BY, build_features
from sojourn.flows.code_version import source_files
from sojourn.flows.config import RetrainConfig
from sojourn.flows.ingest import Ingested


@pytest.mark.parametrize("damaged", ["*.parquet", "*.history.npz"])
@pytest.mark.parametrize("keep", [0, 0.5, 0.99])
def test_a_damaged_cache_is_built_anew(tmp_path: Path, damaged: str, keep: float,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    ingested = Ingested(synthesize(1_000, seed=0).save(tmp_path / "trace"), "synthetic", "0" * 64, "")
    config = RetrainConfig(store=tmp_path)
    _, _, rows, history = build_features.fn(config, ingested)
    (file,) = (tmp_path / "features").glob(damaged)
    whole = file.read_bytes()
    assert build_features.fn(config, ingested)[2].names == rows.names
    assert "damaged" not in capsys.readouterr().out
    file.write_bytes(whole[:int(len(whole) * keep)])
    _, _, again, state = build_features.fn(config, ingested)
    assert "damaged and built anew" in capsys.readouterr().out
    np.testing.assert_array_equal(again.features, rows.features)
    assert {name: array.tolist() for name, array in state.to_arrays().items()} == {
        name: array.tolist() for name, array in history.to_arrays().items()}
    assert file.read_bytes() == whole


def test_an_edit_of_whatever_builds_features_builds_them_anew() -> None:
    decided_by_data = source_files("sojourn.features.trace")  # it is in the hash of the data
    packages = {path for path in imported_by("sojourn.features.trace") if path.name == "__init__.py"}
    missed = imported_by("sojourn.features.creation").difference(source_files(*BUILT_BY), decided_by_data, packages)
    assert not missed
