"""Pictures of periodicity: what they show is what the fits hold."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.figure import Figure

from made_waves import known_waves, usage_grid
from sojourn.flows.usage.report import error_figure, period_figure, request_figure
from sojourn.models.periodicity import PeriodicitySettings, fit_waves
from studies.periodicity_errors import host_figure


def picture(figure: Figure) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=40)
    return out.getvalue()


def made() -> np.ndarray:
    values = known_waves(4, 2016, (72.0, 300.0), snr=3.0, seed=0, duties=(0.3, 0.6)).values
    values[0, 100:120] = np.nan
    values[3] = 0.25
    return values


def test_a_request_with_a_period_and_one_without() -> None:
    grid, settings = usage_grid(made()), PeriodicitySettings()
    fits = fit_waves(grid, settings)
    figure = request_figure(grid, fits, 0, settings, "request 0")
    labels = [line.get_label() for line in figure.axes[1].lines]
    assert labels == ["smoothed", "pulse wave"]
    marked = [line for line in figure.axes[2].lines if str(line.get_label()).startswith("period")]
    assert np.asarray(marked[0].get_xdata())[0] == pytest.approx(86_400 / fits.period_s[0])
    assert picture(figure).startswith(b"\x89PNG")
    flat = request_figure(grid, fits, 3, settings, "request 3")
    assert [line.get_label() for line in flat.axes[1].lines] == ["smoothed", "aperiodic: its peak"]
    assert len(flat.axes[2].lines) == 1


def test_every_request_is_in_a_bar_of_lengths() -> None:
    fits = fit_waves(usage_grid(made()))
    figure = period_figure(fits, "made")
    heights = [bar.get_height() for bar in figure.axes[2].patches]  # type: ignore[attr-defined]
    assert heights[0] == pytest.approx(25.0)  # one of four has no period
    assert sum(heights) == pytest.approx(100.0)
    strengths = [bar.get_height() for bar in figure.axes[0].patches]  # type: ignore[attr-defined]
    assert sum(strengths) == pytest.approx(100.0)


def test_the_host_shows_the_sum_of_both_waves() -> None:
    grid = usage_grid(made())
    fits = fit_waves(grid)
    figure = host_figure(grid, fits, (0, 1), "made")
    drawn = np.asarray(figure.axes[2].lines[1].get_ydata())
    middles_s = grid.time_s() + 150
    assert drawn == pytest.approx(fits.waves(0).at(middles_s) + fits.waves(1).at(middles_s))


def test_shares_of_errors_are_drawn_without_those_that_are_not_judged() -> None:
    panels = {"in-sample": {"pulse wave": np.array([0.1, 0.4, np.nan]), "constant mean": np.full(3, np.nan)},
              "next-day": {"pulse wave": np.array([0.2])}}
    figure = error_figure(panels, "made")
    left = figure.axes[0].lines[0]
    assert np.asarray(left.get_xdata()).tolist() == [0.1, 0.4]
    assert np.asarray(left.get_ydata()).tolist() == [50.0, 100.0]
    assert left.get_label() == "pulse wave: 50 % below 0.3, median 0.250"
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["in-sample", "next-day"]
