"""The command line. Heavy libraries are imported by the command that needs them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

from sojourn.flows.environment import be_quiet

be_quiet()

P = ParamSpec("P")
app = typer.Typer(help="How long each VM, pod or job will stay, and what a scheduler gains from knowing it.",
                  no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
trace_app = typer.Typer(help="Read, describe and convert traces.", no_args_is_help=True)
app.add_typer(trace_app, name="trace")

READER_HELP = ("How to read the trace: alibaba-2018, alibaba-2018-containers, azure-flavors, azure-packing, "
               "azure-vm, bitbrains, dlrm, google-2011, openb, parquet, planetlab, surf, swf.")
Store = Annotated[Path, typer.Option(help="Folder of all stores.")]
Reader = Annotated[str, typer.Option(help=READER_HELP)]


def _plain_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Bad input ends with one line on standard error and exit code 2."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, OSError) as error:
            typer.echo(f"error: {_first_problem(error)}", err=True)
            raise typer.Exit(2) from error

    return wrapped


def _first_problem(error: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):  # name the setting, the rule and the value
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        if first["type"] == "value_error":  # our own, which names all three
            return str(first["msg"]).removeprefix("Value error, ")
        return f"{place} must be valid: {first['msg']}, got {first.get('input')!r}"
    return str(error)


@app.command()
@_plain_errors
def retrain(
    trace: Annotated[Path | None, typer.Option(help="Trace file or folder; without one, a synthetic trace.")] = None,
    reader: Annotated[str | None, typer.Option(help=READER_HELP)] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
    store: Annotated[Path | None, typer.Option(help="Folder of all stores. [default: .sojourn]")] = None,
    n_requests: Annotated[int | None, typer.Option(help="Requests of the synthetic trace.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all that is drawn.")] = None,
    n_threads: Annotated[int | None, typer.Option(help="Threads for training.")] = None,
    load: Annotated[float | None, typer.Option(help="Peak load of the simulated hosts, 0 to 1.")] = None,
    host_cpu_cores: Annotated[float | None, typer.Option(help="Cores of a simulated host.")] = None,
    host_mem_gib: Annotated[float | None, typer.Option(help="Memory of a simulated host, GiB.")] = None,
    is_simulated: Annotated[bool | None, typer.Option("--simulate/--no-simulate")] = None,
    model_name: Annotated[str | None, typer.Option(help="Name in the model registry.")] = None,
) -> None:
    """Train, judge on later requests and in simulation, and promote what passes every gate."""
    from sojourn.flows.config import load_config

    settings = load_config(config, trace=trace, reader=reader, store=store, n_requests=n_requests, seed=seed,
                           n_threads=n_threads, load=load, host_cpu_cores=host_cpu_cores, host_mem_gib=host_mem_gib,
                           is_simulated=is_simulated, model_name=model_name)
    from sojourn.flows.retrain import retrain as run

    run(settings)


@app.command()
@_plain_errors
def evaluate(
    trace: Annotated[Path | None, typer.Option(help="Trace file or folder; without one, a synthetic trace.")] = None,
    reader: Annotated[str | None, typer.Option(help=READER_HELP)] = None,
    family: Annotated[list[str] | None, typer.Option(help="Families to compare. [default: all]")] = None,
    store: Annotated[Path | None, typer.Option(help="Folder of all stores. [default: .sojourn]")] = None,
    n_requests: Annotated[int | None, typer.Option(help="Requests of the synthetic trace.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all that is drawn.")] = None,
    n_threads: Annotated[int | None, typer.Option(help="Threads for training.")] = None,
    long_lived_s: Annotated[int | None, typer.Option(
        help="What counts as long-lived, seconds. [default: chosen from the earlier part]")] = None,
) -> None:
    """Compare every lifetime family on a trace's later part; promotes nothing."""
    from sojourn.flows.config import load_config
    from sojourn.models.lifetime import LIFETIME_MODELS

    settings = load_config(None, trace=trace, reader=reader, store=store, n_requests=n_requests, seed=seed,
                           n_threads=n_threads, families=tuple(family or LIFETIME_MODELS), long_lived_s=long_lived_s)
    from sojourn.flows.study import study

    study(settings)


@app.command()
@_plain_errors
def search(
    on: Annotated[list[str] | None, typer.Option(
        help="Traces, as READER=PATH, or `synthetic`; repeat. [default: synthetic]")] = None,
    family: Annotated[str, typer.Option(help="The family whose hyperparameters are searched.")] = "hazard",
    n_trials: Annotated[int, typer.Option(help="Trials in all, those of earlier runs in the store included.")] = 40,
    timeout_s: Annotated[float, typer.Option(help="No trial begins after this many seconds.")] = 1_800.0,
    store: Annotated[Path | None, typer.Option(help="Folder of all stores. [default: .sojourn]")] = None,
    n_requests: Annotated[int | None, typer.Option(help="Requests of the synthetic trace.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all that is drawn.")] = None,
    n_threads: Annotated[int | None, typer.Option(help="Threads for training.")] = None,
) -> None:
    """Search a family's hyperparameters on validation windows alone; test windows are never read."""
    from sojourn.flows.config import load_config

    configs = []
    for each in on or ["synthetic"]:
        reader, _, path = each.partition("=")
        configs.append(load_config(None, trace=Path(path) if path else None, reader=reader, store=store,
                                   n_requests=n_requests, seed=seed, n_threads=n_threads))
    from sojourn.flows.search import search as run

    run(configs, family, n_trials, timeout_s)


@app.command()
@_plain_errors
def results(
    file: Annotated[Path, typer.Argument(help="Markdown file to write.")],
    store: Store = Path(".sojourn"),
) -> None:
    """Write the latest study of each trace, as logged by `sojourn evaluate`, to one page."""
    from sojourn.flows.config import load_config
    from sojourn.flows.study_report import results_markdown
    from sojourn.flows.tracking import Tracker

    studies = Tracker(load_config(store=store).mlflow_uri, store / "artifacts").studies()
    if not studies:
        raise ValueError(f"the store must hold a study (run `sojourn evaluate` first), got none in {str(store)!r}")
    file.write_text(results_markdown(studies))
    typer.echo(f"written  {file}")


@app.command()
@_plain_errors
def simulate(
    trace: Annotated[Path | None, typer.Option(help="Trace file or folder; without one, a synthetic trace.")] = None,
    reader: Reader = "parquet",
    workload: Annotated[str | None, typer.Option(
        help="Recipe: synthetic, azure-flavors, dlrm, openb, trace. [default: the reader's own, else trace]")] = None,
    n_requests: Annotated[int, typer.Option(help="Requests of the synthetic trace.")] = 60_000,
    load: Annotated[float, typer.Option(help="Peak load of the hosts, 0 to 1.")] = 0.8,
    noise: Annotated[list[float], typer.Option(
        help="Also with lognormal noise of this sigma on every lifetime; may be repeated.")] = [],  # noqa: B006
    recall: Annotated[list[float], typer.Option(
        help="Also with this share of requests over 2 h known, the others taken for short; may be repeated.")] = [],  # noqa: B006
    host_cpu_cores: Annotated[float, typer.Option(help="Cores of a host (recipe `trace`).")] = 96.0,
    host_mem_gib: Annotated[float, typer.Option(help="Memory of a host, GiB (recipe `trace`).")] = 384.0,
    seed: Annotated[int, typer.Option(help="Seed of all that is drawn.")] = 0,
    stranding: Annotated[int, typer.Option(
        help="Also measure stranded CPU and memory at this many moments, say 8.")] = 0,
    picture: Annotated[Path | None, typer.Option(help="Write a picture (PNG) of empty hosts over time.")] = None,
) -> None:
    """Replay a trace under every policy with perfect lifetimes: what could be gained at most; or with flawed ones."""
    from sojourn.features.readers import read_trace
    from sojourn.features.synthetic import synthesize
    from sojourn.flows.progress import console, stage
    from sojourn.flows.report import policies_table
    from sojourn.simulator import POLICIES, WORKLOADS, LongAsShort, NoisyOracle, Oracle, build_workload, compare
    from sojourn.simulator.compare import Cell

    with stage("read"):
        read = synthesize(n_requests, seed=seed) if trace is None else read_trace(reader, trace)[0]
    recipe = workload or ("synthetic" if trace is None else reader if reader in WORKLOADS else "trace")
    shape: dict[str, Any] = {}
    if recipe == "trace":
        shape = {"cpu_cores": host_cpu_cores, "mem_gib": host_mem_gib}
    built = build_workload(recipe, read, load=load, seed=seed, **shape)
    with stage("simulate") as report:
        sources: dict[str, Any] = {"oracle": Oracle(built)}
        sources |= {f"noise {sigma:g}": NoisyOracle(built, sigma, seed) for sigma in noise}
        sources |= {f"recall {share:g}": LongAsShort(built, share, seed=seed) for share in recall}
        cells: list[Cell] = [(name, "", None) for name, policy in POLICIES.items() if policy.predictions == "none"]
        cells += [(name, label, source) for name, policy in POLICIES.items() if policy.predictions != "none"
                  for label, source in sources.items()]
        comparison = compare(built, cells, progress=lambda done, total, _: report(done, total),
                             n_stranding_moments=stranding)
    console.print(policies_table(comparison.table, built.description))
    if picture is not None:
        from sojourn.simulator.pictures import write_png

        write_png(comparison, picture)
        console.print(f"picture  {picture}", soft_wrap=True)


@app.command()
@_plain_errors
def predict(
    bundle: Annotated[Path, typer.Argument(help="Bundle folder.")],
    request: Annotated[str, typer.Argument(help="One request as JSON, or a file with one JSON object a line.")],
    now_s: Annotated[int | None, typer.Option(
        help="Arrival, whole seconds on the training trace's clock. [default: its end]")] = None,
    uptime_s: Annotated[list[float], typer.Option(help="Uptimes to answer for, seconds.")] = [0.0],  # noqa: B006
    explain: Annotated[bool, typer.Option("--explain", help="Print what each input adds, as a table.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Write one request's lifetime curve as a picture (PNG).")] = None,
) -> None:
    """Predict how long a request will stay: one JSON object a line, seconds; or, with --explain, why."""
    from sojourn.serving import Predictor, load_bundle

    loaded = load_bundle(bundle)
    predictor = Predictor(loaded)
    documents = _requests(request)
    if now_s is None:
        now_s = int(predictor.info()["training"].get("history_to_s", 0))
    if picture is not None:
        from sojourn.flows.explain_request import write_curve

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
        from sojourn.flows.explain_request import print_explanations

        print_explanations(loaded, documents, now_s, uptime_s)


def _requests(request: str) -> list[dict[str, Any]]:
    text = request if request.lstrip().startswith("{") else Path(request).read_text()
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
    """Serve a bundle as a Kubernetes scheduler extender, on the loopback interface unless told otherwise."""
    from sojourn.serving.extender import main

    raise typer.Exit(main(context.args, "sojourn extender"))


@app.command()
@_plain_errors
def pull(
    uri: Annotated[str, typer.Argument(help="models:/NAME@ALIAS or models:/NAME/VERSION.")],
    folder: Annotated[Path, typer.Argument(help="Folder that a predictor loads; published whole, by renaming.")],
    is_followed: Annotated[bool, typer.Option("--follow", help="Pull again whenever the alias moves.")] = False,
    interval_s: Annotated[float, typer.Option(help="Seconds between two looks at the alias.")] = 30.0,
    store: Annotated[Path | None, typer.Option(
        help="Folder of all stores; SOJOURN_TRACKING_URI names a server instead. [default: .sojourn]")] = None,
) -> None:
    """Bring a registered version's bundle into a folder, if a predictor can serve it."""
    from sojourn.flows.config import load_config
    from sojourn.flows.pull import ModelUri, find_version, follow_until_interrupted
    from sojourn.flows.pull import pull as run

    wanted = ModelUri.parse(uri)
    if is_followed and wanted.alias is None:
        raise ValueError(f"--follow must be given an alias, for a version never moves, got {uri!r}")
    if not 0.0 < interval_s < 1e6:
        raise ValueError(f"interval_s must be above 0 and below 1e6, got {interval_s!r}")
    config = load_config(store=store)
    if config.tracking_uri is None:
        _database(config.store)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # its 7 take minutes, in which nothing is said
    from sojourn.flows.tracking import Tracker

    tracker = Tracker(config.mlflow_uri, config.store / "artifacts")
    if is_followed:
        follow_until_interrupted(tracker, wanted, folder, interval_s, typer.echo)
    else:
        typer.echo(f"pulled   {run(tracker, wanted.name, find_version(tracker, wanted), folder)}\nfolder   {folder}")


@app.command()
@_plain_errors
def export_c(
    bundle: Annotated[Path, typer.Argument(help="Bundle folder.")],
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path(),
    name: Annotated[str, typer.Option(help="Begins both file names and every identifier.")] = "sojourn_lifetime",
) -> None:
    """Write a bundle's model as a C99 source file and its header, for schedulers that are not Python."""
    from sojourn.serving import load_bundle
    from sojourn.serving.c_source import c_source

    for file in c_source(load_bundle(bundle), name).write(output):
        typer.echo(f"written  {file}")


@app.command()
@_plain_errors
def ui(
    store: Store = Path(".sojourn"),
    port: Annotated[int, typer.Option(help="Port on the loopback interface.")] = 5000,
) -> None:
    """Open the MLflow UI on the store, on the loopback interface only."""
    database = _database(store)
    typer.echo(f"MLflow UI on http://127.0.0.1:{port} (Ctrl-C ends it)")
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    arguments = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{database}",
                 "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    os.execve(sys.executable, arguments, environment)


def _database(store: Path) -> Path:
    database = (store / "mlflow.db").absolute()
    if not database.is_file():
        raise FileNotFoundError(f"the store must hold mlflow.db (run `sojourn retrain` first), got {str(store)!r}")
    return database


@trace_app.command("describe")
@_plain_errors
def trace_describe(
    path: Annotated[Path, typer.Argument(help="Trace file or folder.")],
    reader: Reader = "parquet",
    picture: Annotated[Path | None, typer.Option(help="Write a picture (PNG): lifetimes, arrivals, use.")] = None,
) -> None:
    """A trace's requests, lifetimes, owners and use of its hosts, and what its reader refused."""
    from sojourn.features.describe import describe
    from sojourn.features.readers import read_trace

    trace, report = read_trace(reader, path)
    typer.echo(report.text())
    typer.echo("")
    typer.echo(describe(trace).text())
    if picture is not None:
        from sojourn.features.pictures import trace_figure

        trace_figure(trace).savefig(picture, dpi=110)
        typer.echo(f"\npicture  {picture}")


@trace_app.command("convert")
@_plain_errors
def trace_convert(
    path: Annotated[Path, typer.Argument(help="Trace file or folder.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    reader: Reader = "swf",
) -> None:
    """Read a trace and write it in our own format, refused rows beside it."""
    from sojourn.features.readers import read_trace

    trace, report = read_trace(reader, path)
    trace.save(folder)
    report.write_rejected(folder)
    typer.echo(report.text())
    typer.echo(f"\nwritten  {folder}")


@trace_app.command("synth")
@_plain_errors
def trace_synth(
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    n_requests: Annotated[int, typer.Option(help="Requests, 1,000 at least.")] = 60_000,
    seed: Annotated[int, typer.Option(help="Seed of all that is drawn.")] = 0,
    days: Annotated[float, typer.Option(help="Length, 1 to 3650 days.")] = 28.0,
    usage: Annotated[int, typer.Option(help="CPU usage series for this many of the longest requests.")] = 0,
) -> None:
    """Write a synthetic trace in our own format; the same options give the same rows."""
    from sojourn.features.synthetic import synthesize
    from sojourn.features.synthetic_usage import with_usage
    from sojourn.flows.progress import stage

    if n_requests < 1_000:
        raise ValueError(f"n_requests must be at least 1,000 (fewer have no shares to speak of), got {n_requests!r}")
    with stage("synthesize"):
        trace, truth = synthesize(n_requests, seed=seed, days=days), None
    if usage:
        with stage("usage") as report:
            trace, truth = with_usage(trace, usage, seed=seed, progress=report)
    with stage("write"):
        trace.save(folder)
        if truth is not None:
            truth.to_parquet(folder / "usage_truth.parquet", index=False)
    typer.echo(f"written  {folder}\nnext     sojourn trace describe {folder}")


@trace_app.command("fetch")
@_plain_errors
def trace_fetch(
    name: Annotated[str | None, typer.Argument(help="Public trace; --list shows them.")] = None,
    folder: Annotated[Path, typer.Option(help="Folder of all fetched traces.")] = Path("traces"),
    is_list: Annotated[bool, typer.Option("--list", help="Name the known traces and their terms.")] = False,
) -> None:
    """Fetch a public trace from its publisher; a broken fetch goes on where it stopped."""
    from sojourn.features.fetch import TRACES, fetch

    if is_list:
        for key, known in TRACES.items():
            typer.echo(f"{key:<20}reader {known.reader:<15}{known.licence}{'; ' + known.note if known.note else ''}")
        return
    if name is None:
        raise ValueError("NAME must be given, got none (--list shows the known traces)")
    from sojourn.flows.progress import stage

    with stage(f"fetch {name}") as report:
        path = fetch(name, folder, progress=report)
    note = TRACES[name].note
    typer.echo(f"licence  {TRACES[name].licence}{chr(10) + 'note     ' + note if note else ''}")
    typer.echo(f"next     sojourn trace describe {path} --reader {TRACES[name].reader}")
