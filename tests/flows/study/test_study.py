"""The study: every family in one table, chosen between before the test window, and the page made of logged runs."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from sojourn.flows.reports.study_report import StudyDocument, study_markdown, study_tables
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.tracking.tracker import STUDY, SYSTEM, Tracker
from sojourn.models.lifetime import AgeGain
from studies.results import main, results_pages, trace_pages, write_results

FOUND = {
    "trace": "small", "data_hash": "0123456789abcdef", "code_version": "0.1", "n_past": 700, "n_test": 300,
    "test_from_s": 5_000, "threshold_s": 43_200, "chosen": "hazard", "fit_s": {"cox": 0.3, "km": 0.1, "hazard": 2.0},
    "scores": {"cox": {"creation.ap_1h": 0.55},
               "km": {"creation.ap_1h": 0.5, "creation.mae_log10_lifetime": 0.4, "age_1h.ap_long": 0.7},
               "hazard": {"ages.ibs": 0.1, "creation.ap_1h": 0.6, "creation.mae_log10_lifetime": 0.45}},
    "best_of_all": "hazard", "n_owners": 25, "validation": {"cox": 0.12, "km": 0.15, "hazard": 0.1},
    "intervals": {"hazard": {"creation.ap_1h": (0.5, 0.7), "creation.mae_log10_lifetime": (0.4, 0.5)}},
    "differences": {"km": {"creation.ap_1h": (0.1, 0.05, 0.15), "creation.mae_log10_lifetime": (0.05, 0.01, 0.09)},
                    "cox": {"creation.ap_1h": (0.05, -0.01, 0.11)}},
    "refused": {"requested-time": "needs the feature requested_s"},
}  # fmt: skip


def _page(found: StudyDocument) -> str:
    return "\n".join(study_markdown(found))


def test_the_best_of_each_column_is_bold_whatever_was_chosen() -> None:
    page = _page(FOUND)
    lines = [line for line in page.splitlines() if line.startswith(("| km", "| hazard"))]
    rows = {line.split(" | ")[0].strip("| "): line for line in lines[:2]}
    assert list(rows) == ["hazard *", "km"]
    # AP: higher is better; MAE: lower is; a measure that one family lacks is no tie
    assert rows["km"].split(" | ")[2:5] == ["0.500", "-", "**0.400**"]
    assert rows["hazard *"].split(" | ")[2:5] == ["**0.600**", "-", "0.450"]
    assert "**0.700**" in rows["km"]
    assert "- requested-time left out: needs the feature requested_s" in page


def test_the_chosen_is_compared_with_the_best_baseline_of_each_measure() -> None:
    page = _page(FOUND)
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(("| AP > 1h", "| MAE lif"))]
    # AP: cox is the best baseline, and the interval of the difference holds 0; MAE: lower is better, so km is
    assert rows == [
        ["AP > 1h", "0.600", "0.500 to 0.700", "cox 0.550", "+0.050", "-0.010 to +0.110", "level"],
        ["MAE lifetime", "0.450", "0.400 to 0.500", "km 0.400", "+0.050", "+0.010 to +0.090", "worse"],
    ]
    without_cox = {**FOUND, "differences": {"km": FOUND["differences"]["km"]}}  # type: ignore[index]
    assert "| km 0.500 | +0.100 | +0.050 to +0.150 | better |" in _page(without_cox)


def test_the_terminal_shows_the_same_figures() -> None:
    console = Console(width=200, record=True)
    for table in study_tables(FOUND):
        console.print(table)
    text = console.export_text()
    for part in ("small: 300 later requests", "hazard *", "0.450", "AP > 12h", "cox 0.550", "25 owners"):
        assert part in text


def test_a_family_that_cannot_be_served_is_named_where_it_was_best() -> None:
    assert "km was best there; it cannot be served" in _page({**FOUND, "best_of_all": "km"})


def test_why_a_family_was_chosen_is_said_on_the_page_and_on_the_terminal() -> None:
    said = "hazard: best on the validation window (Brier over ages), 0.0500 before km"
    found = {**FOUND, "said": said, "choice": {"family": "hazard", "rival": "km"}}
    assert f"- Chosen family (marked \\*): {said}" in _page(found)
    console = Console(width=200, record=True)
    console.print(study_tables(found)[0])
    assert f"* {said}" in console.export_text()
    # where a simpler one was taken, the best is the rival: it can be served
    simpler = {**found, "best_of_all": "km", "chosen": "hazard"}
    assert "cannot be served" not in _page(simpler)
    assert "cox was best there; it cannot be served" in _page({**found, "best_of_all": "cox"})


def test_the_page_shows_the_latest_finished_study_of_each_trace(new_store: Callable[[Path], Path],
                                                                tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    new_store(tmp_path)
    tracker = Tracker(RetrainConfig(store=tmp_path).mlflow_uri, tmp_path / "artifacts")
    for trace, n_test, status in (("a", 1, "FINISHED"), ("a", 2, "FINISHED"), ("a", 3, "FAILED"), ("b", 4, "FINISHED")):
        run = tracker.start(f"study {trace}", {"kind": STUDY, "trace": trace})
        tracker.log_text(run, json.dumps({**FOUND, "trace": trace, "n_test": n_test}), f"{SYSTEM}/{STUDY}.json")
        tracker.end(run, status)
    page = tmp_path / "results.md"
    monkeypatch.setattr("sys.argv", ["results", str(page), "--store", str(tmp_path)])
    main()
    text = page.read_text()
    assert text.index("[a](results/a.md)") < text.index("[b](results/b.md)")
    assert "2 after it" in (tmp_path / "results" / "a.md").read_text()
    assert "4 after it" in (tmp_path / "results" / "b.md").read_text()
    assert sorted(file.name for file in (tmp_path / "results").iterdir()) == ["a.md", "b.md"]


def test_the_index_has_a_row_a_trace_with_its_main_measures() -> None:
    pages = results_pages([FOUND], (), "results")
    assert list(pages) == ["", "small.md"]
    row = next(line for line in pages[""].splitlines() if line.startswith("| [small]"))
    # cox is the best baseline by AP: level; km by MAE: worse; no baseline has the Brier score or the long AP
    assert row.strip("| ").split(" | ") == [
        "[small](results/small.md)", "1,000", "[hazard](results/small.md#study)", "-", "-",
        "**+0.050** [+0.010 to +0.090], worse than km", "-", "-"]


def test_held_and_refreshed_curves_stand_side_by_side() -> None:
    gain = AgeGain(3_600, 190, 180, 0.12, 0.11, 0.002, 0.5, 0.45)
    other = AgeGain(21_600, 90, 80, 0.05, 0.04, math.inf)
    found = {**FOUND, "refreshed": [gain.document(), other.document()], "refresh_ages_s": [3_600],
             "refresh_said": "refreshed at 1h"}
    lines = _page(found).splitlines()
    assert "| 1h | 190 | 0.1200 | 0.1100 | 0.0020 | 0.5000 | 0.4500 | yes |" in lines
    assert "| 6h | 90 | 0.0500 | 0.0400 | - | - | - | no |" in lines
    assert "- Running requests, on the validation window: refreshed at 1h." in lines
    console = Console(file=io.StringIO(), width=200)
    for table in study_tables(found):
        console.print(table)
    assert "Refresh, test window" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "Refresh" not in _page(FOUND)


def test_a_measure_that_is_newer_than_the_study_has_no_column() -> None:
    older = {family: {name: value for name, value in values.items() if name != "ages.ibs"}
             for family, values in FOUND["scores"].items()}  # type: ignore[attr-defined]
    assert "| Brier ages |" in _page(FOUND)
    assert "Brier" not in _page({**FOUND, "scores": older}).split("### Accuracy")[1]


def test_what_columns_mean_stands_once_on_the_index() -> None:
    pages = results_pages([FOUND, {**FOUND, "trace": "other"}], (), "results")
    assert [text.count("Brier score over log time, at creation") for text in pages.values()] == [1, 0, 0]
    assert "(../results.md#columns)" in pages["small.md"] and "\n## Columns\n" in pages[""]


def test_calibration_and_each_comparison_have_pages_of_at_most_250_lines() -> None:
    study = "## Study\n\n### Accuracy\n\nA\n\n### Calibration by age\n\nB\n\n### Notes\n\nC\n"
    table = "| a |\n|---|\n" + "| 1 |\n" * 98
    sweep = "## Placement on x, sweep\n\nAbout.\n\n" + "\n".join(f"load {k}.\n\n{table}" for k in range(5))
    pages = trace_pages("x", "x.md", "results", ("-",) * 7, study, {"sweep": sweep})
    assert list(pages) == ["x.md", "x/calibration.md", "x/sweep.md", "x/sweep-2.md", "x/sweep-3.md"]
    assert all(text.count("\n") <= 250 for text in pages.values())
    assert pages["x.md"] == (
        "# x\n\n[All traces](../results.md). [What the columns mean](../results.md#columns).\n\n\n"
        "- [Calibration on x](x/calibration.md)\n- [Placement on x, sweep](x/sweep.md)\n"
        "- [Placement on x, sweep, part 2](x/sweep-2.md)\n- [Placement on x, sweep, part 3](x/sweep-3.md)\n\n"
        "## Study\n\n### Accuracy\n\nA\n\n### Notes\n\nC\n")
    assert pages["x/calibration.md"].startswith("# Calibration on x\n\n[x](../x.md).")
    assert "\n## Calibration by age\n\nB\n" in pages["x/calibration.md"]
    # no line is lost, and a table stays with what stands above it
    assert sum(pages[name].count("| 1 |") for name in pages) == 5 * 98
    assert [pages[f"x/sweep{end}.md"].count("\n\n| a |") for end in ("", "-2", "-3")] == [2, 2, 1]


def test_an_index_that_is_no_markdown_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"file must end in \.md, got 'results'"):
        write_results(tmp_path / "results", [FOUND], ())
    assert not list(tmp_path.iterdir())


def test_a_store_without_studies_is_named(new_store: Callable[[Path], Path], tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "results.md"
    monkeypatch.setattr("sys.argv", ["results", str(page), "--store", str(new_store(tmp_path / "store"))])
    with pytest.raises(ValueError, match=r"the store must hold a study or a comparison \(run `sojourn lab evaluate`"):
        main()
    assert not page.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_study_leaves_out_what_the_trace_cannot_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sojourn.flows.study.study import study

    found = study(RetrainConfig(store=tmp_path, n_requests=2_000, n_threads=1,
                                families=("km", "gbdt-once", "repeat-last", "requested-time")))
    assert set(found.scores) == {"km", "gbdt-once", "repeat-last"}
    assert "requested_s" in found.refused["requested-time"]
    printed = capsys.readouterr().out
    assert "requested-time left out" in printed
    assert found.n_owners >= 20 and set(found.differences) == {"gbdt-once", "repeat-last"} and found.chosen == "km"
    low, high = found.intervals["km"]["creation.mae_log10_lifetime"]
    assert low < found.scores["km"]["creation.mae_log10_lifetime"] < high
    assert found.scores["km"]["seen.n"] + found.scores["km"]["unseen.n"] == found.n_test
    assert sum(n or 0.0 for n in found.weeks["km"]["n"]) == found.n_test
    assert [logged["chosen"] for logged in
            Tracker(RetrainConfig(store=tmp_path).mlflow_uri, tmp_path / "artifacts").studies()] == [found.chosen]
