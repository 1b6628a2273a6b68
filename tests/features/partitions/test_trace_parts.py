"""A synthetic trace in parts: in the order of time, every request once, the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sojourn.features.creation import build_rows, default_encoder
from sojourn.features.partitions import TraceParts, is_in_parts, part_files, trace_parts, write_synthetic_parts


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TraceParts:
    monkeypatch.setattr(trace_parts, "N_AT_ONCE", 1_000)
    return write_synthetic_parts(tmp_path / "trace", 4_000, seed=3, per_population=1_500)


def test_parts_hold_every_request_once_in_the_order_of_replay(parts: TraceParts) -> None:
    whole = parts.take(np.arange(4_000))
    assert len(whole) == 4_000
    assert whole.requests["request_id"].is_unique
    assert default_encoder(parts.head) == default_encoder(whole)
    rows = build_rows(whole, default_encoder(whole))
    chunks = list(parts.chunks(("cpu_cores",)))
    assert len(chunks) == len(part_files(parts.folder)) == 4
    for name in ("decided_s", "arrival_s", "is_event", "idx_request"):
        np.testing.assert_array_equal(np.concatenate([getattr(chunk, name) for chunk in chunks]), getattr(rows, name))
    lifetime_s = np.concatenate([chunk.end_s - chunk.arrival_s for chunk in chunks])
    np.testing.assert_array_equal(lifetime_s, rows.lifetime_s)
    assert len(rows) < 4_000  # some starts are unknown


def test_populations_share_no_owner(parts: TraceParts) -> None:
    requests = parts.take(np.arange(4_000)).requests
    assert set(requests["subscription"].str.rpartition(".")[2]) == {"0", "1", "2"}
    assert (requests.groupby("deployment")["subscription"].nunique() == 1).all()


def test_taken_requests_are_those_of_the_whole(parts: TraceParts) -> None:
    idx = np.array([0, 5, 1_203, 3_999])
    whole = parts.take(np.arange(4_000)).requests
    assert parts.take(idx).requests["request_id"].tolist() == whole["request_id"].iloc[idx].tolist()


def test_the_same_arguments_give_the_same_bytes(parts: TraceParts, tmp_path: Path) -> None:
    again = write_synthetic_parts(tmp_path / "again", 4_000, seed=3, per_population=1_500)
    assert is_in_parts(again.folder)
    for one, other in zip(part_files(parts.folder), part_files(again.folder), strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_folder_without_parts_is_refused(tmp_path: Path) -> None:
    assert not is_in_parts(tmp_path)
    with pytest.raises(ValueError, match="must hold a trace in parts, got FileNotFoundError"):
        TraceParts.load(tmp_path)
