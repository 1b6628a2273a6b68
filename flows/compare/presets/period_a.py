"""`period-a`: 100 requests placed by usage on 20 hosts in 100 orders, beside the optimum."""

from sojourn.flows.compare.presets.preset import OF_USAGE, Preset

PERIOD_A = Preset("100 requests placed by usage on 20 hosts in 100 orders, beside the optimum", seeds=tuple(range(100)),
                  runner="sojourn.flows.evaluations.period_presets:run_period_a", reads=OF_USAGE)
