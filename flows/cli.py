"""The command line. Heavy libraries are imported by the command that needs them."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.flows.commands.admit import admit
from sojourn.flows.commands.annotate import annotate
from sojourn.flows.commands.monitor import monitor
from sojourn.flows.commands.options import (
    READER_HELP,
    SINCE_HELP,
    Dask,
    FitWorkers,
    Horizon,
    HostCores,
    HostMemory,
    MapFile,
    MapPairs,
    Timezone,
    plain_errors,
)
from sojourn.flows.commands.plan import plan, plan_evaluate
from sojourn.flows.commands.registry_help import RegistryCommand
from sojourn.flows.commands.schedule import schedule
from sojourn.flows.commands.simulate import compare, simulate
from sojourn.flows.commands.sweep import sweep
from sojourn.flows.commands.trace import trace_app
from sojourn.flows.commands.usage import usage_app
from sojourn.flows.commands.versions import rollback, sync, versions
from sojourn.flows.environment import be_quiet, keep_prefect_in
from sojourn.flows.terminal import show_what_can_be_shown

be_quiet()
show_what_can_be_shown()

app = typer.Typer(help="Predict how long each VM, pod or job will stay, and measure what a scheduler gains from it.",
                  no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
app.add_typer(trace_app, name="trace")
app.add_typer(usage_app, name="usage")
app.command(cls=RegistryCommand)(simulate)
app.command(cls=RegistryCommand)(compare)
app.command(cls=RegistryCommand)(admit)
app.command(cls=RegistryCommand)(annotate)
app.command(cls=RegistryCommand)(plan)
app.command(cls=RegistryCommand)(monitor)
app.command("plan-evaluate", cls=RegistryCommand)(plan_evaluate)


@app.command(cls=RegistryCommand)
@plain_errors
def retrain(
    trace: Annotated[Path | None, typer.Option(help="Trace file or folder; without one, a synthetic trace.")] = None,
    reader: Annotated[str | None, typer.Option(help=READER_HELP)] = None,
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    since: Annotated[str | None, typer.Option(help=SINCE_HELP)] = None,
    is_shrunk_allowed: Annotated[bool | None, typer.Option(
        "--allow-shrunk", help="Take a source that grows even if it holds less than when it was last read.")] = None,
    is_again: Annotated[bool | None, typer.Option(
        "--again", help="Train even if nothing has changed since a finished run.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
    store: Annotated[Path | None, typer.Option(help="Folder of all stores. [default: .sojourn]")] = None,
    n_requests: Annotated[int | None, typer.Option(help="Requests of the synthetic trace.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random numbers.")] = None,
    n_threads: Annotated[int | None, typer.Option(help="Threads for training.")] = None,
    load: Annotated[float | None, typer.Option(help="Peak load of the simulated hosts, 0 to 1.")] = None,
    host_cpu_cores: HostCores = None,
    host_mem_gib: HostMemory = None,
    is_simulated: Annotated[bool | None, typer.Option("--simulate/--no-simulate", help="Replay placements.")] = None,
    model_name: Annotated[str | None, typer.Option(help="Name in the model registry.")] = None,
    confirm: Annotated[list[str] | None, typer.Option(
        help="Column that is known at creation, even if the model relies on it heavily; repeat.")] = None,
    dask: Dask = None,
    n_fit_workers: FitWorkers = None,
) -> None:
    """Train, evaluate on later requests and in simulation, and promote the model if it passes every gate."""
    from sojourn.flows.config import load_config
    from sojourn.flows.jobs.preflight import check_before_work

    settings = load_config(config, trace=trace, reader=reader, horizon_s=horizon_s,
                           column_map=tuple(column_map) if column_map else None, map_file=map_file,
                           trace_timezone=timezone, since=since,
                           is_shrunk_allowed=is_shrunk_allowed, is_again=is_again, store=store,
                           n_requests=n_requests, seed=seed, n_threads=n_threads, load=load,
                           host_cpu_cores=host_cpu_cores, host_mem_gib=host_mem_gib,
                           is_simulated=is_simulated, model_name=model_name,
                           confirmed_columns=tuple(confirm) if confirm else None, dask=dask,
                           n_fit_workers=n_fit_workers)
    check_before_work(settings)
    keep_prefect_in(settings.store)
    from sojourn.flows.jobs.retrain import retrain as run

    run(settings)


@app.command("train-usage", cls=RegistryCommand)
@plain_errors
def train_usage(
    trace: Annotated[Path, typer.Argument(help="File or folder of usage series; with --reader synthetic any name.")],
    reader: Annotated[str | None, typer.Option(
        help="How to read the usage: {usage_readers}. [default: parquet]")] = None,
    option: Annotated[list[str] | None, typer.Option(
        "--set", help="Option of the reader, as NAME=VALUE (month=2013-7); repeat.")] = None,
    timezone: Annotated[str | None, typer.Option(
        help="IANA name; decides the local time of day. [default: UTC]")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
    store: Annotated[Path | None, typer.Option(help="Folder of all stores. [default: .sojourn]")] = None,
    n_classes: Annotated[int | None, typer.Option(help="Workload classes, at most. [default: 20]")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random numbers.")] = None,
    model_name: Annotated[str | None, typer.Option(
        help="Name in the model registry; it gets the ending -usage.")] = None,
    dask: Dask = None,
) -> None:
    """Learn pulse waves and workload classes from usage series, and promote them if they beat the own maximum."""
    from sojourn.flows.commands.usage import reader_options
    from sojourn.flows.config import load_settings
    from sojourn.flows.usage_config import TrainUsageConfig

    options = reader_options(reader or "parquet", option) if option else None
    settings = load_settings(TrainUsageConfig, config, usage_trace=trace, usage_reader=reader, usage_options=options,
                             timezone=timezone, store=store, n_classes=n_classes, seed=seed, model_name=model_name,
                             dask=dask)
    if settings.usage_reader != "synthetic" and not trace.exists():
        raise FileNotFoundError(f"trace must be a file or folder, got {str(trace)!r}")
    keep_prefect_in(settings.store)
    from sojourn.flows.jobs.train_usage import train_usage as run

    run(settings)


@app.command(cls=RegistryCommand)
@plain_errors
def evaluate(
    trace: Annotated[Path | None, typer.Option(help="Trace file or folder; without one, a synthetic trace.")] = None,
    reader: Annotated[str | None, typer.Option(help=READER_HELP)] = None,
    horizon_s: Horizon = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    since: Annotated[str | None, typer.Option(help=SINCE_HELP)] = None,
    family: Annotated[list[str] | None, typer.Option(
        help="Families to compare: {families}. [default: all]")] = None,
    store: Annotated[Path | None, typer.Option(help="Folder of all stores. [default: .sojourn]")] = None,
    n_requests: Annotated[int | None, typer.Option(help="Requests of the synthetic trace.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random numbers.")] = None,
    n_threads: Annotated[int | None, typer.Option(help="Threads for training.")] = None,
    long_lived_s: Annotated[int | None, typer.Option(
        help="What counts as long-lived, seconds. [default: chosen from the earlier part]")] = None,
    confirm: Annotated[list[str] | None, typer.Option(
        help="Column that is known at creation, even if the model relies on it heavily; repeat.")] = None,
    dask: Dask = None,
    n_fit_workers: FitWorkers = None,
) -> None:
    """Compare every lifetime family on a trace's later part; nothing is promoted."""
    from sojourn.flows.config import load_config
    from sojourn.flows.jobs.preflight import check_before_work
    from sojourn.models.lifetime import LIFETIME_MODELS

    settings = load_config(None, trace=trace, reader=reader, horizon_s=horizon_s,
                           column_map=tuple(column_map) if column_map else None, map_file=map_file,
                           trace_timezone=timezone, since=since, store=store,
                           n_requests=n_requests, seed=seed, n_threads=n_threads,
                           families=tuple(family or LIFETIME_MODELS), long_lived_s=long_lived_s,
                           confirmed_columns=tuple(confirm) if confirm else None, dask=dask,
                           n_fit_workers=n_fit_workers)
    check_before_work(settings)
    keep_prefect_in(settings.store)
    from sojourn.flows.jobs.study import study

    study(settings)


@app.command(cls=RegistryCommand)
@plain_errors
def search(
    on: Annotated[list[str] | None, typer.Option(
        help="Traces, as READER=PATH, or `synthetic`; repeat. [default: synthetic]")] = None,
    family: Annotated[str, typer.Option(
        help="The family whose hyperparameters are searched: {searched}.")] = "hazard",
    horizon_s: Annotated[list[int] | None, typer.Option(
        "--horizon", help="When a trace's observation ended, seconds on its clock; once for each file of --on, in "
                          "their order. [default: found in the files]")] = None,
    column_map: MapPairs = None,
    map_file: MapFile = None,
    timezone: Timezone = None,
    n_trials: Annotated[int, typer.Option(help="Trials in all, those of earlier runs in the store included.")] = 40,
    timeout_s: Annotated[float, typer.Option(help="No trial begins after this many seconds.")] = 1_800.0,
    store: Annotated[Path | None, typer.Option(help="Folder of all stores. [default: .sojourn]")] = None,
    n_requests: Annotated[int | None, typer.Option(help="Requests of the synthetic trace.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random numbers.")] = None,
    n_threads: Annotated[int | None, typer.Option(help="Threads for training.")] = None,
    dask: Dask = None,
) -> None:
    """Search a family's hyperparameters on validation windows alone; test windows are not read."""
    from sojourn.flows.config import load_config
    from sojourn.flows.jobs.preflight import check_before_work
    from sojourn.flows.mapped_reader import maps_columns, takes_timezone

    traces = [each.partition("=")[::2] for each in on or ["synthetic"]]
    n_files = sum(bool(path) for _, path in traces)
    if horizon_s and len(horizon_s) != n_files:
        raise ValueError(f"--horizon must be given once for each of the {n_files} files of --on, or not at all, got "
                         f"{len(horizon_s)}")
    horizons = iter(horizon_s or ())
    columns = {"column_map": tuple(column_map) if column_map else None, "map_file": map_file}
    if any(columns.values()) and not any(maps_columns(reader) for reader, _ in traces):
        raise ValueError("--map and --map-file must be given with a table, as csv=PATH, got none in --on")
    if timezone and not any(takes_timezone(reader) for reader, _ in traces):
        raise ValueError("--timezone must be given with csv=PATH or slurm=PATH, got none in --on")
    configs = [load_config(None, trace=Path(path) if path else None, reader=reader, store=store,
                           horizon_s=next(horizons, None) if path else None, n_requests=n_requests, seed=seed,
                           n_threads=n_threads, dask=dask, **(columns if maps_columns(reader) else {}),
                           trace_timezone=timezone if takes_timezone(reader) else None)
               for reader, path in traces]
    for each in configs:
        check_before_work(each)
    keep_prefect_in(configs[0].store)
    from sojourn.flows.jobs.search import search as run

    run(configs, family, n_trials, timeout_s)


@app.command()
@plain_errors
def results(
    file: Annotated[Path, typer.Argument(help="Markdown file to write, `.md`: the index. The pages go beside it, into "
                                              "the folder of the same name.")],
    store: Annotated[list[Path] | None, typer.Option(
        help="Folder of all stores; repeat for several, of which the last wins. [default: .sojourn]")] = None,
) -> None:
    """Write an index of all traces, and a page a trace with its latest study and comparisons, from logged runs."""
    from sojourn.flows.config import load_config
    from sojourn.flows.reports.results_pages import write_results
    from sojourn.flows.versions.reading import read_store

    studies: dict[str, Any] = {}
    comparisons: dict[tuple[str, str], Any] = {}
    stores = store or [Path(".sojourn")]
    for folder in stores:
        tracker = read_store(load_config(store=folder))
        studies |= {found["trace"]: found for found in tracker.studies()}
        comparisons |= {(found["trace"], found["name"]): found for found in tracker.comparisons()}
    if not studies and not comparisons:
        raise ValueError("the store must hold a study or a comparison (run `sojourn evaluate` or `sojourn compare` "
                         f"first), got none in {', '.join(map(str, stores))!r}")
    for written in write_results(file, list(studies.values()), list(comparisons.values())):
        typer.echo(f"written  {written}")


@app.command()
@plain_errors
def predict(
    bundle: Annotated[Path, typer.Argument(help="Bundle folder.")],
    request: Annotated[str, typer.Argument(help="One request as JSON, or a file with one JSON object a line.")],
    now_s: Annotated[int | None, typer.Option(
        help="Arrival, whole seconds on the training trace's clock. [default: its end]")] = None,
    uptime_s: Annotated[list[float], typer.Option(help="Uptimes to answer for, seconds.")] = [0.0],  # noqa: B006
    explain: Annotated[bool, typer.Option("--explain", help="Print what each input adds, as a table.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Write one request's lifetime curve as a picture (PNG).")] = None,
) -> None:
    """Predict how long a request will stay: one JSON object a line, in seconds; with --explain, explain it."""
    from sojourn.serving import Predictor, load_bundle

    loaded = load_bundle(bundle)
    predictor = Predictor(loaded)
    documents = _requests(request)
    if now_s is None:
        now_s = int(predictor.info()["training"].get("history_to_s", 0))
    if picture is not None:
        from sojourn.flows.commands.explain import write_curve

        write_curve(predictor, documents, now_s, picture)
    for document in documents:
        life = predictor.predict(document, now_s)
        if life.unknown:
            known = ", ".join(predictor.info()["columns"])
            typer.echo(f"warning: the model has not seen {', '.join(life.unknown)} of {json.dumps(document)}; "
                       f"it reads {known}", err=True)
        for uptime in uptime_s if not explain else []:
            typer.echo(json.dumps({
                "uptime_s": uptime, "remaining_s": life.remaining(uptime), "p10_s": life.quantile(0.1, uptime),
                "p50_s": life.quantile(0.5, uptime), "p90_s": life.quantile(0.9, uptime),
                "lifetime_class": life.lifetime_class(uptime), "unknown": list(life.unknown),
            }))  # fmt: skip
    if explain:
        from sojourn.flows.commands.explain import print_explanations

        print_explanations(loaded, documents, now_s, uptime_s)


def _requests(request: str) -> list[dict[str, Any]]:
    text = request
    if not request.lstrip().startswith("{"):
        try:
            text = Path(request).read_text()
        except OSError as error:
            raise ValueError(f"request must be a JSON object or the path of a file of them, got {request[:80]!r} "
                             f"({error.strerror})") from error
    documents = []
    for number, line in enumerate(text.splitlines() if text != request else [text], 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"request {number} must be a JSON object, got {line[:80]!r} ({error})") from error
        if not isinstance(document, dict):
            raise ValueError(f"request {number} must be a JSON object, got {line[:80]!r}")
        documents.append(document)
    return documents


@app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def extender(context: typer.Context) -> None:
    """Serve a bundle as a Kubernetes scheduler extender, on the loopback interface by default."""
    from sojourn.serving.extender import main

    raise typer.Exit(main(context.args, "sojourn extender"))


@app.command()
@plain_errors
def pull(
    uri: Annotated[str, typer.Argument(help="models:/NAME@ALIAS or models:/NAME/VERSION.")],
    folder: Annotated[Path, typer.Argument(help="Folder that a predictor loads; published whole, by renaming.")],
    is_followed: Annotated[bool, typer.Option("--follow", help="Pull again whenever the alias moves.")] = False,
    interval_s: Annotated[float, typer.Option(help="Seconds between two looks at the alias.")] = 30.0,
    store: Annotated[Path | None, typer.Option(
        help="Folder of all stores; SOJOURN_TRACKING_URI names a server instead. [default: .sojourn]")] = None,
) -> None:
    """Bring a registered version's bundle into a folder, if a predictor can serve it."""
    from sojourn.flows.config import TraceSettings, load_settings
    from sojourn.flows.outside.pull import ModelUri, find_version, follow_until_interrupted
    from sojourn.flows.outside.pull import pull as run

    wanted = ModelUri.parse(uri)
    if is_followed and wanted.alias is None:
        raise ValueError(f"--follow must be given an alias (a version never changes), got {uri!r}")
    if not 0.0 < interval_s < 1e6:
        raise ValueError(f"interval_s must be above 0 and below 1e6, got {interval_s!r}")
    config = load_settings(TraceSettings, store=store)
    from sojourn.flows.versions.reading import read_store

    tracker = read_store(config, is_asked=not is_followed)
    if is_followed:
        follow_until_interrupted(tracker, wanted, folder, interval_s, typer.echo)
    else:
        typer.echo(f"pulled   {run(tracker, wanted.name, find_version(tracker, wanted), folder)}\nfolder   {folder}")


app.command(cls=RegistryCommand)(schedule)
app.command()(versions)
app.command()(rollback)
app.command()(sync)
app.command()(sweep)


@app.command()
@plain_errors
def export_c(
    bundle: Annotated[Path, typer.Argument(help="Bundle folder.")],
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path(),
    name: Annotated[str, typer.Option(help="Begins both file names and every identifier.")] = "sojourn_lifetime",
) -> None:
    """Write a bundle's model as a C99 source file and its header, for schedulers that are not Python."""
    from sojourn.serving import load_bundle
    from sojourn.serving.c import c_source

    for file in c_source(load_bundle(bundle), name).write(output):
        typer.echo(f"written  {file}")


@app.command()
@plain_errors
def ui(
    store: Annotated[Path | None, typer.Option(
        help="Folder of all stores; SOJOURN_TRACKING_URI may name a database. [default: .sojourn]")] = None,
    port: Annotated[int, typer.Option(help="Port on the loopback interface.")] = 5000,
) -> None:
    """Open the MLflow UI on the store, on the loopback interface only."""
    import_module("flask")  # of the whole MLflow: without it the server ends with a traceback
    from sojourn.flows.config import TraceSettings, load_settings
    from sojourn.flows.outside.mlflow_database import existing_database
    from sojourn.flows.versions.reading import read_store

    config = load_settings(TraceSettings, store=store)
    uri = config.mlflow_uri
    if uri.is_server:
        raise ValueError(f"ui must be given a store or a database: the tracking server has pages of its own, see {uri}")
    if config.tracking_uri is None:
        existing_database(config.store)
    read_store(config)  # made or upgraded before it is opened
    typer.echo(f"MLflow UI on http://127.0.0.1:{port} (Ctrl-C ends it)")
    # in the environment: every user of the machine sees command lines
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                   "MLFLOW_BACKEND_STORE_URI": uri.with_driver}
    arguments = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    os.execve(sys.executable, arguments, environment)
