"""Calibration by age as a table, on a page and in pictures: small cells are marked, older studies have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rich.console import Console

from sojourn.flows.reports.study_report import (
    age_figure,
    calibration_markdown,
    calibration_rows,
    calibration_table,
    coverage_weeks_figure,
    week_rows,
)
from sojourn.simulator.page import label_ends

POINTS = np.linspace(0.0, 1.0, 11)


def _scores(prefix: str, n_ends: float, at: float) -> dict[str, float]:
    return {f"{prefix}.n_ends": n_ends, f"{prefix}.pit_deviation": 0.5 - at, f"{prefix}.coverage_10": 0.1,
            f"{prefix}.coverage_50": at, f"{prefix}.coverage_90": 0.9}


def _weeks(at: float) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {"week": [0.0, 1.0], "n": [500.0, 300.0]}
    for prefix in ("creation", "age_1h"):
        found |= {f"{prefix}.n_ends": [400.0, 20.0], f"{prefix}.pit_deviation": [0.02, None],
                  **{f"{prefix}.coverage_{percent}": [at, None] for percent in (10, 50, 90)}}
    return found


def _found() -> dict[str, Any]:
    scores = {"km": {**_scores("creation", 5_000.0, 0.45), **_scores("age_6h", 99.0, 0.3)},
              "hazard": {**_scores("creation", 5_000.0, 0.49), **_scores("age_1h", 100.0, 0.4)}}
    del scores["km"]["age_6h.coverage_90"]  # nobody was followed that far
    return {
        "trace": "small", "chosen": "hazard", "scores": scores, "validation": {"km": 0.2, "hazard": 0.1},
        "intervals": {"hazard": {"creation.coverage_50": (0.471, 0.512)}, "km": {}},
        "weeks": {"hazard": _weeks(0.5), "km": _weeks(0.4)},
        "calibration": {family: {"pit": POINTS.tolist(), "creation.pit_share": (POINTS**power).tolist(),
                                 "age_1h.pit_share": POINTS.tolist(), "age_6h.pit_share": POINTS.tolist()}
                        for family, power in (("km", 2.0), ("hazard", 1.5))},
    }  # fmt: skip


def test_a_row_a_family_and_age_with_intervals_and_marks() -> None:
    assert calibration_rows(_found()) == [
        ["hazard *", "creation", "5,000", "0.010", "10.0", "49.0 [47 51]", "90.0"],
        ["hazard *", "1h", "100", "0.100", "10.0", "40.0", "90.0"],
        ["km", "creation", "5,000", "0.050", "10.0", "45.0", "90.0"],
        ["km", "6h", "99", "0.200 ~", "10.0 ~", "30.0 ~", "-"],
    ]
    console = Console(width=120, record=True)
    console.print(calibration_table(_found()))
    text = console.export_text()
    assert "49.0 [47 51]" in text and "~ marks a row of fewer than 100" in text


def test_a_trace_with_limits_has_a_second_row_for_each_age() -> None:
    found = _found()
    found["scores"]["hazard"] |= {f"age_1h.{name}_at_2pct": value for name, value in (
        ("pit_deviation", 0.05), ("coverage_10", 0.09), ("coverage_50", 0.45), ("coverage_90", 0.88))}
    found["intervals"]["hazard"]["age_1h.coverage_90_at_2pct"] = (0.85, 0.91)
    assert calibration_rows(found)[1:3] == [["hazard *", "1h", "100", "0.100", "10.0", "40.0", "90.0"],
                                            ["hazard *", "1h, limits", "100", "0.050", "9.0", "45.0", "88.0 [85 91]"]]


def test_the_page_has_the_chosen_family_by_week() -> None:
    page = "\n".join(calibration_markdown(_found()))
    assert "### Calibration by age" in page and "### Calibration of hazard by week of arrival" in page
    # a week of few ends has its count and nothing else
    assert week_rows(_weeks(0.5)) == [["1", *["400", "0.020", "50.0", "50.0", "50.0"] * 2],
                                      ["2", *["20", "-", "-", "-", "-"] * 2]]


def test_a_study_from_before_has_no_such_table() -> None:
    found = {**_found(), "scores": {"hazard": {"creation.pit_deviation": 0.1}}, "weeks": {"hazard": {"week": [0.0]}}}
    assert calibration_table(found) is None and calibration_markdown(found) == []
    assert week_rows(found["weeks"]["hazard"]) == []


def test_the_panels_show_each_family_by_name_where_it_has_enough_ends() -> None:
    panels = age_figure(_found()).axes
    assert [panel.get_title(loc="left") for panel in panels] == [
        "at creation: 5,000 ends", "at 10m: 0 ends", "at 1h: 100 ends", "at 6h: 0 ends"]
    assert [[text.get_text() for text in panel.texts] for panel in panels] == [
        ["km", "hazard"], ["fewer than 100 ends"], ["hazard"], ["fewer than 100 ends"]]
    drawn = next(line for line in panels[0].lines if line.get_label() == "km")
    assert np.asarray(drawn.get_ydata()) == pytest.approx(POINTS**2 - POINTS)  # how far off, not the share itself
    assert len({tuple(panel.get_ylim()) for panel in panels}) == 1


def test_coverage_by_week_has_a_panel_a_quantile_and_age() -> None:
    panels = coverage_weeks_figure(_found()).axes
    assert len(panels) == 6
    assert {panel.get_title(loc="left") for panel in panels} == {
        f"{percent} % quantile at {age}" for percent in (10, 50, 90) for age in ("creation", "1h")}
    # the second week has too few ends: one point a family
    assert all(len(line.get_xdata()) == 1 for panel in panels for line in panel.lines  # type: ignore[arg-type]
               if line.get_label() in ("km", "hazard"))


def test_names_at_the_ends_of_lines_do_not_overlap() -> None:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    axes.set_ylim(0.0, 1.0)
    label_ends(axes, {"a": [(1.0, 0.98)], "b": [(1.0, 0.99)], "c": [(1.0, 0.97)], "none": [], "low": [(1.0, 0.1)]}, {})
    heights = {text.get_text().strip(): text.get_position()[1] for text in axes.texts}
    assert list(heights) == ["low", "c", "a", "b"] and heights["low"] == 0.1
    assert heights["b"] <= 1.0
    assert np.diff([heights[name] for name in ("c", "a", "b")]) == pytest.approx(0.055)


def test_recalibrated_online_stands_below_its_family_and_beside_the_chosen_line() -> None:
    found = _found()
    found["online"] = {"hazard": _scores("creation", 5_000.0, 0.5)}
    found["calibration"]["hazard"]["online.creation.pit_share"] = POINTS.tolist()
    rows = calibration_rows(found)
    assert [row[0] for row in rows] == ["hazard *", "hazard *", "hazard, online", "km", "km"]
    assert rows[2] == ["hazard, online", "creation", "5,000", "0.000", "10.0", "50.0", "90.0"]
    panel = age_figure(found).axes[0]
    drawn = next(line for line in panel.lines if line.get_label() == "hazard, online")
    assert np.asarray(drawn.get_ydata()) == pytest.approx(np.zeros(len(POINTS)))


def test_a_share_that_nobody_was_followed_to_has_no_interval_either() -> None:
    found = _found()
    found["scores"]["hazard"]["creation.coverage_90"] = float("nan")
    found["intervals"]["hazard"]["creation.coverage_90"] = (1.0, 1.0)  # some draws have owners who were
    assert calibration_rows(found)[0][6] == "-"
