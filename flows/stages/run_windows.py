"""The windows of a run, by its settings; apart from `windows`: a replay's key holds that, not how features are made."""

from __future__ import annotations

from sojourn.features.later_file import test_from_s
from sojourn.features.split import Split
from sojourn.flows.settings.retrain import TrainSettings
from sojourn.flows.settings.trace import since_s
from sojourn.flows.stages.build_features import Features
from sojourn.flows.stages.windows import windows


def run_windows(settings: TrainSettings, features: Features) -> Split:
    """The windows of a run: those of its settings, or the later file that it is judged on; see `windows`."""
    trace = features.trace
    return windows(features.rows, settings.test_share, settings.valid_share, since_s(settings.since, trace),
                   test_from_s(trace.meta))
