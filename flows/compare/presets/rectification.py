"""`rectification`: a few moves a day under any policy."""

from sojourn.flows.compare.presets.preset import Preset

RECTIFICATION = Preset(
    "two and five live migrations a day that free hosts, under any policy",
    ("nilas", "nilas-expected", "joint-fit", "joint-exact", "dapp"), ("oracle", "noise:1"),
    rectifiers=("pdre:2", "value:2", "pdre:5", "value:5"),
)  # fmt: skip
