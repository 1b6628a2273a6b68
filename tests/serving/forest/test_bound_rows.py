"""Single requests through ONNX Runtime in bound buffers: the same bits as unbound, from any thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from made_bundles import Made
from sojourn.serving import load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.forest import OnnxForest


@pytest.mark.parametrize("kind", ["hazard", "uptime"])
def test_threads_do_not_share_buffers(made: Made, kind: str) -> None:
    bundle = load_bundle(made.folders[kind])
    builder = CurveBuilder(bundle.schema, bundle.model, is_compiled=False)
    rows = made.rows.features[:200]
    ages, n_grid = bundle.schema.numbers.age_features, len(builder.grid)
    wide = [ages.rows(np.tile(row, (n_grid, 1)), np.arange(n_grid)) if kind == "hazard"
            else np.column_stack([np.tile(row, (n_grid, 1)), builder.grid]) for row in rows]
    unbound = [OnnxForest(bundle.model, bundle.schema.n_features).scores(grid_rows) for grid_rows in wide]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(builder.scores, rows.tolist() * 10))
    assert np.array(found).tobytes() == np.array(unbound * 10).tobytes()


def test_bound_scores_are_not_overwritten_by_the_next(made: Made) -> None:
    bundle = load_bundle(made.folders["hazard"])
    builder = CurveBuilder(bundle.schema, bundle.model, is_compiled=False)
    first = builder.scores(made.rows.features[0].tolist())
    kept = first.copy()
    assert builder.scores(made.rows.features[100].tolist()).tolist() != kept.tolist()
    assert first.tolist() == kept.tolist()
