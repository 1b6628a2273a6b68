"""The registry's aliases, and a store that does not answer."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from mlflow import MlflowClient

from sojourn.flows.tracking import CHALLENGER, CHAMPION, Tracker


def test_metrics_under_several_steps_are_more_than_a_batch(tmp_path: Path) -> None:
    tracker = Tracker(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path / "artifacts")
    run = tracker.start("run", {})
    names = [f"seed/m{k}" for k in range(600)]
    tracker.log_by_step(run, {7: dict.fromkeys(names, 1.5), 3: {**dict.fromkeys(names, 2.5), "seed/m0": math.nan}})
    history = MlflowClient(tracker.uri).get_metric_history
    assert [(each.step, each.value) for each in history(run, "seed/m599")] == [(3, 2.5), (7, 1.5)]
    assert [(each.step, each.value) for each in history(run, "seed/m0")] == [(7, 1.5)]


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
