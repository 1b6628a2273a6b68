"""`lava-readings`: LAVA in each reading that its paper allows."""

from sojourn.flows.compare.presets.preset import Preset

LAVA_READINGS = Preset(
    "readings of LAVA where its paper is ambiguous, with perfect, noisy and learnt lifetimes",
    ("nilas", "nilas-expected", "joint-fit", "lava", "lava-any-class", "lava-95", "lava-from-opening", "lava-soft",
     "lava-soft-expected", "lava-soft-joint"),
    ("oracle", "noise:1", "hazard"), seeds=tuple(range(10)),
)  # fmt: skip
