"""Predictors by text."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_bundles import make
from sojourn.flows.placement.predictors import parse_predictor


@pytest.mark.parametrize(("text", "name", "is_learnt"), [
    ("oracle", "oracle", False), ("noise:1.50", "noise:1.5", False), ("recall:.8", "recall:0.8", False),
    ("one-shot:noise:2", "one-shot:noise:2", False), ("km", "km", True), ("one-shot:hazard", "one-shot:hazard", True),
])
def test_texts_that_mean_the_same_have_one_name(text: str, name: str, is_learnt: bool) -> None:
    predictor = parse_predictor(text)
    assert (predictor.name, predictor.is_learnt) == (name, is_learnt)
    assert parse_predictor(predictor.name) == predictor


@pytest.mark.parametrize(("text", "words"), [
    ("wizard", "predictor must be one of oracle, noise:NUMBER, recall:NUMBER, owner-recall:NUMBER, truth, "
               "bundle:FOLDER, km,"),
    ("oracle:2", "got 'oracle:2'"), ("km:2", "got 'km:2'"), ("bundle", "got 'bundle'"), ("", "got ''"),
    ("one-shot:one-shot:km", "got 'one-shot:one-shot:km'"),
    ("noise", "predictor noise must have a number, as in noise:1, got 'noise'"),
    ("noise:-1", "in 0..10, got 'noise:-1'"), ("recall:1.5", "in 0..1, got 'recall:1.5'"),
    ("recall:nan", "in 0..1, got 'recall:nan'"),
])
def test_a_text_that_means_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="predictor") as caught:
        parse_predictor(text)
    assert words in str(caught.value)


def test_a_bundle_is_known_by_its_version(tmp_path: Path) -> None:
    folder = make(tmp_path).folders["hazard"]
    predictor = parse_predictor(f"one-shot:bundle:{folder}")
    assert (predictor.name, predictor.learnt_name) == (f"one-shot:bundle:{folder}", f"bundle:{folder}")
    assert len(predictor.version) == 12
    with pytest.raises(ValueError, match=r"MANIFEST\.json"):
        parse_predictor(f"bundle:{tmp_path}")
