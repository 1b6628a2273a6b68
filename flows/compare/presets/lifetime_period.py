"""`lifetime-period`: lifetime and usage in one score, beside each alone; hosts reserve more than they have."""

from sojourn.flows.compare.presets.preset import Preset

LIFETIME_PERIOD = Preset("lifetime and usage in one score beside each alone, with reservations above the hosts' cores",
                         seeds=tuple(range(15)), runner="sojourn.flows.evaluations.lifetime_period:run_lifetime_period",
                         reads=("store", "tracking_uri", "seeds"))
