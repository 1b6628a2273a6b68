"""`lava-table`: the table of policies and predictors."""

from sojourn.flows.compare.presets.preset import Preset

LAVA_TABLE = Preset(
    "every policy with every kind of predictor",
    ("random", "first-fit", "best-fit", "worst-fit", "waste-min", "la-binary", "la", "nilas", "nilas-expected",
     "lava", "joint-fit", "joint-exact", "aligned-fit"),
    ("oracle", "noise:1", "recall:0.8", "hazard", "km", "one-shot:hazard", "one-shot:km"),
)  # fmt: skip
