"""`sojourn predict`: a bundle's answer for requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.flows.commands.json_objects import json_objects
from sojourn.flows.commands.options import plain_errors
from sojourn.inflated import text_of


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
