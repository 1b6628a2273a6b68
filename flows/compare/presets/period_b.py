"""`period-b`: 10,000 requests placed by usage on 2,000 hosts."""

from sojourn.flows.compare.presets.preset import OF_USAGE, Preset

PERIOD_B = Preset("10,000 requests placed by usage on 2,000 hosts", seeds=tuple(range(10)),
                  runner="sojourn.flows.evaluations.period_presets:run_period_b", reads=OF_USAGE)
