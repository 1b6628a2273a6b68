"""`period-d`: placement by usage with 0 to 100 % of the requests modelled as periodic."""

from sojourn.flows.compare.presets.preset import OF_USAGE, Preset

PERIOD_D = Preset("placement by usage with 0 to 100 % of the requests modelled as periodic", seeds=tuple(range(3)),
                  runner="sojourn.flows.evaluations.period_presets:run_period_d", reads=OF_USAGE)
