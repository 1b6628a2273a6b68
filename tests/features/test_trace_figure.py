"""The picture of a trace shows the summary's numbers."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch

from sojourn.features import Roles, Trace
from sojourn.features.describe import describe
from sojourn.features.synthetic import synthesize
from sojourn.features.trace_figure import trace_figure


def steps(axes: Axes) -> list[StepPatch]:
    return [patch for patch in axes.patches if isinstance(patch, StepPatch)]


def test_the_picture_shows_the_share_of_requests_that_live_an_hour() -> None:
    trace = synthesize(3000, seed=3, days=7)
    left, middle, _ = trace_figure(trace).axes
    requests, cores = left.get_lines()[:2]
    at = np.searchsorted(np.asarray(requests.get_xdata()), 3600)
    summary = describe(trace)
    assert np.asarray(requests.get_ydata())[at] == pytest.approx(100 * summary.long_share)
    assert np.asarray(cores.get_ydata())[at] == pytest.approx(100 * summary.long_core_share, abs=0.01)
    assert middle.get_ylabel() == "arrivals per hour"


def test_a_century_is_drawn_in_few_bars() -> None:
    table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [3_000_000_000],
                          "cpu_cores": [1.0], "mem_gib": [1.0]})
    middle = trace_figure(Trace(table, 3_000_000_000)).axes[1]
    bars = middle.patches[0]
    assert isinstance(bars, StepPatch)
    assert len(bars.get_data()[0]) <= 1501


def test_what_is_in_use_has_the_mean_of_the_summary() -> None:
    trace = synthesize(3000, seed=3, days=7)
    summary = describe(trace)
    axes = trace_figure(trace).axes[2]
    assert axes.get_ylabel() == "in use, mean per hour, % of the hosts"
    for name, patch in zip(("cpu_cores", "mem_gib"), steps(axes), strict=True):
        values = patch.get_data()[0]
        assert np.mean(values) == pytest.approx(100 * summary.mean[name] / summary.capacity[name])
        assert values.max() <= 100 * summary.peak[name] / summary.capacity[name]
        assert str(patch.get_label()).startswith(f"{name} (binding)" if name == summary.binding else f"{name}, ")


def test_every_resource_of_the_hosts_is_drawn() -> None:
    names = ["cpu_cores", "mem_gib", "gpu", "disk_gib", "slots"]
    table = pd.DataFrame({"request_id": [1], "arrival_s": [0], "departure_s": [3600]} | {name: [1.0] for name in names})
    hosts = pd.DataFrame({"host_id": [1]} | {name: [float(idx + 2)] for idx, name in enumerate(names)})
    axes = trace_figure(Trace(table, 3600, Roles(resources=("disk_gib", "slots")), hosts)).axes[2]
    drawn = steps(axes)
    assert [str(patch.get_label()).partition(",")[0].partition(" ")[0] for patch in drawn] == names
    # One of each is held all the time, of 2, 3, 4, 5 and 6.
    assert [patch.get_data()[0].tolist() for patch in drawn] == [[pytest.approx(100 / size)] for size in range(2, 7)]
    assert len({patch.get_edgecolor() for patch in drawn}) == len(names)


def test_without_hosts_cores_are_drawn() -> None:
    # 2 cores for half of the first hour and for a third of the second, which the horizon cuts at 40 min.
    table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 3600], "departure_s": [1800, 4400],
                          "cpu_cores": [2.0, 2.0], "mem_gib": [1.0, 1.0]})
    axes = trace_figure(Trace(table, 6000)).axes[2]
    assert axes.get_ylabel() == "in use, mean per hour, cores"
    patch, = steps(axes)
    assert patch.get_data()[0].tolist() == pytest.approx([1.0, 2 / 3])
    assert patch.get_label() == "cpu_cores, peak 2.0"


def test_an_empty_trace_is_refused() -> None:
    with pytest.raises(ValueError, match="trace must hold at least one request"):
        trace_figure(synthesize(10).select(np.zeros(10, bool)))
