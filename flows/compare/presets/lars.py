"""`lars`: orders of live migration."""

from sojourn.flows.compare.presets.preset import OF_REPLAYS, Preset

LARS = Preset("which request migrates first", ("best-fit", "nilas"), ("oracle",),
              runner="sojourn.flows.evaluations.lars:run_lars", reads=OF_REPLAYS)
