"""The answer service: a predictor with its state behind HTTP, for programs that are not Python.

    python -m sojourn.serving.http BUNDLE [--host 127.0.0.1] [--port 8900] [--snapshot FOLDER] [--token-file FILE]

See docs/serving/http.md. `add_options`, `loaded` and `run` are those of every door.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import ipaddress
import json
import math
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from sojourn.serving.checks import N_TEXT_MAX
from sojourn.serving.http.calls import CALLS, N_QUANTILES_MAX, AnswerCalls, Call
from sojourn.serving.http.json_server import JSON_TYPE, PROBES, JsonServer, Limits
from sojourn.serving.predictor import Predictor
from sojourn.serving.prometheus import CONTENT_TYPE, Metric, exposition, predictor_metrics
from sojourn.serving.watch import WatchEvent

try:
    import fcntl
except ImportError:  # Windows: a second service on one folder is not detected there
    fcntl = None  # type: ignore[assignment]

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}")
_SECONDS = {"type": "number", "minimum": 0}
_UNIX = {"type": "integer"}
_TEXTS = {"type": "array", "items": {"type": "string"}}
FIELDS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "request_id": {"type": "string", "minLength": 1, "maxLength": N_TEXT_MAX,
                   "description": "The client's name of a request; a new one for each."},
    "request": {"type": "object", "additionalProperties": {"type": ["number", "string", "boolean", "null"]},
                "description": "Column to value; what is not known is left out."},
    "now_s": {"type": "number", "description": "Unix seconds; the server's clock if it is left out."},
    "arrival_s": {"type": "number", "description": "Unix seconds at which the request began to run."},
    "quantiles": {"type": "array", "maxItems": N_QUANTILES_MAX,
                  "items": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}},
    "state": {"type": "string"},
    "version": {"type": "string", "description": "Of the model of the curve that answers."},
    "remaining_s": {**_SECONDS, "description": "Mean remaining time."},
    "quantiles_s": {"type": "array", "items": _SECONDS,
                    "description": "Remaining times that these shares do not exceed, in the order of quantiles."},
    "not_given": {**_TEXTS, "description": "Columns that the model reads and the request lacks."},
    "not_seen": {**_TEXTS, "description": "Owners and categories that the model has not met."},
    "refreshed_s": {"type": ["integer", "null"], "description": "Unix seconds of the curve; null: of the admission."},
    "next_refresh_s": {"type": ["integer", "null"],
                       "description": "Unix seconds at which the next refresh is worth it; null: none is."},
    "status": {**_UNIX, "description": "The HTTP status that the item alone would have."},
    "error": {"type": "string"},
})  # fmt: skip
"""JSON schemas of all fields of `CALLS`."""


def openapi() -> dict[str, Any]:
    """The OpenAPI 3.1 document of the service.

    >>> openapi()["paths"]["/ended"]["post"]["summary"]
    'Record that requests ended.'
    """
    paths: dict[str, Any] = {path: {"post": _operation(path, call)} for path, call in CALLS.items()}
    for path, about in {"/healthz": "That the process answers.", "/readyz": "Whether it takes requests.",
                        "/metrics": "Prometheus text.", "/openapi.json": "This document."}.items():
        kind = "text/plain" if path == "/metrics" else JSON_TYPE
        paths[path] = {"get": {"summary": about, "operationId": re.sub(r"\W", "", path),
                               "responses": {"200": {"description": "OK", "content": {kind: {}}}},
                               **({"security": []} if path in PROBES else {})}}
    return {
        "openapi": "3.1.0", "info": {"title": "Sojourn answer service", "version": "1"}, "paths": paths,
        "security": [{"token": []}, {}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
                       "schemas": {"Error": _object(("error",), ("request_id", "status"))}},
    }  # fmt: skip


def _operation(path: str, call: Call) -> dict[str, Any]:
    shared = ("quantiles",) if "quantiles_s" in call.gives else ()
    item = _object(call.needed, (*call.others, *shared))
    short = [FIELDS["request_id"]] if call.needed == ("request_id",) else []
    items = {"type": "array", "items": {"anyOf": [_object(call.needed, call.others), *short]}}
    batch = _object((), ("now_s", *shared), items=items)
    kinds = [item, batch, items]
    if call.has_all:
        kinds.append(_object((), ("now_s", *shared), all={"const": True}))
    answer = _object(tuple(name for name in call.gives if name not in ("quantiles_s", "not_given", "not_seen")),
                     ("quantiles_s", "not_given", "not_seen"), **(
                         {"state": {"enum": list(call.states)}} if call.states else {}))
    answers = {"type": "array", "items": {"anyOf": [answer, {"$ref": "#/components/schemas/Error"}]}}
    found = {"anyOf": [answer, answers, _object((), (), items=answers)]}
    error = {JSON_TYPE: {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "summary": call.about, "operationId": path[1:],
        "requestBody": {"required": True, "content": {JSON_TYPE: {"schema": {"anyOf": kinds}}}},
        "responses": {"200": {"description": "The answer, or those of a batch.",
                              "content": {JSON_TYPE: {"schema": found}}},
                      "default": {"description": "Refused.", "content": error}},
    }  # fmt: skip


def _object(needed: Sequence[str], others: Sequence[str], **more: Any) -> dict[str, Any]:
    """The schema of an object; `more` are fields that it needs, with schemas of their own."""
    return {"type": "object", "additionalProperties": False, "required": list(dict.fromkeys([*needed, *more])),
            "properties": {name: FIELDS[name] for name in (*needed, *others)} | more}


def bind(calls: AnswerCalls, predictor: Predictor, host: str, port: int, *, limits: Limits | None = None,
         host_names: Sequence[str] = (), token: str | None = None) -> JsonServer:
    """A server for the calls, bound (port 0: any free one) but not yet serving.

    ValueError if it would be reached from other machines without a token.
    """
    if token is None and not _is_loopback(host):
        raise ValueError(f"--token-file must be given if --host is not a loopback address, got {host!r} alone")
    document = json.dumps(openapi(), separators=(",", ":"))

    def metrics() -> tuple[int, str, str]:
        return HTTPStatus.OK, CONTENT_TYPE, exposition([*predictor_metrics(predictor), *_metrics(calls, server)])

    def post(path: str) -> Any:
        async def answer(document: Any) -> tuple[int, bytes]:
            return await calls.answer(path, document)
        return answer

    gets = {**probes(predictor, lambda: "the server is stopping" if server.is_stopping else ""), "/metrics": metrics,
            "/openapi.json": lambda: (HTTPStatus.OK, JSON_TYPE, document)}
    server = JsonServer(host, port, {path: post(path) for path in CALLS}, gets, limits, host_names, token=token,
                        error_name="error", quick={path: partial(calls.single, path) for path in CALLS})
    return server


def probes(predictor: Predictor, missing: Callable[[], str]) -> dict[str, Callable[[], tuple[int, str, str]]]:
    """`/healthz` and `/readyz` of a door. missing: why it takes no requests, or its answers would mean nothing; empty
    if they do."""

    def said(code: HTTPStatus, **document: str) -> tuple[int, str, str]:
        return code, JSON_TYPE, json.dumps({**document, "version": predictor.version})

    def readiness() -> tuple[int, str, str]:
        reason = missing()
        return (said(HTTPStatus.SERVICE_UNAVAILABLE, status="not ready", reason=reason) if reason
                else said(HTTPStatus.OK, status="ready"))

    return {"/healthz": lambda: said(HTTPStatus.OK, status="ok"), "/readyz": readiness}


def _metrics(calls: AnswerCalls, server: JsonServer) -> list[Metric]:
    items = tuple(({"verb": verb, "status": str(int(status))}, count)
                  for (verb, status), count in sorted(calls.counts.copy().items()))
    return [
        Metric("sojourn_http_items_total", "counter", "Items of requests by verb and status.", items),
        Metric.of("sojourn_http_running", "gauge", "Running requests.", len(calls)),
        *request_metrics("sojourn_http_requests_total", server),
    ]


def request_metrics(name: str, server: JsonServer) -> list[Metric]:
    """What every door counts: requests, as a counter of this name, and how long they took."""
    requests = tuple(({"verb": verb, "outcome": outcome}, count)
                     for (verb, outcome), count in sorted(server.counts.copy().items()))
    times = tuple(({"verb": verb}, each) for verb, each in sorted(server.times.copy().items()))
    return [
        Metric(name, "counter", "Requests by verb and outcome; verb connection: turned away for want of room.",
               requests),
        Metric("sojourn_request_seconds", "histogram",
               "Seconds from a posted body to its answer, with the wait for other requests, by verb.", times),
    ]


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    text = file.read_text("ascii").strip()
    if not _TOKEN.fullmatch(text):  # the message does not show it
        raise ValueError(f"--token-file must hold a token of 1 to 512 letters, digits and ._~+/=-, got another text "
                         f"in {file}")
    return text


@contextmanager
def _own(folder: Path | None) -> Iterator[None]:
    """Keep a second service away from the folder until the block is left, killed or not."""
    if folder is None or fcntl is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(f"--snapshot must be a folder that no other service writes to, got {folder}") from error
        yield


def add_options(parser: argparse.ArgumentParser, port: int, body_mib: int) -> None:
    """Add the options of every door, with these defaults."""
    parser.add_argument("bundle", type=Path, help="bundle folder")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind to (default: loopback only)")
    parser.add_argument("--port", type=int, default=port, help="port, 0 for any free one (default: %(default)s)")
    parser.add_argument("--body-mib", type=int, default=body_mib, help="largest request body (default: %(default)s)")
    parser.add_argument("--connections-max", type=int, default=32, help="connections at once (default: %(default)s)")
    parser.add_argument("--allowed-host", action="append", default=[], metavar="NAME", dest="host_names",
                        help="name by which clients reach it, besides localhost, --host and addresses; may be repeated "
                             "(default: none)")
    parser.add_argument("--watch-s", type=_seconds, default=5.0, metavar="S",
                        help="seconds between two looks for a new version in the folder (default: %(default)s)")
    parser.add_argument("--log-to", type=Path, metavar="FOLDER",
                        help="log each admission's prediction and its end here (default: none)")
    parser.add_argument("--log-owner-key", type=Path, metavar="FILE",
                        help="log owners by a keyed hash; the file's 16 to 64 bytes are the key (default: none)")
    parser.add_argument("--shadow", type=Path, metavar="BUNDLE",
                        help="bundle folder of a challenger that answers each admission, too, and is not used "
                             "(default: none)")
    parser.add_argument("--recalibrate", action=argparse.BooleanOptionalAction,
                        help="correct new requests' curves by how requests ended of late (default: as the version was "
                             "judged)")
    add_clock(parser)


def add_clock(parser: argparse.ArgumentParser) -> None:
    """Add the option that `epoch_of` takes."""
    parser.add_argument("--epoch-s", type=int, metavar="UNIX_S",
                        help="unix time at the bundle clock's 0; needed if the training trace had no dates "
                             "(default: 0)")


def loaded(options: argparse.Namespace, history: Path | None = None) -> Predictor:
    """The predictor that the options of a door name."""
    if options.log_owner_key is not None and options.log_to is None:
        raise ValueError("--log-owner-key must be given with --log-to, got it alone")
    predictor = Predictor.load(options.bundle, history=history, shadow=options.shadow, recalibrate=options.recalibrate)
    if options.log_to is not None:
        key = None if options.log_owner_key is None else options.log_owner_key.read_bytes()
        _check_writable(options.log_to)
        predictor.log_to(options.log_to, owner_key=key, epoch_s=epoch_of(predictor, options.epoch_s))
    return predictor


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:  # else all would be served, and nothing be in the log when it is read in a week
        raise ValueError(f"--log-to must be a folder that can be written to, got {folder}: {error.strerror}") from error


def epoch_of(predictor: Predictor, epoch_s: int | None) -> int:
    """Unix time at 0 of the predictor's clock: the one that is given, else 0; ValueError if the training trace had no
    dates and none is given."""
    if epoch_s is None and predictor.info()["clock"] != "Unix seconds":
        raise ValueError("--epoch-s must be given, since the bundle's training trace had no dates")
    return epoch_s or 0


def limits_of(options: argparse.Namespace) -> Limits:
    """The limits that the options of a door name."""
    return Limits(body_bytes=options.body_mib << 20, n_connections=options.connections_max)


class Beside(Protocol):
    """What runs beside a server."""

    def start(self) -> None:
        """Begin, in threads of its own."""

    def stop(self) -> None:
        """End them."""


def run(name: str, options: argparse.Namespace, opened: Callable[[], tuple[Predictor, JsonServer]],
        keep: Callable[[], object] = lambda: None, every_s: float = math.inf, beside: Beside | None = None) -> int:
    """Serve what is opened until SIGTERM or Ctrl-C; 0, or 2 with one line on standard error if it cannot start.

    keep: called every `every_s` and at the end; 1 if it fails then. beside: runs while it serves.
    """
    is_over = threading.Event()
    try:
        predictor, server = opened()
        watch = predictor.watch(interval_s=options.watch_s, on_event=_say)
    except (ValueError, OSError, OverflowError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    gc.freeze()  # to look through what stands now for cycles takes 90 ms each time
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    if options.shadow is not None:
        state = predictor.shadow()
        print(f"shadow {state['version']}" if state["version"] else f"refused  shadow: {state['reason']}", flush=True)
    if predictor.info()["recalibration"] != "off":
        print(f"recalibration {predictor.info()['recalibration']}", flush=True)
    thread = threading.Thread(target=server.serve_forever, name=name)
    thread.start()
    print(f"{name} on http://{options.host}:{server.server_port}, bundle {predictor.version}; SIGTERM ends it",
          flush=True)
    if beside is not None:
        beside.start()
    while not is_over.wait(min(every_s, threading.TIMEOUT_MAX)):
        _kept(keep)
    watch.stop()
    if beside is not None:
        beside.stop()
    server.stop()
    thread.join()
    is_kept = _kept(keep)
    predictor.stop_logging()
    return 0 if is_kept else 1


def _kept(keep: Callable[[], object]) -> bool:
    try:
        keep()
    except (ValueError, OSError) as error:  # the former snapshot is still there
        print(f"refused  snapshot: {error}", flush=True)
        return False
    return True


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"must be above 0 and below 1e6, got {text}")
    return seconds


def _say(event: WatchEvent) -> None:
    print(f"reloaded bundle {event.version}" if event.is_served else f"refused  bundle {event.version}: {event.reason}",
          flush=True)


def main(arguments: Sequence[str] | None = None, prog: str | None = "python -m sojourn.serving.http") -> int:
    """Serve until SIGTERM or Ctrl-C; 0, 1 if the last snapshot failed, or 2 if it cannot start."""
    parser = argparse.ArgumentParser(prog, description="Lifetime predictions over HTTP, for programs that are not "
                                                       "Python.")
    add_options(parser, 8900, 4)
    parser.add_argument("--token-file", type=Path, metavar="FILE",
                        help="the token that clients must give; needed if --host is no loopback address "
                             "(default: none)")
    parser.add_argument("--requests-max", type=int, default=100_000, metavar="N",
                        help="running requests to keep track of (default: %(default)s)")
    parser.add_argument("--snapshot", type=Path, metavar="FOLDER",
                        help="keep the history and the running requests here, over restarts (default: none)")
    parser.add_argument("--snapshot-s", type=_seconds, default=300.0, metavar="S",
                        help="seconds between two snapshots; the last is at the end (default: %(default)s)")
    options = parser.parse_args(arguments)
    folder: Path | None = options.snapshot
    made: list[tuple[Predictor, AnswerCalls]] = []

    def opened() -> tuple[Predictor, JsonServer]:
        token = _token(options.token_file)
        predictor = loaded(options, None if folder is None else folder / "history")
        calls = AnswerCalls(predictor, epoch_s=epoch_of(predictor, options.epoch_s), n_max=options.requests_max)
        if folder is not None:
            n_restored = calls.restore(folder / "requests.jsonl")
            print(f"restored {n_restored} running requests", flush=True)
        made.append((predictor, calls))
        return predictor, bind(calls, predictor, options.host, options.port, limits=limits_of(options),
                               host_names=options.host_names, token=token)

    def keep() -> None:
        if folder is not None and made:
            predictor, calls = made[0]
            names = calls.names()  # before the history: what it has beyond them is withdrawn at the next start
            predictor.snapshot(folder / "history")
            calls.write_names(folder / "requests.jsonl", names)

    sys.setswitchinterval(0.0005)  # answers wait so long for a snapshot or a reload in another thread, not 5 ms
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_own(folder))
        except (ValueError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        return run("answers", options, opened, keep, math.inf if folder is None else options.snapshot_s)
