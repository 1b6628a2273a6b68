"""Tables of a comparison: gains are paired, intervals are t-intervals, and what failed leaves no hole."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sojourn.flows.compare.cells import CellResult, CellStore
from sojourn.flows.compare.comparison import comparison_data, run_cells
from sojourn.flows.compare.grid import Cell
from sojourn.flows.compare.settings import CompareConfig
from sojourn.flows.compare.tables import as_document, cells_table, differences_table, summary_table
from sojourn.flows.placement.workloads import t_half_width
from sojourn.flows.reports.comparison_report import comparison_markdown
from sojourn.flows.workers.dask import local_workers
from sojourn.simulator.experiments import RIVALS

EMPTY = {"best-fit": (20.0, 22.0, 27.0), "first-fit": (21.0, 24.0, 30.0), "nilas (oracle)": (23.0, 26.0, 31.0)}
BOUND = 33.0


def _found(*labels: str) -> list[tuple[Cell, CellResult]]:
    config = CompareConfig(policies=("nilas", "first-fit"), seeds=(0, 1, 2))
    found = []
    for cell in config.cells():
        if cell.label not in (labels or EMPTY):
            continue
        figures = {"empty_hosts_pct": EMPTY.get(cell.label, EMPTY["best-fit"])[cell.workload.seed],
                   "bound_empty_hosts_pct": BOUND, "n_events": 100, "rejected_pct": 0.0}
        if cell.label == "first-fit":
            figures["rejections_cpu_cores"] = 3
        found.append((cell, CellResult(figures, {"elapsed_s": 0.5, "compile_s": 0.0},
                                       {"description": "d", "n_hosts": 3, "warmup_s": 0}, {})))
    return found


def test_gains_are_against_best_fit_of_the_same_seed() -> None:
    table = cells_table(_found())
    gains = {label: rows["gain_pp"].tolist() for label, rows in table.groupby("label")}
    assert gains == {"best-fit": [0.0, 0.0, 0.0], "first-fit": [1.0, 2.0, 3.0], "nilas (oracle)": [3.0, 4.0, 4.0]}
    assert table["rejections_cpu_cores"].tolist() == [0, 3, 0] * 3
    # first-fit has more empty hosts than best-fit: (21 + 24 + 30) / 3 = 25 against 23
    assert set(table["rival"]) == {"first-fit"}
    over = {label: rows["over_rival_pp"].tolist() for label, rows in table.groupby("label")}
    assert over == {"best-fit": [-1.0, -2.0, -3.0], "first-fit": [0.0, 0.0, 0.0], "nilas (oracle)": [2.0, 2.0, 1.0]}
    assert table["events_per_s"].eq(200.0).all()


def test_a_rival_has_all_seeds_and_rejects_no_more_than_best_fit() -> None:
    def rivals(found: list[tuple[Cell, CellResult]]) -> list[str]:
        return cells_table(found)["rival"].unique().tolist()

    less = [(cell, result) for cell, result in _found() if (cell.label, cell.workload.seed) != ("first-fit", 1)]
    assert rivals(less) == ["best-fit"]
    more = [(cell, replace(result, figures={**result.figures, "rejected_pct": float(cell.label == "first-fit")}))
            for cell, result in _found()]
    assert rivals(more) == ["best-fit"]
    more_empty = [(cell, replace(result, figures={**result.figures, "empty_hosts_pct": EMPTY["first-fit"][
        cell.workload.seed] + (cell.policy == "first-in-use")})) for cell, result in _found(*RIVALS)]
    assert rivals(more_empty) == ["first-in-use"]
    assert rivals([(cell, result) for cell, result in _found() if cell.label != "best-fit"]) == ["best-fit"]
    level = [(cell, replace(result, figures={**result.figures, "empty_hosts_pct": 20.0})) for cell, result in _found()]
    assert rivals(level) == ["best-fit"]


def test_a_move_is_worth_the_host_hours_that_the_same_policy_does_with_less() -> None:
    config = CompareConfig(policies=("nilas",), seeds=(0,), rectifiers=("pdre:5",))
    host_h = {"best-fit": 900.0, "first-fit": 900.0, "first-in-use": 900.0, "nilas (oracle)": 800.0,
              "best-fit + pdre:5 (oracle)": 860.0, "nilas + pdre:5 (oracle)": 810.0}
    found = [(cell, CellResult({"empty_hosts_pct": 20.0, "bound_empty_hosts_pct": BOUND, "n_events": 100,
                                "rejected_pct": 0.0, "host_h": host_h[cell.label],
                                "n_migrations": 10 * bool(cell.rectifier)},
                               {"elapsed_s": 0.5}, {}, {})) for cell in config.cells()]
    table = cells_table(found).set_index("label")
    # best-fit: (900 - 860) / 10; nilas: (800 - 810) / 10
    assert table["freed_h_per_migration"].dropna().to_dict() == {
        "best-fit + pdre:5 (oracle)": 4.0, "nilas + pdre:5 (oracle)": -1.0}
    assert table["n_rectified"].dropna().tolist() == [10.0, 10.0]
    assert table["rectifier"].tolist() == ["", "", "", "", "pdre:5", "pdre:5"]
    assert table["gain_pp"].tolist() == [0.0] * 6  # against best-fit without moves alone
    summary = summary_table(table.reset_index())
    assert summary["freed_h_per_migration"].dropna().tolist() == [4.0, -1.0]


def test_what_migrations_free_is_over_all_of_them() -> None:
    """Seed 0 frees 21 h with 1 migration, seed 1 69 h with 9, seed 2 nothing with none: 90 h / 10."""
    cells = pd.DataFrame({
        "workload": "w", "load": 0.8, "policy": "nilas + pdre:5", "predictor": "oracle", "label": "x",
        "seed": [0, 1, 2], "empty_hosts_pct": 20.0, "gain_pp": 0.0, "bound_empty_hosts_pct": 30.0,
        "n_rectified": [1.0, 9.0, 0.0], "freed_h": [21.0, 69.0, 0.0],
        "freed_h_per_migration": [21.0, 69.0 / 9.0, np.nan]})
    assert summary_table(cells)["freed_h_per_migration"].tolist() == [9.0]


def test_intervals_of_means() -> None:
    summary = summary_table(cells_table(_found())).set_index("label")
    row = summary.loc["first-fit"]
    # gains 1, 2, 3: mean 2, standard deviation 1; t(0.975, 2) = 4.3027; 4.3027 / sqrt(3) = 2.4841
    assert (row["gain_pp"], row["n_seeds"]) == (2.0, 3)
    assert [row["gain_low_pp"], row["gain_high_pp"]] == pytest.approx([-0.4841, 4.4841], abs=1e-4)
    # over first-fit 2, 2, 1: mean 5/3, standard deviation 0.57735; 4.3027 * 0.57735 / sqrt(3) = 1.4342
    nilas = summary.loc["nilas (oracle)"]
    over = [nilas[name] for name in ("rival", "over_rival_pp", "over_rival_low_pp", "over_rival_high_pp")]
    assert over == ["first-fit", *(pytest.approx(value, abs=1e-4) for value in (1.6667, 0.2324, 3.1009))]
    # best-fit's mean is 23, the bound 33: 2 of 10
    assert row["gap_closed_pct"] == pytest.approx(20.0)
    assert row["rejections_cpu_cores"] == 3.0
    assert summary.loc["nilas (oracle)", "empty_hosts_pct"] == pytest.approx(80.0 / 3.0)


def test_differences_of_any_two_are_paired() -> None:
    table = differences_table(cells_table(_found())).set_index(["label", "other"])
    assert len(table) == 3
    row = table.loc["first-fit"].loc["nilas (oracle)"]
    # 21 - 23, 24 - 26, 30 - 31: mean -1.6667, standard deviation 0.57735; 4.3027 * 0.57735 / sqrt(3) = 1.4342
    assert [row["difference_pp"], row["difference_low_pp"], row["difference_high_pp"]] == pytest.approx(
        [-1.6667, -3.1009, -0.2324], abs=1e-4)


def test_a_cell_that_failed_takes_its_seed_out_of_its_pairs_only() -> None:
    found = [(cell, result) for cell, result in _found() if (cell.label, cell.workload.seed) != ("first-fit", 2)]
    summary = summary_table(cells_table(found)).set_index("label")
    assert summary["n_seeds"].to_dict() == {"best-fit": 3, "first-fit": 2, "nilas (oracle)": 3}
    # best-fit of the two seeds that first-fit has: (20 + 22) / 2 = 21, and 1.5 of the 12 to the bound
    assert summary.loc["first-fit", "gap_closed_pct"] == pytest.approx(12.5)
    without = [(cell, result) for cell, result in _found() if cell.label != "best-fit"]
    alone = summary_table(cells_table(without))
    assert alone[["gain_pp", "gain_low_pp", "gap_closed_pct"]].isna().all(axis=None)
    assert alone["n_pairs"].tolist() == [0, 0]


def test_a_best_fit_that_failed_takes_its_seed_out_of_the_gains_only() -> None:
    found = [(cell, result) for cell, result in _found() if (cell.label, cell.workload.seed) != ("best-fit", 2)]
    summary = summary_table(cells_table(found)).set_index("label")
    assert summary["n_seeds"].to_dict() == {"best-fit": 2, "first-fit": 3, "nilas (oracle)": 3}
    assert summary["n_pairs"].to_dict() == {"best-fit": 2, "first-fit": 2, "nilas (oracle)": 2}
    row = summary.loc["first-fit"]
    assert row["empty_hosts_pct"] == pytest.approx(25.0)  # (21 + 24 + 30) / 3
    # gains 1, 2: mean 1.5, standard deviation 0.70711; t(0.975, 1) = 12.7062; 12.7062 * 0.70711 / sqrt(2) = 6.3531
    assert [row["gain_pp"], row["gain_low_pp"], row["gain_high_pp"]] == pytest.approx([1.5, -4.8531, 7.8531], abs=1e-4)
    # best-fit's mean at these two is 21, the bound 33: 1.5 of 12
    assert row["gap_closed_pct"] == pytest.approx(12.5)


def test_differences_have_the_numbers_of_each_pair_alone() -> None:
    rng = np.random.default_rng(0)
    rows = [(workload, load, label, seed, rng.normal(30.0))
            for workload in ("cold", "warm") for load in (0.6, 0.8) for label in "abcdef" for seed in range(5)
            if (label != "f" and (label, seed) not in (("b", 0), ("c", 3), ("c", 4))) or (label, seed) == ("f", 0)]
    table = pd.DataFrame(rows, columns=["workload", "load", "label", "seed", "empty_hosts_pct"])
    found = differences_table(table)
    expected = []
    for (workload, load), group in table.groupby(["workload", "load"], sort=False):
        by_seed = {label: own.set_index("seed")["empty_hosts_pct"] for label, own in group.groupby("label", sort=False)}
        for label, other in combinations(by_seed, 2):
            both = (by_seed[label] - by_seed[other]).dropna().to_numpy()
            if len(both):  # b has no seed 0, and f no other
                mean, half = both.mean(), t_half_width(both[:, None])[0]
                expected.append((workload, load, label, other, len(both), mean, mean - half, mean + half))
    assert len(found) == 4 * (15 - 1)
    pd.testing.assert_frame_equal(found, pd.DataFrame(expected, columns=list(found)))


def test_one_seed_has_no_interval() -> None:
    found = [(cell, result) for cell, result in _found() if cell.workload.seed == 1]
    row = summary_table(cells_table(found)).set_index("label").loc["first-fit"]
    assert row["gain_pp"] == 2.0
    assert np.isnan(row["gain_low_pp"])
    assert np.isnan(differences_table(cells_table(found))["difference_low_pp"]).all()


def test_a_load_without_a_short_decimal_is_logged_with_its_rows() -> None:
    config = CompareConfig(policies=("first-fit",), seeds=(0,), loads=(1 / 3, 0.8), n_requests=1_000)
    cells = config.cells()
    found = [(cell, CellResult({"empty_hosts_pct": 20.0, "bound_empty_hosts_pct": BOUND, "n_events": 1,
                                "packing_density_pct": 50.0, "rejected_pct": 0.0}, {"elapsed_s": 0.5, "compile_s": 0.0},
                               {"description": "d", "n_hosts": 3, "warmup_s": 0}, {})) for cell in cells]
    description = {(cell.workload.name, cell.workload.load): "d" for cell in cells}
    document = as_document(config.preset, cells[0].workload.trace, summary_table(cells_table(found)), description)
    assert [[row["label"] for row in part["rows"]] for part in document["workloads"]] == [list(RIVALS)] * 2
    assert "d; load 0.333333, seeds: 1." in comparison_markdown(json.loads(json.dumps(document)))


def test_gains_are_against_best_fit_of_the_same_start() -> None:
    cold = _found()
    warm = [(replace(cell, workload=replace(cell.workload, start="warm")),
             replace(result, figures={**result.figures, "empty_hosts_pct": 2 * EMPTY[cell.label][cell.workload.seed]}))
            for cell, result in cold]
    summary = summary_table(cells_table([*cold, *warm])).set_index(["workload", "label"])
    assert summary.loc[("synthetic, cold start", "first-fit"), "gain_pp"] == 2.0
    assert summary.loc[("synthetic, warm start", "first-fit"), "gain_pp"] == 4.0
    assert differences_table(cells_table([*cold, *warm]))["n_seeds"].eq(3).all()


def test_series_are_of_the_first_start_at_the_load_nearest_to_four_fifths(tmp_path: Path) -> None:
    config = CompareConfig(store=tmp_path, n_requests=1_000, policies=("first-fit",), loads=(0.5, 0.75), seeds=(4, 2),
                           starts=("cold", "warm"))
    cells = config.cells()
    run_cells(cells, local_workers(1))
    store = CellStore(tmp_path)
    found = [(cell, result) for cell in cells if (result := store.read(cell.key())) is not None]
    table = cells_table(found)
    data = comparison_data("title", found, table, summary_table(table))
    assert list(data.series) == list(RIVALS)
    main = next(result for cell, result in found
                if (cell.workload.start, cell.workload.load, cell.workload.seed) == ("cold", 0.75, 4))
    np.testing.assert_array_equal(data.series["best-fit"]["empty_hosts_pct"], main.arrays["empty_hosts_pct"])
    assert list(data.series["best-fit"]) == ["time_s", "empty_hosts_pct", "bound_empty_hosts_pct"]  # no usage
    assert data.description == f"{main.about['description']}; cold start"
    assert data.warmup_s == main.about["warmup_s"]
