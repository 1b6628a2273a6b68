"""`sojourn evaluate`: all lifetime families side by side on one trace."""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.flows.commands.interruption import keeps
from sojourn.flows.commands.options import Flags, plain_errors, takes
from sojourn.flows.environment import keep_prefect_in
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.settings.store import load_settings


@plain_errors
@keeps("what was read of the trace is kept in the store, and the next run takes it")
@takes(RetrainConfig, "trace", "reader", "horizon_s", "column_map", "map_file", "trace_timezone", "since", "test",
       "test_reader", "test_offset_s", "is_overlap_allowed", "store", "n_requests", "seed", "n_threads", "long_lived_s",
       "confirmed_columns", "dask", "n_fit_workers")
def evaluate(
    flags: Flags,
    family: Annotated[list[str] | None, typer.Option(
        help="Families to compare: {families}. [default: all]")] = None,
) -> None:
    """Compare every lifetime family on a trace's later part; nothing is promoted."""
    from sojourn.flows.jobs.preflight import check_before_work
    from sojourn.models.lifetime import LIFETIME_MODELS

    settings = load_settings(RetrainConfig, families=tuple(family or LIFETIME_MODELS), **flags)
    check_before_work(settings)
    keep_prefect_in(settings.store)
    from sojourn.flows.jobs.study import study

    study(settings)
