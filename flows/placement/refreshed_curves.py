"""Held answers of requests that are predicted anew while they run, as the live predictor would at the same ages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sojourn.features.refreshed import RefreshedRows
from sojourn.features.split import Examples
from sojourn.flows.placement.held_answers import held_answers
from sojourn.models.bundle_writer import table_of
from sojourn.models.curve_table import CurveTable, HazardTable
from sojourn.serving.answers import CurveBuilder
from sojourn.serving.bundle import RefreshModel
from sojourn.simulator import Curves


@dataclass(frozen=True, slots=True)
class Anew:
    """Curves of those requests that were predicted anew at an age. idx: int64 (k,), their rows among all; table: of k.
    """

    age_s: int
    idx: np.ndarray
    table: CurveTable


def answers_anew(refresh: RefreshModel, rows: RefreshedRows, asked: Examples) -> tuple[Anew, ...]:
    """What a bundle's model for running requests says of those asked that reached its ages. rows: at these ages, by the
    encoder of the model."""
    forest = CurveBuilder(refresh.schema, refresh.model).forest
    found = []
    for age_s in refresh.ages_s:
        idx, aged = rows.of(asked, age_s)
        found.append(Anew(age_s, idx, table_of(refresh.schema, forest, aged.features)))
    return tuple(found)


def refreshed_curves(held: CurveTable, anew: Sequence[Anew]) -> Curves:
    """Predicted totals as `sources.held_curves` gives them; from each age on, by the curve of then.

    A request without an answer at an age keeps the one that it has. What is expected at the start (overhangs) stays.
    anew: by rising age. Also asked at each age, and where the later curves change.

    >>> from sojourn.models.curve_table import OnceTable
    >>> tables = [OnceTable(np.full(n, score), 1.0, np.zeros(3)) for n, score in ((2, 3.0), (1, 4.0))]
    >>> curves = refreshed_curves(tables[0], [Anew(600, np.array([1]), tables[1])])
    >>> curves.total_at(0, 700), curves.total_at(1, 599), curves.total_at(1, 700)
    (1000, 1000, 10000)
    """
    uptimes_s = [held.held_uptimes()]
    for one in anew:
        own = one.table.held_uptimes()
        uptimes_s += [np.array([one.age_s], np.int64), own[own > one.age_s]]
    grid_s = np.unique(np.concatenate(uptimes_s))

    def remaining(uptime_s: float) -> np.ndarray:
        left_s = held.remaining(uptime_s)
        for one in anew:
            if uptime_s >= one.age_s:
                left_s[one.idx] = one.table.remaining(uptime_s)
        return left_s

    curves = held_answers(len(held), grid_s, remaining, None)
    if not isinstance(held, HazardTable):
        return curves
    expected = held_answers(len(held), grid_s, held.remaining, lambda uptime_s: held.survival(uptime_s, 0.0))
    return replace(curves, overhang_s=expected.overhang_s)
