"""`sojourn gain` whole: learnt once per trace, told, logged, on the results page, and not run again."""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from sojourn.features import Trace
from sojourn.features.creation import backoff_keys, build_rows, default_encoder
from sojourn.features.synthetic import synthesize
from sojourn.features.synthetic_usage import with_usage
from sojourn.flows.cli import app
from sojourn.flows.compare import cells as cell_replay
from sojourn.flows.compare import comparison as comparing
from sojourn.flows.compare.cells import CellStore, learnt_source, source_of, workload_of
from sojourn.flows.compare.cells import cut_s as cut_of_trace
from sojourn.flows.compare.comparison import chosen_on_past, comparison_data, replayed_later, run_cells
from sojourn.flows.compare.grid import Cell
from sojourn.flows.compare.settings import OF_PAST, CompareConfig
from sojourn.flows.compare.tables import cells_table, summary_table
from sojourn.flows.placement import predictors
from sojourn.flows.placement.predictors import TableSource, asked_rows, parse_predictor
from sojourn.flows.reports.comparison_report import comparison_markdown, comparison_tables, policies_table
from sojourn.flows.retrain.train import windows
from sojourn.flows.versions.promotion import open_store
from sojourn.flows.workers.dask import local_workers
from sojourn.models import LIFETIME_MODELS, FitSettings
from sojourn.models.lifetime.baselines import KaplanMeierModel
from sojourn.simulator import Result, Workload, host_map, simulate, usage_metrics
from sojourn.simulator.experiments import RIVALS
from sojourn.simulator.measures import COLUMNS, HostMap
from sojourn.simulator.page import ComparisonData
from studies.results import main as write_pages
from studies.results import results_pages

HERE = local_workers(1)
GAINS, FURTHER, DEBT = ([column.text_title(name) for name, column in COLUMNS.items() if column.table == table]
                        for table in ("gains", "further", "debt"))
"""Titles of the registered columns of text tables."""


def _config(store: Path, **settings: object) -> CompareConfig:
    return CompareConfig.model_validate({
        "store": store, "n_requests": 1_500, "policies": ("nilas-expected", "nilas"), "seeds": (0,), **settings})


@pytest.mark.slow
def test_a_model_is_fitted_once_per_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[str] = []

    class Counted(KaplanMeierModel):
        def fit(self, *arguments: object) -> KaplanMeierModel:  # type: ignore[override]
            fitted.append(self.name)
            return super().fit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(predictors, "LIFETIME_MODELS", {**LIFETIME_MODELS, "km": Counted})
    settings: dict[str, object] = {"predictors": ("km", "one-shot:km"), "loads": (0.5, 0.8), "policies": ("nilas",)}
    assert run_cells(_config(tmp_path, **settings).cells(), HERE) == {}
    assert fitted == ["km"]
    assert run_cells(_config(tmp_path, **settings, seeds=(0, 1)).cells(), HERE) == {}
    assert fitted == ["km", "km"]  # another seed is another trace
    # those of other policies come from the store
    assert run_cells(_config(tmp_path, **{**settings, "policies": ("nilas-expected",)}).cells(), HERE) == {}
    assert fitted == ["km", "km"]


def test_curves_are_those_that_retrain_would_ask_with(tmp_path: Path) -> None:
    """Against the same model fitted here and asked for this workload's rows alone."""
    config = _config(tmp_path, predictors=("km",), policies=("nilas",))
    cells = config.cells()
    assert run_cells(cells, HERE) == {}
    spec = cells[0].workload
    workload = workload_of(spec)
    trace = synthesize(1_500, seed=0)
    encoder = default_encoder(trace)
    rows = build_rows(trace, encoder)
    split = windows(rows, spec.trace.test_share, spec.trace.valid_share)
    assert (workload.trace.start_s() >= 0).any()
    model = KaplanMeierModel().fit(split.train, split.valid, split.past, FitSettings(
        backoff_keys(encoder), names=rows.names))
    asked = asked_rows(workload, trace, rows)
    source = TableSource(model.curve_table(asked.rows), asked.request_ids, idx=asked.idx)
    expected = source.curves(workload.trace.requests)
    kept = learnt_source(workload, spec.trace, parse_predictor("km")).curves(workload.trace.requests)
    assert len(kept.offsets) < len(expected.offsets)  # equal ones are kept once
    assert expected.overhang_s is not None
    assert kept.overhang_s is not None
    curves = [(one.curve_of(), one.offsets) for one in (kept, expected)]
    for row in range(len(kept)):
        mine, theirs = (slice(*offsets[curve_of[row]:][:2]) for curve_of, offsets in curves)
        for name in ("uptime_s", "total_s", "overhang_s"):
            np.testing.assert_array_equal(getattr(kept, name)[mine], getattr(expected, name)[theirs])


def test_a_family_that_refuses_the_trace_costs_its_own_cells(tmp_path: Path) -> None:
    cells = _config(tmp_path, predictors=("km", "requested-time"), policies=("nilas",)).cells()
    failed = run_cells(cells, HERE)
    assert [cell.label for cell in failed] == ["nilas (requested-time)"]
    assert "ValueError" in next(iter(failed.values()))


def test_a_trace_that_cannot_be_split_costs_all_of_them(tmp_path: Path) -> None:
    table = pd.DataFrame({"request_id": range(12), "arrival_s": range(12), "departure_s": None, "cpu_cores": 1.0,
                          "mem_gib": 1.0})
    Trace(table, 100).save(tmp_path / "trace")
    cells = _config(tmp_path / "store", trace=tmp_path / "trace", reader="parquet", predictors=("km",)).cells()
    failed = run_cells(cells, HERE)
    assert list(failed) == cells
    assert all("at least one observed end" in reason for reason in failed.values())


def test_refused_rows_are_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reading, learning, replays and the page all take the trace out of the store."""
    table = synthesize(1_200, seed=5).requests[["request_id", "arrival_s", "departure_s", "cpu_cores", "mem_gib"]]
    table = table.astype(object)
    table.loc[3, "cpu_cores"] = "many"
    table.to_csv(tmp_path / "vms.csv", index=False)
    cells = _config(tmp_path / "store", trace=tmp_path / "vms.csv", reader="csv", policies=("nilas",),
                    predictors=("km",)).cells()
    assert run_cells(cells, HERE) == {}
    store = CellStore(tmp_path / "store")
    found = [(cell, result) for cell in cells if (result := store.read(cell.key())) is not None]
    table = cells_table(found)
    comparison_data("page", found, table, summary_table(table))
    assert capsys.readouterr().out.count("refused: ") == 1
    assert run_cells(cells, HERE) == {}  # nothing is replayed, and the figures are of the same rows
    assert capsys.readouterr().out.count("refused: ") == 1


def test_seeds_of_a_file_are_replicas_of_one_trace(tmp_path: Path) -> None:
    synthesize(1_200, seed=5).save(tmp_path / "trace")
    cells = _config(tmp_path / "store", trace=tmp_path / "trace", reader="parquet", policies=("first-fit",),
                    seeds=(0, 1)).cells()
    assert run_cells(cells, HERE) == {}
    first, second = (workload_of(cell.workload) for cell in cells[::3])
    assert len(first.hosts) == len(second.hosts)
    ids = first.trace.requests["request_id"]
    start = pd.Series(second.trace.start_s(), second.trace.requests["request_id"]).reindex(ids).to_numpy()
    assert 0 < np.abs(start - first.trace.start_s()).max() <= 300


def _with_other_future(trace: Trace, cut_s: int) -> Trace:
    """The same until the cut; what begins later has other sizes and lengths, and what runs then other ends."""
    rng, table = np.random.default_rng(0), trace.requests.copy()
    is_later = table["arrival_s"].to_numpy() >= cut_s
    table.loc[is_later, "cpu_cores"] = rng.permutation(table.loc[is_later, "cpu_cores"].to_numpy())
    is_unknown = is_later | (trace.end_s() > cut_s)
    left_s = rng.integers(1, 5 * 86_400, len(table))
    end_s = np.maximum(table["arrival_s"].to_numpy(), cut_s) + left_s
    table.loc[is_unknown, "departure_s"] = pd.array(end_s[is_unknown], "Int64")
    table["departure_s"] = table["departure_s"].mask(table["departure_s"] > trace.horizon_s)
    return Trace(table, trace.horizon_s, trace.roles, trace.hosts, meta=trace.meta)


def test_the_choice_on_the_past_does_not_see_the_future(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = synthesize(1_500, seed=5)
    rows = build_rows(trace, default_encoder(trace))
    cut_s = windows(rows, CompareConfig().test_share, 0.15).test_from_s
    words, figures = [], []
    for name, each in (("one", trace), ("other", _with_other_future(trace, cut_s))):
        each.save(tmp_path / name / "trace")
        config = _config(tmp_path / name / "store", trace=tmp_path / name / "trace", reader="parquet",
                         preset=OF_PAST, predictors=("km", "oracle"), rectifiers=("value:5",))
        cells = config.cells()
        choices = chosen_on_past(cells, HERE)
        words.append(choices)
        later = replayed_later(cells, choices)
        assert run_cells(later, HERE) == {}
        figures.append(cells_table([(cell, result) for cell in later
                                    if (result := CellStore(config.store).read(cell.key())) is not None]))
        assert later[0].workload.trace == cells[0].workload.trace
        assert {cell.placing for cell in later} == {*RIVALS, later[-1].placing}
        assert cut_of_trace(later[0].workload.trace) == cut_s
    assert words[0] == words[1] and "of 5. Gain over " in words[0][0].words
    assert not figures[0]["empty_hosts_pct"].equals(figures[1]["empty_hosts_pct"])
    capsys.readouterr()


def test_a_choice_on_the_past_needs_a_predictor_that_learns(tmp_path: Path) -> None:
    for settings in ({"predictors": ("oracle",)}, {"predictors": ("noise:1",), "starts": ("cold",)}):
        with pytest.raises(ValueError, match=r"^best-of-past must have a predictor that is learnt"):
            _config(tmp_path, preset=OF_PAST, **settings).cells()


def _data(cells: Sequence[Cell]) -> ComparisonData:
    store = CellStore(cells[0].workload.trace.store)
    found = [(cell, result) for cell in cells if (result := store.read(cell.key())) is not None]
    table = cells_table(found)
    return comparison_data("title", found, table, summary_table(table))


def test_a_page_is_drawn_of_kept_cells_whose_curves_are_gone(tmp_path: Path,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    cells = _config(tmp_path, predictors=("km", "oracle"), policies=("nilas",)).cells()
    assert run_cells(cells, HERE) == {}
    whole = _data(cells).decisions
    shutil.rmtree(tmp_path / "curves")
    workload_of.cache_clear()
    source_of.cache_clear()
    assert _data(cells).decisions == whole
    assert {decision["predictor"] for decision in whole} == {"", "km", "oracle"}
    # and where they cannot be learnt again, the rest is explained
    others = [replace(cell, predictor=parse_predictor("requested-time")) if cell.label == "nilas (km)" else cell
              for cell in cells]
    store = CellStore(tmp_path)
    for cell, other in zip(cells, others, strict=True):
        kept = store.read(cell.key())
        assert kept is not None
        store.write(other.key(), kept)
    assert {decision["predictor"] for decision in _data(others).decisions} == {"", "oracle"}
    assert "nilas (requested-time) is not explained: ValueError" in capsys.readouterr().out


def test_tables_are_written_though_the_page_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: object) -> ComparisonData:
        raise ZeroDivisionError

    monkeypatch.setattr(comparing, "log_comparison", lambda *arguments: None)
    monkeypatch.setattr(comparing, "comparison_data", failing)
    config = _config(tmp_path, policies=("first-fit",), page=tmp_path / "pages" / "page.html", n_workers=1)
    with pytest.raises(ZeroDivisionError):
        comparing.run_comparison(config, open_store(config), config.cells())
    names = sorted(file.name for file in (tmp_path / "pages").iterdir())
    assert names == ["page-cells.csv", "page-differences.csv", "page-summary.csv"]


def test_a_host_map_has_the_states_of_its_own_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(workload: Workload, result: Result) -> HostMap:
        found = host_map(workload, result)
        return replace(found, state=np.zeros_like(found.lifetime_class), state_names=("calm", "busy"))

    monkeypatch.setattr(cell_replay, "host_map", named)
    cells = _config(tmp_path, policies=("first-fit",)).cells()
    assert run_cells(cells, HERE) == {}
    assert _data(cells).host_maps["first-fit"].state_names == ("calm", "busy")


@pytest.mark.slow
def test_compare_and_results_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, page = tmp_path / "store", tmp_path / "results.md"
    arguments = ["gain", "--store", str(store), "--n-requests", "1500", "--n-seeds", "2", "--n-workers", "1",
                 "--preset", "recall-sweep", "--predictor", "recall:0.8", "--policy", "nilas"]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    assert "nilas" in first.stdout
    assert "recall:0.8" in first.stdout
    again = CliRunner().invoke(app, arguments)
    # 2 seeds of the three rivals and nilas, the oracle's beside it
    assert "10 of 10 cells were finished before" in again.stdout
    client = MlflowClient(f"sqlite:///{store / 'mlflow.db'}")
    runs = client.search_runs([each.experiment_id for each in client.search_experiments()], "tags.kind = 'cells'")
    child = next(run for run in runs if run.data.params["predictor"] == "recall:0.8")
    parent = client.get_run(child.data.tags["mlflow.parentRunId"])
    assert parent.info.run_name.startswith("recall-sweep ") and len(parent.info.run_name) <= 25
    answers = parent.data.tags["mlflow.note.content"].split("\n\n")
    assert len(answers) == len(set(answers)) > 0 and all(" load 0.8: " in line for line in answers)
    assert {each.path for each in client.list_artifacts(parent.info.run_id, "system")} == {"system/comparison.json"}
    by_seed = {each.step: each.value for each in client.get_metric_history(child.info.run_id, "seed/gain_pp")}
    assert sorted(by_seed) == [0, 1]
    assert child.inputs is not None
    assert sorted(each.dataset.name for each in child.inputs.dataset_inputs) == ["synthetic, seed 0",
                                                                                 "synthetic, seed 1"]
    assert sum(by_seed.values()) / 2 == pytest.approx(child.data.metrics["gain_pp"])
    monkeypatch.setattr("sys.argv", ["results", str(page), "--store", str(store)])
    write_pages()
    assert "(results/synthetic/recall-sweep.md)" in page.read_text()
    assert "(synthetic/recall-sweep.md)" in (tmp_path / "results" / "synthetic.md").read_text()
    text = (tmp_path / "results" / "synthetic" / "recall-sweep.md").read_text()
    assert text.startswith("# Placement on synthetic, recall-sweep\n")
    gains, debt = (_cells_of(line)[2:] for line in text.splitlines() if line.startswith("| nilas | recall:0.8 |"))
    assert len(gains) == len(("empty hosts", "gain", "interval", *GAINS, *FURTHER))
    assert "-" not in gains
    assert len(debt) == len(DEBT)
    assert "-" not in debt
    assert "All measures, and figures over time: --page FILE.html" in first.stdout


def _cells_of(line: str) -> list[str]:
    """The cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_at_80_columns_policies_and_predictors_fold_between_words() -> None:
    row = {"empty_hosts_pct": 66.28, "gain_pp": 2.57, "gain_low_pp": 1.79, "gain_high_pp": 3.35,
           "rival": "first-in-use", "over_rival_pp": 1.65, "over_rival_low_pp": 1.0, "over_rival_high_pp": 2.0,
           "gap_closed_pct": 40.0, "packing_density_pct": 71.0, "n_rejected": 3, "rejected_pct": 0.01,
           "events_per_s": 1e5, "n_seeds": 5, "load": 0.8}
    rows = [{**row, "policy": "nilas-expected + value:5,every=1", "predictor": predictor}
            for predictor in ("oracle", "hazard", "refreshed:hazard")]
    stream = io.StringIO()
    Console(file=stream, width=80).print(policies_table(pd.DataFrame(rows), "openb"))
    cells = [line.split("│")[1:3] for line in stream.getvalue().splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in line] for line in cells] == [
        part for predictor in ("oracle", "hazard", "refreshed:hazard")
        for part in (["nilas-expected +", predictor], ["value:5,every=1", ""])]


def test_a_section_of_the_results_page() -> None:
    row = {"policy": "nilas", "predictor": "oracle", "empty_hosts_pct": 31.254, "gain_pp": 2.5, "gain_low_pp": 1.25,
           "gain_high_pp": 3.75, "gap_closed_pct": 44.6, "packing_density_pct": 71.04, "rejected_pct": 0.0123,
           "n_seeds": 5}
    alone = {**row, "policy": "best-fit", "predictor": "", "gain_pp": 0.0, "gain_low_pp": 0.0, "gain_high_pp": 0.0,
             "gap_closed_pct": 0.0}
    measured = {**row, "bound_empty_hosts_pct": 40.0, "stranded_cpu_cores_pct": 0.625, "decision_us": 1.25,
                "stranded_cpu_cores_at_misfit_pct": 2.5, "stranded_mem_gib_pct": 10.0,
                "stranded_mem_gib_at_misfit_pct": 12.5}
    lines = comparison_markdown({
        "name": "lava-table", "about": "Every policy. ", "trace": "openb", "data_hash": "0123456789abcdef",
        "code_version": "0.1.0", "workloads": [{"load": 0.8, "description": "openb: 9 requests; cold start",
                                                "rows": [alone, {**row, "gain_low_pp": None}, measured]}]})
    assert lines[0] == "## Placement on openb, lava-table"
    assert "openb: 9 requests; cold start; load 0.8, seeds: 5." in lines
    titles = _cells_of(lines[-6])
    assert titles == ["policy", "predictor", "empty hosts %", "gain pp", "95 % interval", *GAINS, *FURTHER]
    placed = {"policy": "nilas", "predictor": "oracle", "empty hosts %": "31.25", "gain pp": "+2.50",
              "gap closed %": "45", "packing density %": "71.0", "rejected %": "0.012"}
    further = {"bound %": "40.00", "stranded CPU %": "0.62", "stranded CPU at misfit %": "2.50",
               "stranded memory %": "10.00", "stranded memory at misfit %": "12.50", "decision us": "1.2"}
    assert [title for title in titles if title in further] == list(further)
    # the first two as logged before there were such figures; a figure that a row lacks is "-"
    for line, known in zip(lines[-4:-1], (
            {**placed, "policy": "best-fit", "predictor": "", "gain pp": "0.00", "gap closed %": "0"}, placed,
            {**placed, "95 % interval": "+1.25 to +3.75", **further}), strict=True):
        assert line == f"| {' | '.join(known.get(title, '-') for title in titles)} |"


def test_the_index_shows_the_largest_gain_that_rejects_no_more() -> None:
    rows = [{**row, "gain_high_pp": row["gain_pp"] + 1.0} for row in caveat_rows()]
    part = {"load": 0.8, "description": "d", "rows": rows}
    found = {"name": "lava-table", "about": "", "trace": "x", "data_hash": "0", "code_version": "1",
             "workloads": [part]}
    pages = results_pages((), [found, {**found, "name": ""}], "results")
    assert list(pages) == ["", "x.md", "x/placement.md", "x/lava-table.md"]
    index = pages[""]
    # nilas gains more than lava (+1 against -1) but rejects 0.5 % more than best-fit; no cell has an oracle
    assert "| -1.00 [-2.00 to 0.00], [lava (km)](results/x/placement.md), largest of 1 | - |" in index
    assert "- gain with a model, pp: -1.00 [-2.00 to 0.00], [lava (km)](x/placement.md), largest of 1" in pages["x.md"]
    assert "[x](../x.md). [What the columns mean](../../results.md#columns)." in pages["x/lava-table.md"]
    assert "| lava | km |" in pages["x/lava-table.md"] and "| lava | km |" not in pages["x.md"]


def caveat_rows() -> list[dict[str, Any]]:
    """Best-fit, and two that can be deployed: one loses, the other is not sure to gain and rejects more; 14 hosts."""
    row = {"workload": "trace, cold start", "load": 0.8, "policy": "best-fit", "predictor": "", "label": "best-fit",
           "n_seeds": 3, "n_hosts": 14.0, "empty_hosts_pct": 30.0, "gain_pp": 0.0, "gain_low_pp": 0.0,
           "gain_high_pp": 0.0, "gap_closed_pct": 0.0, "packing_density_pct": 70.0, "n_rejected": 0,
           "rejected_pct": 0.0, "events_per_s": 1e6, "bound_empty_hosts_pct": 40.0, "decision_us": 1.0}
    loses = {"policy": "lava", "predictor": "km", "label": "lava (km)", "gain_pp": -1.0, "gain_low_pp": -2.0}
    rejects = {"policy": "nilas", "predictor": "km", "label": "nilas (km)", "gain_pp": 1.0, "gain_low_pp": -0.5,
               "n_rejected": 12, "rejected_pct": 0.5}
    return [row, {**row, **loses}, {**row, **rejects}]


CAVEATS = ("Nothing deployable is significantly better than best-fit.",
           "More requests rejected than by best-fit: nilas (km). Part of the empty hosts may be work that was not "
           "taken.",
           "Only 14 hosts and 3 seeds: differences of a point or two may be chance.")


def test_a_printed_table_says_what_must_be_held_against_it() -> None:
    placement = comparison_tables(pd.DataFrame(caveat_rows()), {("trace, cold start", 0.8): "a trace"})[0]
    assert isinstance(placement, Table)
    assert tuple(str(placement.caption).split("\n")[-3:]) == CAVEATS
    rejected = next(column for column in placement.columns if column.header == "rejected")
    assert list(rejected.cells) == ["0", "0", "12 (more)"]


@pytest.mark.parametrize("width", [80, 120])
def test_long_names_leave_the_interval_whole(width: int) -> None:
    long = {"policy": "dapp-ungrouped-events + value:5", "predictor": "hazard", "gain_low_pp": -11.27,
            "gain_high_pp": 15.58, "n_rejected": 2_308, "rejected_pct": 0.5}
    rows = [*caveat_rows(), {**caveat_rows()[0], **long}]
    table = comparison_tables(pd.DataFrame(rows), {("trace, cold start", 0.8): "a trace"})[0]
    console = Console(width=width)
    with console.capture() as printed:
        console.print(table, crop=False)
    assert "…" not in printed.get()
    assert "-11.27 +15.58" in printed.get()
    assert max(map(len, printed.get().splitlines())) <= width
    assert "events/s" in " ".join(printed.get().partition("Not shown at")[2].split())


def test_a_section_of_the_results_page_says_it_too() -> None:
    lines = comparison_markdown({"name": "", "about": "", "trace": "x", "data_hash": "0", "code_version": "1",
                                 "workloads": [{"load": 0.8, "description": "d", "rows": caveat_rows()}]})
    assert lines[-2] == " ".join(CAVEATS)


def test_violations_are_told_where_usage_is_known() -> None:
    row = {"workload": "trace, cold start", "load": 0.8, "policy": "best-fit", "predictor": "", "label": "best-fit",
           "n_seeds": 1, "empty_hosts_pct": 30.0, "gain_pp": 0.0, "gain_low_pp": math.nan, "gain_high_pp": math.nan,
           "gap_closed_pct": 0.0, "packing_density_pct": 70.0, "n_rejected": 0, "events_per_s": 1e6,
           "bound_empty_hosts_pct": 40.0, "decision_us": 1.0}
    used = {**row, "used_cpu_pct": 25.0, "violation_rate_pct": 0.5, "violation_severity_pct": 0.125}
    titles_of_use = [COLUMNS[name].text_title(name) for name in used if name not in row]
    for rows, known in (([row], []), ([row, used], titles_of_use)):
        lines = comparison_markdown({"name": "", "about": "", "trace": "x", "data_hash": "0", "code_version": "1",
                                     "workloads": [{"load": 0.8, "description": "d", "rows": rows}]})
        head, *body = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
        assert [title for title in head if title in titles_of_use] == known
    assert [row[-3:] for row in body[-2:]] == [["-", "-", "-"], ["25.00", "0.500", "0.125"]]


def test_cells_tell_use_and_violations_where_the_trace_has_usage(tmp_path: Path) -> None:
    trace, _ = with_usage(synthesize(1_000, seed=3, days=7), 40)
    trace.save(tmp_path / "trace")
    config = _config(tmp_path / "store", trace=tmp_path / "trace", reader="parquet", policies=("first-fit",),
                     seeds=(0, 1), starts=("cold", "warm"))
    cells = config.cells()
    assert run_cells(cells, HERE) == {}
    store = CellStore(config.store)
    for cell in cells:
        result = store.read(cell.key())
        assert result is not None
        assert 0 < result.figures["used_cpu_pct"] < result.figures["utilisation_cpu_cores_pct"]
        assert result.times["decision_us"] > 0
        workload = workload_of(cell.workload)
        expected = usage_metrics(workload, simulate(workload, cell.policy))
        assert result.figures["violation_severity_pct"] == expected.violation_severity_pct


def test_placement_debt_has_a_table_of_its_own() -> None:
    rows = [{**row, "long_lived_h": 24.0, "long_lived_core_hours_pct": 92.0, "stranded_hosts_pct": 45.25,
             "density_sensitivity_pct": math.nan} for row in caveat_rows()]
    part = {"load": 0.8, "description": "d", "rows": rows}
    lines = comparison_markdown({"name": "", "about": "", "trace": "x", "data_hash": "0", "code_version": "1",
                                 "workloads": [part]})
    debt = [_cells_of(line) for line in lines[lines.index("Placement debt:"):] if line.startswith("| ")]
    assert debt[0] == ["policy", "predictor", "long from h", "held by long %", "stranded hosts %"]
    assert debt[2][2:] == ["24", "92", "45.2"]
