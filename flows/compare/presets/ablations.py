"""`ablations`: NILAS and LAVA with one rule changed at a time."""

from sojourn.flows.compare.presets.preset import Preset

ABLATIONS = Preset(
    "NILAS and LAVA with one rule changed or removed at a time",
    ("nilas", "nilas-60s", "nilas-one-shot", "nilas-unbucketed", "nilas-second", "nilas-last", "nilas-expected",
     "lava", "lava-no-class-down", "lava-no-class-up", "lava-any-class"),
    ("oracle", "hazard"),
)  # fmt: skip
