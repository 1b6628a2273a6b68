"""Classes of a scheduler read off curves: by hand, with censoring, and only those that the trace shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable
from sojourn.models.measures import class_scores, shown_thresholds

HOUR_S = 3_600.0


def _examples(lifetime_h: list[float], is_event: list[bool] | None = None) -> Examples:
    n = len(lifetime_h)
    return Examples(np.zeros((n, 1)), (), np.array(lifetime_h) * HOUR_S,
                    np.ones(n, bool) if is_event is None else np.array(is_event), np.zeros(n), np.zeros(n, np.int64),
                    np.arange(n))


@dataclass(frozen=True)
class _Certain:
    """Curves of requests whose lifetimes are predicted as these hours."""

    hours: np.ndarray

    def table(self) -> HazardTable:
        edges = np.array([0.0, *(hour * HOUR_S for hour in (0.5, 2.0, 20.0))])
        hazards = np.stack([np.where(self.hours <= edge / HOUR_S, 30.0, 1e-9) for edge in edges[1:]], axis=1)
        return HazardTable.from_hazards(edges, hazards, 1e6, edges)


def test_accuracy_recall_and_core_hours_by_hand() -> None:
    # hours 0.5, 0.5, 0.5, 5; told 0.5, 0.5, 20 (too long), 0.5 (too short); one class boundary at 1 h
    test = _examples([0.5, 0.5, 0.5, 5.0])
    table = _Certain(np.array([0.5, 0.5, 50.0, 0.5])).table()
    found = class_scores(table, test, np.array([1.0, 1.0, 1.0, 10.0]), {"dvla": (3_600,)})
    assert found["dvla.accuracy"] == pytest.approx(2 / 4)
    assert found["dvla.macro_recall"] == pytest.approx((2 / 3 + 0 / 1) / 2)
    assert found["dvla.core_hours"] == pytest.approx((0.5 + 0.5) / (1.5 + 50.0))
    # at 1 h the last alone is alive, 4 h before its end, and told to end at once
    assert found["dvla.age_1h.accuracy"] == 0.0


def test_a_request_censored_below_the_last_threshold_is_stood_for() -> None:
    # of two that live on beyond 1 h one is lost at 0.5 h: the other counts twice
    test = _examples([0.2, 0.5, 2.0], [True, False, True])
    right = class_scores(_Certain(np.array([50.0, 50.0, 50.0])).table(), test, np.ones(3), {"lava": (3_600,)})
    assert right["lava.accuracy"] == pytest.approx(2 / 3)
    assert right["lava.macro_recall"] == pytest.approx(1 / 2)


def test_only_thresholds_that_both_windows_show_part_classes() -> None:
    def window(n_long: int) -> Examples:
        return _examples([0.5] * 30 + [1.5] * 30 + [5.0] * 30 + [400.0] * n_long)

    shown = shown_thresholds(window(30), window(30))
    assert shown == {"dvla": (3_600, 86_400, 604_800), "lava": (3_600, 36_000, 360_000)}
    assert shown_thresholds(window(30), window(19)) == {"dvla": (3_600,), "lava": (3_600,)}
    assert shown_thresholds(window(30), _examples([0.1] * 40)) == {}
