"""The sweep, its findings and figures, and the page, on small made jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from made_jobs import made_jobs, no_progress, swf_log
from studies import admission
from studies.admission import (
    CLAIMS,
    LIMITS,
    SHARES,
    SLACKS,
    SWEPT,
    judged_claims,
    main,
    paper_figures,
    ratios_section,
    sweep_days,
    sweep_figures,
)


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    return sweep_days(made_jobs(), "made", 2, 2, 0, 1, no_progress)


def test_limits_without_further_jobs_are_left_out_and_their_findings_not_testable(runs: pd.DataFrame) -> None:
    assert sorted(set(runs["limit"])) == [1, 30, 120]
    assert set(runs["slack"]) == set(SLACKS) and set(runs["share"]) == set(SHARES)
    judged = judged_claims(runs)
    assert len(judged) == len(CLAIMS)
    verdicts = judged.set_index("claim")["verdict"]
    assert verdicts["balanced beats best-fit, slack 0.5, up to 5,000 cores"] == "not testable"
    rows = ratios_section(runs, "Ratios", "made").rows
    assert len(rows) == 3 * 3 + 2 * 3 * 6 and rows[0][:3][2] == "greedy best-fit"


def test_findings_are_paired_by_day(runs: pd.DataFrame) -> None:
    judged = judged_claims(runs).set_index("claim")
    own = runs[(runs["limit"] == 1) & (runs["slack"] == 0.1)].groupby(["label", "day"])["ratio"].mean()
    expected = own["threshold best-fit"] - own["greedy best-fit"]
    row = judged.loc["greedy beats threshold, slack 0.1, sequential"]
    assert row["difference"] == pytest.approx(expected.mean()) and row["n_days"] == 2
    assert judged_claims(pd.DataFrame())["verdict"].tolist() == ["not testable"] * len(CLAIMS)


@pytest.mark.slow
def test_figures_are_those_of_the_paper() -> None:
    figures = paper_figures(sweep_figures(made_jobs(), "made", 2, 0, 1, no_progress))
    assert list(figures) == ["figure-2", "figure-3", "figure-4", "figure-5", "figure-6-7", "figure-8"]
    assert [len(figure.axes) for figure in figures.values()] == [1, 3, 4, 3, 4, 2]
    wide = made_jobs()
    only_wide = wide.take(wide.cores > 1)
    assert list(paper_figures(sweep_figures(only_wide, "made", 1, 0, 1, no_progress))) == ["figure-6-7", "figure-8"]
    assert LIMITS[0] == 1


@pytest.mark.slow
def test_a_sweep_is_written_logged_and_made_into_the_page(
        tmp_path: Path, new_store: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    log, out = swf_log(tmp_path / "jobs.swf", 800, days=6), tmp_path / "out"
    main(["sweep", str(log), "--reader", "swf", "--n-days", "2", "--n-draws", "1", "--out", str(out), "--store",
          str(new_store(tmp_path / "store"))])
    names = {path.name for path in out.iterdir()}
    assert {"admission.csv", "claims.csv", "figures.csv", "figure-2.png"} <= names <= SWEPT
    monkeypatch.setattr(admission, "DOCS", tmp_path)
    main(["page", "--sweep", f"made={out}", "--pictures", "made", "--target", "made"])
    page = (tmp_path / "admission_results.md").read_text()
    assert "![figure 2](admission_figure_2.png)" in page and (tmp_path / "admission_figure_2.png").is_file()
    assert "- [made](admission_ratios.md)" in page
    ratios = (tmp_path / "admission_ratios.md").read_text()
    assert "## made" in ratios and "| greedy best-fit |" in ratios
