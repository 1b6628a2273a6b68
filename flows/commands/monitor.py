"""`sojourn monitor`: a check of a model's logged decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.exit_codes import ALARM
from sojourn.flows.commands.options import Flags, is_there, plain_errors, takes
from sojourn.flows.settings.other_jobs import MonitorConfig
from sojourn.flows.settings.store import load_settings


@plain_errors
@takes(MonitorConfig, "horizon_s", "column_map", "map_file", "trace_timezone", "as_of_s", "alias", "detector",
       "long_lived_s", "refractory_days", "max_age_days", "retrain_deployment", "retrain_config", "config", "store")
def monitor(
    flags: Flags,
    name: Annotated[str, typer.Argument(help="Registered model.")],
    log: Annotated[Path, typer.Option(help="Folder that the predictor logs its decisions to.")],
    outcomes: Annotated[Path | None, typer.Option(
        callback=is_there, help="Trace of what became of the requests, by their ids. "
                                "[default: the ends in the log]")] = None,
    reader: Annotated[str | None, typer.Option(
        help="How to read the outcomes: {readers}. [default: none: give one with --outcomes]")] = None,
) -> None:
    """Compare logged decisions with what became of them, week by week, and look for a drift.

    Exit code 4: there is a fresh alarm, and the same version still answers.
    """
    from sojourn.flows.environment import keep_prefect_in
    from sojourn.flows.jobs.preflight import check_before_work

    if flags["retrain_config"] is not None and not flags["retrain_config"].is_file():
        raise FileNotFoundError(f"retrain_config must be a TOML file, got {str(flags['retrain_config'])!r}")
    settings = load_settings(MonitorConfig, model_name=name, log=log, trace=outcomes, reader=reader, **flags)
    check_before_work(settings)
    keep_prefect_in(settings.store)
    from sojourn.flows.jobs.monitor import monitor as run

    if run(settings).is_open:
        raise typer.Exit(ALARM)
