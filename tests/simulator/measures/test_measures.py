"""What every measure of a replay owes: figures of a replay, a column for each that it shows, nothing where it can't."""

from __future__ import annotations

import pandas as pd
import pytest

import sojourn.simulator as sim
from sojourn.simulator.measures import COLUMNS, MEASURES


def _workload(usage: pd.DataFrame | None) -> sim.Workload:
    table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 10], "departure_s": [90, 80],
                          "cpu_cores": [4.0, 3.0], "mem_gib": [4.0, 4.0]})
    return sim.build_workload("trace", sim.Trace(table, 100, usage=usage), cpu_cores=8, mem_gib=32, n_hosts=2)


@pytest.mark.parametrize("name", MEASURES)
def test_columns_are_of_figures(name: str) -> None:
    workload = _workload(pd.DataFrame({"request_id": [1], "time_s": [0], "cpu_frac": [0.5]}))
    figures = MEASURES[name].of(workload, sim.simulate(workload))
    assert set(MEASURES[name].columns) <= set(figures)
    assert all(isinstance(value, float) for value in figures.values())


def test_a_measure_of_usage_says_nothing_of_a_trace_without() -> None:
    workload = _workload(None)
    assert dict(MEASURES["usage"].of(workload, sim.simulate(workload))) == {}


def test_columns_are_told_apart_and_titled_with_their_unit() -> None:
    titles = [column.title for column in COLUMNS.values()]
    assert len(set(titles)) == len(titles)
    assert {name for measure in MEASURES.values() for name in measure.columns} <= set(COLUMNS)
    assert COLUMNS["decision_us"].text_title("decision_us") == "decision us"
    assert COLUMNS["n_migrations"].text_title("n_migrations") == "migrations"
    assert (COLUMNS["rejected_pct"].text(1234.5), COLUMNS["gain_pp"].text(1.5)) == ("1234.500", "+1.50")
