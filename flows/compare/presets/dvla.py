"""`dvla`: DVLA's placement in each reading, beside LAVA's, NILAS's and ours, with and without migrations."""

from sojourn.flows.compare.presets.preset import Preset

DVLA = Preset(
    "DVLA's placement and its ablations beside other policies, with no migrations, its own list and ours, with better "
    "and worse predictions",
    ("la-binary", "nilas", "nilas-expected", "lava", "lava-any-class", "lava-from-opening", "lava-soft", "joint-fit",
     "joint-exact", "dapp", "dapp-short", "dapp-weighted", "dapp-max", "dapp-symmetric", "dapp-daily", "dapp-events",
     "dapp-exact", "dapp-ungrouped", "dapp-ungrouped-events", "dapp-timer", "dapp-figure-9", "dapp-opens"),
    ("oracle", "noise:1", "hazard", "recall:0.4", "recall:0.6", "recall:0.8", "recall:1",
     "owner-recall:0.4", "owner-recall:0.6", "owner-recall:0.8"),
    loads=(0.6, 0.7, 0.8, 0.9), rectifiers=("pdre:5", "value:5"),
)  # fmt: skip
