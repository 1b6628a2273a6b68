"""`load-sweep`: gains by the load of the hosts."""

from sojourn.flows.compare.presets.preset import Preset

LOAD_SWEEP = Preset(
    "from 60 to 95 % of the hosts in use at the peak, cold start and warm start",
    ("nilas", "lava", "joint-fit"), ("oracle", "noise:1"),
    loads=(0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95), starts=("cold", "warm"),
)  # fmt: skip
