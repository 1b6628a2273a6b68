"""`elastic`: host-hours of a pool that grows and shrinks."""

from sojourn.flows.compare.presets.preset import OF_REPLAYS, Preset

ELASTIC = Preset("host-hours of an elastic pool: policies, ways of consolidation and predictors, against best-fit with "
                 "the autoscalers' timer",
                 ("first-fit", "best-fit", "worst-fit", "waste-min", "la-binary", "nilas", "lava", "joint-fit"),
                 ("oracle", "noise:1", "hazard", "km"), runner="sojourn.flows.evaluations.elastic:run_elastic",
                 reads=(*OF_REPLAYS, "predictors", "starts", "test_share"))
