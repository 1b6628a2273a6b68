"""A family whose forest another library learnt: checked by its own scores, or told what it lacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from made_bundles import Made, make
from sojourn.flows.retrain.gates import parity_gate
from sojourn.models.importance import n_shap_rows
from sojourn.models.lifetime import Exported
from sojourn.models.parity import learner_scores
from sojourn.serving import load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.forest import row_scores


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("bundles"))


def _exported(made: Made) -> Exported:
    """A forest of nobody's library."""
    bundle = load_bundle(made.folders["once"])
    return Exported("once", CurveBuilder(bundle.schema, bundle.model).forest, {})


def test_it_is_told_that_it_must_give_scores_or_text(made: Made) -> None:
    exported = _exported(made)
    assert learner_scores(exported) is None
    gate = parity_gate(learner_scores(exported), exported.forest, made.rows.features, 0)
    assert not gate.is_passed
    assert "must export `text` or `scores`" in gate.finding


def test_its_own_scores_are_what_the_export_is_checked_against(made: Made) -> None:
    exported = _exported(made)
    own = row_scores(exported.forest)
    assert parity_gate(learner_scores(replace(exported, scores=own)), exported.forest, made.rows.features, 0).is_passed

    def others(rows: np.ndarray) -> np.ndarray:
        return np.nextafter(own(rows), np.inf)

    gate = parity_gate(learner_scores(replace(exported, scores=others)), exported.forest, made.rows.features, 0)
    assert not gate.is_passed
    assert gate.finding == "100000 of 100,000 rows differ"


def test_its_leaves_are_counted_where_it_does_not_say_how_many_there_may_be(made: Made) -> None:
    exported = _exported(made)
    assert exported.n_leaves == len(exported.forest.leaves) > 0
    assert replace(exported, n_leaves=9_999).n_leaves == 9_999
    assert n_shap_rows(exported) >= 1
