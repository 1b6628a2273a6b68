"""`sojourn retrain`: the whole job on a trace."""

from __future__ import annotations

import typer

from sojourn.flows.commands.exit_codes import CHALLENGER
from sojourn.flows.commands.interruption import keeps
from sojourn.flows.commands.options import Flags, plain_errors, takes
from sojourn.flows.environment import keep_prefect_in
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import load_settings


@plain_errors
@keeps("the champion is as it was; what was read of the trace is kept in the store, and the next run takes it")
@takes(RetrainConfig, "trace", "reader", "horizon_s", "column_map", "map_file", "trace_timezone", "since", "test",
       "test_reader", "test_offset_s", "is_overlap_allowed", "is_shrunk_allowed", "is_again", "config", "store",
       "n_requests", "seed", "n_threads", "load", "host_cpu_cores", "host_mem_gib", "is_refreshed", "is_simulated",
       "model_name", "confirmed_columns", "dask", "n_fit_workers")
def retrain(flags: Flags) -> None:
    """Train, evaluate on later requests and in simulation, and promote the model if it passes every gate.

    Exit code 3 where it does not: the version is then only the challenger.
    """
    from sojourn.flows.jobs.preflight import check_before_work

    settings = load_settings(RetrainConfig, **flags)
    check_before_work(settings)
    keep_prefect_in(settings.store)
    from sojourn.flows.jobs.retrain import retrain as run
    from sojourn.flows.outside.tracked_names import CHAMPION

    if run(settings).promotion.alias != CHAMPION:
        raise typer.Exit(CHALLENGER)
