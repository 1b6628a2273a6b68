"""`ctcl-table`: services and batch requests on an elastic pool (CTCL, tables IV and V, figures 5 to 7)."""

from sojourn.flows.compare.presets.preset import Preset

CTCL_TABLE = Preset("services and batch requests on an elastic pool: ctcl beside k8s, the trace and demand-blind",
                    seeds=tuple(range(10)), runner="sojourn.flows.evaluations.ctcl_table:run_ctcl_table",
                    reads=("store", "tracking_uri", "trace", "reader", "batch_trace", "n_requests", "seeds"))
