"""Commands that serve a bundle: `predict`, `pull`, `export-c`, `annotate` and `extender`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.flows.commands.options import Flags, Reader, is_there, json_objects, plain_errors, takes
from sojourn.flows.settings.other_jobs import AnnotateConfig
from sojourn.flows.settings.store import StoreSettings, load_settings
from sojourn.inflated import text_of
from sojourn.serving import Predictor


@plain_errors
def predict(
    bundle: Annotated[Path, typer.Argument(help="Bundle folder.")],
    request: Annotated[str, typer.Argument(help="One request as JSON, or a file with one JSON object a line.")],
    now_s: Annotated[int | None, typer.Option(
        help="Arrival, whole seconds on the training trace's clock. [default: its end]")] = None,
    uptime_s: Annotated[list[float], typer.Option(help="Uptimes to answer for, seconds.")] = [0.0],  # noqa: B006
    explain: Annotated[bool, typer.Option("--explain", help="Print what each input adds, as a table.")] = False,
    picture: Annotated[Path | None, typer.Option(
        help="Write one request's lifetime curve as a picture (PNG). [default: none]")] = None,
) -> None:
    """Predict how long a request will stay: one JSON object a line, in seconds; with --explain, explain it."""
    from sojourn.serving import load_bundle

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
            lacks = [f"{words}: {', '.join(names)}" for words, names in (
                ("not given", life.not_given), ("not seen in training", life.not_seen)) if names]
            typer.echo(f"warning: of {json.dumps(document)} the model does not know all; {'; '.join(lacks)}", err=True)
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
            text = text_of(Path(request))
        except OSError as error:
            raise ValueError(f"request must be a JSON object or the path of a file of them, got {request[:80]!r} "
                             f"({error.strerror})") from error
    return list(json_objects(text if text != request else text.replace("\n", " "), "request").values())


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
    from sojourn.flows.tracking.pull import ModelUri, find_version, follow_until_interrupted
    from sojourn.flows.tracking.pull import pull as run

    wanted = ModelUri.parse(uri)
    if is_followed and wanted.alias is None:
        raise ValueError(f"--follow must be given an alias (a version never changes), got {uri!r}")
    if not 0.0 < interval_s < 1e6:
        raise ValueError(f"interval_s must be above 0 and below 1e6, got {interval_s!r}")
    config = load_settings(StoreSettings, store=store)
    from sojourn.flows.versions.promotion import read_store

    tracker = read_store(config, is_asked=not is_followed)
    if is_followed:
        follow_until_interrupted(tracker, wanted, folder, interval_s, typer.echo)
    else:
        typer.echo(f"pulled   {run(tracker, wanted.name, find_version(tracker, wanted), folder)}\nfolder   {folder}")


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


@plain_errors
@takes(AnnotateConfig, "consumer", "quantile", "only", "requests", "is_corrected", "at_most", "is_any_kind", "output",
       "is_any_coverage_taken", "horizon_s", "column_map", "map_file", "trace_timezone")
def annotate(
    flags: Flags,
    bundle: Annotated[Path, typer.Argument(help="Bundle folder.")],
    trace: Annotated[Path, typer.Option(
        callback=is_there,
        help="Trace file or folder that holds what runs now: what has no end is annotated. What has ended since the "
             "training shows the coverage.")],
    reader: Reader = "parquet",
) -> None:
    """Write how long running pods or jobs will run, at most, as annotations that other programs read.

    Nothing is applied to a cluster: the lines are printed, or written to a file for you to run. The coverage of the
    bounds on requests that the model has not seen is said on standard error.
    """
    settings = load_settings(AnnotateConfig, bundle=bundle, trace=trace, reader=reader, **flags)
    from sojourn.features.readers import read_trace, span_s
    from sojourn.flows.annotation.annotate import Order, annotated

    order = Order(bundle, settings.consumer, settings.quantile,
                  None if settings.only is None else _ids(settings.only), settings.is_corrected,
                  None if settings.requests is None else _running_requests(settings.requests),
                  None if settings.at_most is None else span_s(settings.at_most, "--at-most"), settings.is_any_kind)
    read, report = read_trace(reader, trace, **settings.reading)
    typer.echo(f"trace     {len(read):,} requests of {trace.name}, {report.n_refused:,} rows refused", err=True)
    found = annotated(order, read)
    for line in found.said:
        typer.echo(line, err=True)
    if settings.output is None:
        typer.echo("".join(f"{line}\n" for line in found.lines), nl=False)
        typer.echo(f"dry run   {found.n_bounds:,} lines, nothing was written (--output FILE writes them)", err=True)
        return
    if found.refusal and not settings.is_any_coverage_taken:
        raise ValueError(f"bounds must hold before they are written (--any-coverage writes them all the same), got: "
                         f"{found.refusal}")
    from sojourn.publishing import whole_file

    with whole_file(settings.output) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in found.lines), encoding="utf-8")
    typer.echo(f"written   {settings.output}: {found.n_bounds:,} lines", err=True)


def _running_requests(file: Path) -> dict[str, dict[str, Any]]:
    found = json_objects(text_of(file), f"{file}: line")
    if not found:
        raise ValueError(f"requests must be a file with one JSON object a line, got an empty one: {str(file)!r}")
    return found


def _ids(file: Path) -> frozenset[str]:
    found = frozenset(line.strip() for line in text_of(file).split("\n") if line.strip())
    if not found:
        raise ValueError(f"only must be a file of request ids, one a line, got an empty one: {str(file)!r}")
    return found


def extender(context: typer.Context) -> None:
    """Serve a bundle as a Kubernetes scheduler extender, on the loopback interface by default."""
    from sojourn.serving.extender import main

    raise typer.Exit(main(context.args, "sojourn extender"))
