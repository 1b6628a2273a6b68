"""The registry's aliases, and a store that does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.flows.tracking import CHALLENGER, CHAMPION, Tracker


def test_no_alias_is_none_but_a_broken_store_is_not(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    tracker = Tracker(f"sqlite:///{database}", tmp_path / "artifacts")
    assert tracker.version_of("none", CHAMPION) is None
    version = tracker.register("made", str(tmp_path), tracker.start("run", {}), "", {})
    tracker.set_alias("made", CHAMPION, version)
    assert tracker.version_of("made", CHAMPION) == version == 1
    assert tracker.version_of("made", CHALLENGER) is None
    database.write_bytes(b"not a database" * 1_000)
    # taken for "no champion", it would let any candidate become one
    with pytest.raises(OSError, match=r"the tracking store must answer at sqlite:///.*, got"):
        tracker.version_of("made", CHAMPION)
