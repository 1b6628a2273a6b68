"""`period-c`: placement by usage with 75 to 125 % of the hosts."""

from sojourn.flows.compare.presets.preset import OF_USAGE, Preset

PERIOD_C = Preset("placement by usage with 75 to 125 % of the hosts", seeds=tuple(range(3)),
                  runner="sojourn.flows.evaluations.period_presets:run_period_c", reads=OF_USAGE)
