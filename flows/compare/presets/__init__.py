"""Named comparisons: what each of the evaluations in docs/simulator/evaluations.md runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sojourn.flows.compare.presets.ab_pool import AB_POOL
from sojourn.flows.compare.presets.ablations import ABLATIONS
from sojourn.flows.compare.presets.ctcl_table import CTCL_TABLE
from sojourn.flows.compare.presets.dvla import DVLA
from sojourn.flows.compare.presets.elastic import ELASTIC
from sojourn.flows.compare.presets.lars import LARS
from sojourn.flows.compare.presets.lava_readings import LAVA_READINGS
from sojourn.flows.compare.presets.lava_table import LAVA_TABLE
from sojourn.flows.compare.presets.lifetime_period import LIFETIME_PERIOD
from sojourn.flows.compare.presets.load_sweep import LOAD_SWEEP
from sojourn.flows.compare.presets.period_a import PERIOD_A
from sojourn.flows.compare.presets.period_b import PERIOD_B
from sojourn.flows.compare.presets.period_c import PERIOD_C
from sojourn.flows.compare.presets.period_d import PERIOD_D
from sojourn.flows.compare.presets.preset import GRID, Preset
from sojourn.flows.compare.presets.recall_sweep import RECALL_SWEEP
from sojourn.flows.compare.presets.rectification import RECTIFICATION

__all__ = ["GRID", "PRESETS", "Preset"]

PRESETS: Mapping[str, Preset] = MappingProxyType({
    "lava-table": LAVA_TABLE,
    "recall-sweep": RECALL_SWEEP,
    "load-sweep": LOAD_SWEEP,
    "ablations": ABLATIONS,
    "lava-readings": LAVA_READINGS,
    "dvla": DVLA,
    "ab-pool": AB_POOL,
    "lars": LARS,
    "rectification": RECTIFICATION,
    "lifetime-period": LIFETIME_PERIOD,
    "period-a": PERIOD_A,
    "period-b": PERIOD_B,
    "period-c": PERIOD_C,
    "period-d": PERIOD_D,
    "elastic": ELASTIC,
    "ctcl-table": CTCL_TABLE,
})
"""By name. A policy that is not known is left out of a preset."""
