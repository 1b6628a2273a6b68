"""What every kind of score is, and that nothing else asks which one it meets."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import sojourn
from made_bundles import Made
from sojourn.models.bundle_writer import LEARNT_KINDS, table_of
from sojourn.serving import load_bundle
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.curves import IS_COMPILED, KIND_OF_CODE, KINDS, CurveKind, kind_of
from sojourn.serving.forest import row_scores

EVERY_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
FOLDER = Path(sojourn.__path__[0])


def test_each_kind_has_its_name_code_and_curve_and_a_way_to_be_learnt() -> None:
    assert [kind.name for kind in KINDS.values()] == list(KINDS) == list(LEARNT_KINDS)
    assert sorted(KIND_OF_CODE) == list(range(len(KINDS)))
    assert len({kind.curve_type for kind in KINDS.values()}) == len(KINDS)
    for kind in KINDS.values():
        assert all("_" not in text and text for text in (kind.score_unit, kind.effect_unit))


@EVERY_KIND
def test_rows_as_the_forest_reads_them_score_as_the_curve_does(made: Made, kind: CurveKind) -> None:
    bundle = load_bundle(made.folders[kind.name])
    schema, builder = bundle.schema, CurveBuilder(bundle.schema, bundle.model)
    features = made.rows.features[:40]
    assert schema.curves is kind
    assert builder.forest.n_features == schema.n_features == len(schema.feature_names)
    for idx, value in enumerate(builder.grid.tolist()):
        if not np.isfinite(value):
            value = float(builder.grid[-2]) * 2.0  # the last uptime step, beyond its last threshold
        rows = kind.forest_rows(schema.numbers.age_features, features, np.full(len(features), value))
        assert rows.shape == (len(features), schema.n_features)
        expected = [builder.scores(row)[idx] for row in features.tolist()]
        assert row_scores(builder.forest)(np.ascontiguousarray(rows)).tolist() == expected


@EVERY_KIND
def test_values_that_are_spread_are_such_as_the_forest_meets(made: Made, kind: CurveKind) -> None:
    schema = load_bundle(made.folders[kind.name]).schema
    values = kind.spread(schema.numbers, made.rows.lifetime_s)
    assert values.shape == made.rows.lifetime_s.shape
    assert (values >= 0.0).all()
    assert (values <= np.maximum(made.rows.lifetime_s, len(schema.numbers.offsets))).all()
    assert (len(np.unique(values)) > 1) == kind.is_varying


@EVERY_KIND
def test_its_curves_are_told_by_their_type_and_equal_the_table(made: Made, kind: CurveKind) -> None:
    bundle = load_bundle(made.folders[kind.name])
    builder = CurveBuilder(bundle.schema, bundle.model)
    features = made.rows.features[:30]
    table = table_of(bundle.schema, builder.forest, features)
    curves = [builder.curve(row) for row in features.tolist()]
    assert {kind_of(curve) for curve in curves} == {kind}
    for uptime_s in (0.0, 61.0, 90_000.0):
        assert table.remaining(uptime_s).tolist() == [curve.remaining(uptime_s) for curve in curves]


@EVERY_KIND
@pytest.mark.skipif(not IS_COMPILED, reason="numba is not installed")
def test_what_is_packed_is_the_same_compiled_and_not(made: Made, kind: CurveKind) -> None:
    from sojourn.serving.curves import KERNELS

    bundle = load_bundle(made.folders[kind.name])
    curve = CurveBuilder(bundle.schema, bundle.model).curve(made.rows.features[3].tolist())
    shared = kind.shared(*kind.shared_of(curve))
    assert len(shared.steps) == len(shared.changes)
    assert kind.packed(curve, KERNELS).tolist() == kind.packed(curve, None).tolist()
    assert kind.held_seconds(curve, shared, KERNELS).tolist() == kind.held_seconds(curve, shared, None).tolist()
    expected = [curve.remaining(uptime_s) for uptime_s in shared.changes.tolist()]
    assert kind.held_seconds(curve, shared, None).tolist() == expected


def _asks_the_kind(tree: ast.AST) -> list[int]:
    """Lines in which a kind is compared with the name of one; families may have the same names."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Compare)
            for part in node.comparators if isinstance(part, ast.Constant) and part.value in KINDS
            and "kind" in ast.unparse(node.left)]


@pytest.mark.parametrize("part", ["features", "models", "serving", "simulator", "flows"])
def test_nothing_compares_with_the_name_of_a_kind(part: str) -> None:
    found = {str(file.relative_to(FOLDER)): lines for file in sorted((FOLDER / part).rglob("*.py"))
             if (lines := _asks_the_kind(ast.parse(file.read_text())))}
    assert not found
