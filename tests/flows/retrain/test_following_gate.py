"""A candidate that predictors with a watched folder would refuse is no champion."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from learnt_bundle import Learnt
from made_bundles import rewrite_schema
from sojourn.flows.retrain.gates import following_gate
from sojourn.serving import BundleError, Predictor, load_bundle


def test_without_a_champion_there_is_nothing_to_follow(learnt: Learnt, tmp_path: Path) -> None:
    bundle = load_bundle(learnt.folder)
    assert following_gate(tmp_path / "none", bundle) is None
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "MANIFEST.json").write_text("{}")
    assert following_gate(tmp_path / "odd", bundle) is None


def _window(schema: dict[str, Any]) -> None:
    schema["history"]["window"] += 1


def _clock(schema: dict[str, Any]) -> None:
    schema["phase_s"] = 0


@pytest.mark.parametrize(("change", "found"), [
    (None, "take the candidate"), (_window, "would refuse the candidate: history must have the window of version"),
    (_clock, "would refuse the candidate: phase_s must be"),
])  # fmt: skip
def test_the_gate_says_what_the_watched_folder_would_say(learnt: Learnt, tmp_path: Path,
                                                         change: Callable[[dict[str, Any]], None] | None,
                                                         found: str) -> None:
    served = Path(shutil.copytree(learnt.folder, tmp_path / "served"))
    candidate = Path(shutil.copytree(learnt.folder, tmp_path / "candidate"))
    if change is not None:
        rewrite_schema(candidate, change)
    gate = following_gate(served, load_bundle(candidate))
    assert gate is not None and gate.is_passed is (change is None) and found in gate.finding
    predictor = Predictor.load(served)
    shutil.rmtree(served)
    shutil.copytree(candidate, served)
    if change is None:
        predictor.reload()
    else:
        with pytest.raises(BundleError):
            predictor.reload()
