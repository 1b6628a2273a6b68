"""`recall-sweep`: gains by the share of long requests that a predictor knows."""

from sojourn.flows.compare.presets.preset import Preset

_RECALLS = tuple(f"recall:{share:g}" for share in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0))

RECALL_SWEEP = Preset(
    "how good predictions must be: recall of long requests from 40 to 100 %, and reprediction against one-shot",
    ("nilas", "nilas-expected", "lava", "joint-fit"), (*_RECALLS, "hazard", "one-shot:hazard"),
)  # fmt: skip
