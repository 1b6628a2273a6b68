"""Commands that answer by a bundle: `model predict`, `pull` and `export-c`, `serve annotate`, `extender` and
`kubernetes`; and why "3 days", one request's prediction as a table of what each of its inputs adds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sojourn.flows.commands.options import Flags, json_objects, plain_errors, takes
from sojourn.flows.console import FittedTable, console, duration
from sojourn.flows.settings.other_jobs import AnnotateConfig
from sojourn.flows.settings.store import StoreSettings, load_settings
from sojourn.inflated import text_of
from sojourn.serving import Bundle, Predictor, load_bundle
from sojourn.serving.answers import ARRIVAL, Attribution, background_of
from sojourn.serving.inputs import HistoryDefinition, HistoryKey, Parsed


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
    loaded = load_bundle(bundle)
    predictor = Predictor(loaded)
    documents = _requests(request)
    if now_s is None:
        now_s = int(predictor.info()["training"].get("history_to_s", 0))
    if picture is not None:
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
        explainer = RequestExplainer(loaded)
        for document in documents:
            for uptime in uptime_s:
                console.print(explainer.table(document, now_s, uptime))


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
    name: Annotated[str, typer.Option(help="Names the file and begins every identifier.")] = "sojourn_lifetime",
) -> None:
    """Write a bundle's model as one C99 header, for schedulers that are not Python."""
    from sojourn.serving.c import c_source

    typer.echo(f"written  {c_source(load_bundle(bundle), name).write(output)}")


@plain_errors
@takes(AnnotateConfig, "trace", "reader", "consumer", "quantile", "only", "requests", "at_most", "output",
       rare=("corrected", "any_kind", "any_coverage", "horizon_s", "column_map", "map_file", "timezone"))
def annotate(
    flags: Flags,
    bundle: Annotated[Path, typer.Argument(help="Bundle folder.")],
) -> None:
    """Write how long running pods or jobs will run, at most, as annotations that other programs read.

    Nothing is applied to a cluster: the lines are printed, or written to a file for you to run. The coverage of the
    bounds on requests that the model has not seen is said on standard error.
    """
    settings = load_settings(AnnotateConfig, bundle=bundle, **flags)
    from sojourn.features.readers import read_trace, span_s
    from sojourn.flows.annotation.annotate import Order, annotated

    order = Order(bundle, settings.consumer, settings.quantile,
                  None if settings.only is None else _ids(settings.only), settings.corrected,
                  None if settings.requests is None else _running_requests(settings.requests),
                  None if settings.at_most is None else span_s(settings.at_most, "--at-most"), settings.any_kind)
    read, report = read_trace(settings.reader, settings.trace, **settings.reading)
    typer.echo(f"trace     {len(read):,} requests of {settings.trace.name}, {report.n_refused:,} rows refused",
               err=True)
    found = annotated(order, read)
    for line in found.messages:
        typer.echo(line, err=True)
    if settings.output is None:
        typer.echo("".join(f"{line}\n" for line in found.lines), nl=False)
        typer.echo(f"dry run   {found.n_bounds:,} lines, nothing was written (--output FILE writes them)", err=True)
        return
    if found.refusal and not settings.any_coverage:
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

    raise typer.Exit(main(context.args, "sojourn serve extender"))


def http(context: typer.Context) -> None:
    """Answer programs that are not Python over HTTP: admissions, remaining times, ends; one writer of the history."""
    from sojourn.serving.http import main

    raise typer.Exit(main(context.args, "sojourn serve http"))


def costs(context: typer.Context) -> None:
    """Write what an eviction of each running pod would waste, for Karpenter or Kueue; a dry run by default."""
    from sojourn.serving.kubernetes import costs_main

    raise typer.Exit(costs_main(context.args, "sojourn serve costs"))


def kubernetes(context: typer.Context) -> None:
    """Serve a bundle as a scheduler extender that itself watches a cluster's pods and nodes."""
    from sojourn.serving.kubernetes import main

    raise typer.Exit(main(context.args, "sojourn serve kubernetes"))


def warm(context: typer.Context) -> None:
    """Compile what a predictor's first start would compile, once, and keep it."""
    from sojourn.serving.live import warm_main

    raise typer.Exit(warm_main(context.args, "sojourn serve warm"))


N_ROWS_MAX = 12
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def write_curve(predictor: Predictor, requests: Sequence[Mapping[str, Any]], now_s: int, file: Path) -> None:
    """Draw the curve of the one request; ValueError where there are several."""
    from sojourn.flows.reports.figures import curve_figure

    if len(requests) != 1:
        raise ValueError(f"a picture must be of one request, got {len(requests)}")
    title = f"Request {_text(requests[0])}\nModel {predictor.info()['family']}, version {predictor.version}"
    curve_figure(predictor.predict(requests[0], now_s).curve, title).savefig(file, dpi=110)


class RequestExplainer:
    """Explains requests by a bundle's model, against the earlier requests that the bundle carries.

    A bundle that carries none is explained against a request of which nothing but the arrival time is known.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._encoder = bundle.schema.encoder
        self._background = background_of(bundle.schema)
        self._predictor = Predictor(bundle)

    def table(self, request: Mapping[str, Any], now_s: int, uptime_s: float = 0.0) -> Table:
        """Inputs, their values and what each adds to the median remaining time, largest effect first.

        Raises ValueError as the predictor does: unknown column, wrong type, bad uptime.
        """
        vm = self._predictor.predict(request, now_s)
        found = self._predictor.explain(vm, uptime_s)
        base_name = "a request of which nothing is known"
        if self._background is not None:
            base_name = f"{len(self._background)} earlier requests, typically"
        values = self._values(self._encoder.parse(request), vm.features, found)
        return explanation_table(found, values, base_name, _text(request), uptime_s)

    def _values(self, parsed: Parsed, features: list[float], found: Attribution) -> list[str]:
        """What the model knew of each group of inputs, in words."""
        encoder = self._encoder
        keys = dict(zip((key.history_name for key in encoder.history.keys),
                        zip(encoder.history.keys, parsed.keys, strict=True), strict=True))  # fmt: skip
        words = []
        for group in found.groups:
            values = [features[idx] for idx in group.idx]
            if not group.idx:
                words.append("of its keys")
            elif group.name in keys:
                words.append(history_words(*keys[group.name], values, encoder.history))
            elif group.name == ARRIVAL:
                minutes = int(values[0] * 60.0)
                words.append(f"{_DAYS[int(values[1])]} {minutes // 60:02d}:{minutes % 60:02d}")
            elif math.isnan(values[0]):
                words.append("not given")
            else:
                words.append(duration(values[0]) if group.name.endswith("_s") else f"{values[0]:g}")
        return words


def history_words(key: HistoryKey, names: tuple[str, ...] | None, features: list[float], history: HistoryDefinition,
                  ) -> str:
    """A key's history as a reader says it: "lately" is the geometric mean of the last lifetimes, and their spread.

    Where the history sets instant ends apart, counts and lifetimes are of the others, and their share is said.

    >>> zone = HistoryKey("zone", ("zone",), "category")
    >>> history_words(zone, ("eu-1",), [math.log1p(16.0), 4.0], HistoryDefinition((zone,)))
    'eu-1: 16 or more ended, lately 2.8 h'
    >>> history_words(zone, None, [0.0, 4.0], HistoryDefinition((zone,)))
    'not given'
    """
    if names is None:
        return "not given"
    names_of = [name.removeprefix(f"{key.name}:") for name in key.feature_names(history.instant_s is not None)]
    parts = dict(zip(names_of, features[:len(names_of)], strict=True))  # what stands to the limit follows from these
    n_ended, n_running = (round(math.expm1(parts.get(part, 0.0))) for part in ("ended", "running"))
    counts = [f"{n_running:,} running"] * (n_running > 0)
    if n_ended:
        lately = f"lately {duration(10.0 ** parts['mean'])}"
        counts = [f"{n_ended:,}{' or more' * (n_ended == history.window)} ended", lately, *counts]
        if parts.get("spread", 0.0) >= 0.05:
            counts[1] += f" ×÷ {10.0 ** parts['spread']:.1f}"
    if parts.get("instant", 0.0) > 0.0:
        counts.append(f"{parts['instant']:.0%} of the last at once")
    return f"{' / '.join(name.removesuffix('.0') for name in names)}: {', '.join(counts) or 'never seen'}"


def explanation_table(found: Attribution, values: list[str], base_name: str, request: str, uptime_s: float) -> Table:
    """Base, up to 12 effects and the answer; factors multiply, and log10 seconds add, from base to answer."""
    when = "at creation" if uptime_s == 0.0 else f"after {duration(uptime_s)}"
    method = "Shapley values" if found.is_exact else "Shapley values over drawn orders"
    table = FittedTable(
        Text(f"Why {duration(10.0 ** found.answer)}? Median remaining time {when} of {request}", "bold"),
        ("input", "value", "effect on\nthe median", "log10 s"),
        Text(f"{method}: what each input adds, averaged over all orders of making it known. Factors multiply and "
             "log10 s add up from the first line to the last. Of the model, not of causes."),
        n_text=2, wrapped=("input", "value"), least=())
    table.add_row(Text(base_name), "", duration(10.0**found.base), f"{found.base:.3f}", end_section=True)
    order = sorted(range(len(values)), key=lambda idx: (-abs(found.effects[idx]), idx))
    n_shown = N_ROWS_MAX if len(order) <= N_ROWS_MAX else N_ROWS_MAX - 1
    for idx in order[:n_shown]:
        table.add_row(Text(found.groups[idx].name), Text(values[idx]), *_effect(found.effects[idx]))
    if len(order) > n_shown:
        rest = math.fsum(found.effects[idx] for idx in order[n_shown:])
        table.add_row(f"{len(order) - n_shown} others", "", *_effect(rest))
    table.add_section()
    table.add_row("this request", "", duration(10.0**found.answer), f"{found.answer:.3f}")
    return table


def _text(request: Mapping[str, Any]) -> str:
    return json.dumps(dict(request), ensure_ascii=False)


def _effect(effect: float) -> tuple[str, str]:
    """A factor with its direction, and its log10.

    >>> _effect(0.25), _effect(-0.3), _effect(0.0)
    (('longer ×1.78', '+0.250'), ('shorter ×0.50', '-0.300'), ('×1.00', '+0.000'))
    """
    factor = 10.0**effect
    digits = f"{factor:.3g}" if factor < 0.1 or factor >= 100.0 else f"{factor:.2f}"
    direction = "" if digits == "1.00" else "longer " if effect > 0.0 else "shorter "
    return f"{direction}×{digits}", f"{round(effect, 3) + 0.0:+.3f}"
