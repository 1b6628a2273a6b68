"""A trace in parts: what is loaded are whole owners with the rows of the whole trace, and all of it is scored."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.partitions import TraceParts, partition_count
from sojourn.flows.retrain.features import sampled_features
from sojourn.flows.retrain.ingest import Ingested, ingested_trace
from sojourn.flows.retrain.judge import whole_window
from sojourn.flows.settings.trace import TraceSource
from sojourn.serving.inputs import HistoryState


@pytest.fixture
def ingested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ingested:
    monkeypatch.setattr("sojourn.flows.settings.trace.PARTS_ABOVE", 3_000)
    monkeypatch.setattr(sys.modules[partition_count.__module__], "REQUESTS_PER_PARTITION", 1_000)
    return ingested_trace(tmp_path, TraceSource(None, "synthetic", None, 4_000, 0), "0" * 64)


def test_a_sample_holds_whole_owners_with_the_rows_and_the_history_of_all(tmp_path: Path, ingested: Ingested) -> None:
    trace, encoder, rows, history, sample = sampled_features(tmp_path, ingested, None, None, 2_500)
    parts = TraceParts.load(ingested.folder)
    whole = parts.take(np.arange(parts.n_requests))
    state = HistoryState(encoder.history)
    all_rows = build_rows(whole, default_encoder(whole), state)
    assert sample.n_sampled == len(rows) <= 2_500
    assert (sample.n_files, len(sample.files)) == (2, 4)
    is_sampled = np.isin(whole.requests["request_id"], trace.requests["request_id"])
    taken = is_sampled[all_rows.idx_request]
    np.testing.assert_array_equal(rows.features, all_rows.features[taken])
    np.testing.assert_array_equal(trace.requests["request_id"].to_numpy()[rows.idx_request],
                                  whole.requests["request_id"].to_numpy()[all_rows.idx_request[taken]])
    owners = whole.requests["subscription"]
    assert not set(owners[is_sampled]) & set(owners.iloc[all_rows.idx_request[~taken]])
    assert {name: array.tobytes() for name, array in history.to_arrays().items()} == {
        name: array.tobytes() for name, array in state.to_arrays().items()}
    assert "of 4,000 requests: all requests of some owners" in sample.text()


def test_kept_partitions_are_found_again_and_damaged_ones_built_anew(
        tmp_path: Path, ingested: Ingested, capsys: pytest.CaptureFixture[str]) -> None:
    *_, sample = sampled_features(tmp_path, ingested, None, None, 1_200)
    file = sample.files[-1]
    whole, made_ns = file.read_bytes(), file.stat().st_mtime_ns
    sampled_features(tmp_path, ingested, None, None, 1_200)
    assert file.stat().st_mtime_ns == made_ns
    file.write_bytes(whole[:1_000])
    sampled_features(tmp_path, ingested, None, None, 1_200)
    assert "damaged and built anew" in capsys.readouterr().out
    assert file.read_bytes() == whole
    assert sorted(path.name for path in (tmp_path / "features").iterdir()) == [file.parent.name]


def test_the_whole_window_is_the_ratio_of_the_sums() -> None:
    # 6 / 40; without one part 5 / 30 and 1 / 10: jackknife values 2 x 0.15 - each = 0.1333 and 0.2
    found = whole_window([(1.0, 10.0, 4), (5.0, 30.0, 9)])
    assert (found.n_test, found.ibs) == (13, 0.15)
    assert found.low < 0.1333 < 0.2 < found.high
