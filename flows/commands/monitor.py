"""`sojourn monitor`: a check of a model's logged decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.flows.commands.exit_codes import ALARM
from sojourn.flows.commands.options import (
    ConfigFile,
    Horizon,
    MapFile,
    MapPairs,
    StoreFolder,
    Timezone,
    is_there,
    plain_errors,
)


@plain_errors
def monitor(
    name: Annotated[str, typer.Argument(help="Registered model.")],
    log: Annotated[Path, typer.Option(help="Folder that the predictor logs its decisions to.")],
    outcomes: Annotated[Path | None, typer.Option(
        callback=is_there, help="Trace of what became of the requests, by their ids. "
                                "[default: the ends in the log]")] = None,
    reader: Annotated[str | None, typer.Option(
        help="How to read the outcomes: {readers}. [default: none: give one with --outcomes]")] = None,
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    as_of_s: Annotated[int | None, typer.Option(
        "--as-of", help="Time of the check, seconds on the predictor's clock; nothing later is read. "
                        "[default: the log's latest]")] = None,
    alias: Annotated[str | None, typer.Option(help="Alias that must point to a version. [default: champion]")] = None,
    detector: Annotated[str | None, typer.Option(help="How a drift is found. [default: level-or-owners]")] = None,
    long_lived_s: Annotated[int | None, typer.Option(
        help="What counts as long-lived, seconds. [default: what the version was trained with]")] = None,
    refractory_days: Annotated[int | None, typer.Option(
        help="Alarms within so many days of one that was acted upon are the same drift. [default: 14]")] = None,
    max_age_days: Annotated[int | None, typer.Option(
        help="Retrain, where it is said how, when the model's data ended so many days ago; 0 = never. "
             "[default: 56]")] = None,
    retrain_deployment: Annotated[str | None, typer.Option(
        help="On an alarm, run this Prefect deployment: FLOW/DEPLOYMENT. [default: none]")] = None,
    retrain_config: Annotated[Path | None, typer.Option(
        help="On an alarm, retrain with the settings of this TOML file. [default: none]")] = None,
    config: ConfigFile = None,
    store: StoreFolder = None,
) -> None:
    """Compare logged decisions with what became of them, week by week, and look for a drift.

    Exit code 4: there is a fresh alarm, and the same version still answers.
    """
    from sojourn.flows.environment import keep_prefect_in
    from sojourn.flows.jobs.preflight import check_before_work
    from sojourn.flows.settings.other_jobs import MonitorConfig
    from sojourn.flows.settings.store import load_settings

    if retrain_config is not None and not retrain_config.is_file():
        raise FileNotFoundError(f"retrain_config must be a TOML file, got {str(retrain_config)!r}")
    settings = load_settings(MonitorConfig, config, model_name=name, log=log, trace=outcomes, reader=reader,
                             horizon_s=horizon_s, column_map=tuple(column_map) if column_map else None,
                             map_file=map_file, trace_timezone=timezone, as_of_s=as_of_s, alias=alias,
                             detector=detector, long_lived_s=long_lived_s, refractory_days=refractory_days,
                             max_age_days=max_age_days,
                             retrain_deployment=retrain_deployment, retrain_config=retrain_config, store=store)
    check_before_work(settings)
    keep_prefect_in(settings.store)
    from sojourn.flows.jobs.monitor import monitor as run

    if run(settings).is_open:
        raise typer.Exit(ALARM)
