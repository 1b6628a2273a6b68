"""`ab-pool`: an A/B test in one pool, and an analysis before and after a launch."""

from sojourn.flows.compare.presets.preset import OF_REPLAYS, Preset

AB_POOL = Preset("estimates of an A/B in one pool and of a pre/post analysis, beside the true effect",
                 ("nilas",), ("oracle",), seeds=tuple(range(10)),
                 runner="sojourn.flows.evaluations.ab_preset:run_ab_preset", reads=OF_REPLAYS)
