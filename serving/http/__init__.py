"""JSON over HTTP, bounded in body, connections and time, and the answer service that stands on it.

uvicorn and Starlette answer (`sojourn[serve]`). May import: all rooms of `serving` but `extender`,
whose door is made of the same server.
"""

from sojourn.serving.http.calls import AnswerCalls
from sojourn.serving.http.json_server import JSON_TYPE, JsonServer, Limits, Turns
from sojourn.serving.http.service import (
    Beside,
    add_clock,
    add_options,
    bind,
    epoch_of,
    limits_of,
    loaded,
    main,
    openapi,
    probes,
    request_metrics,
    run,
)

__all__ = [
    "JSON_TYPE", "AnswerCalls", "Beside", "JsonServer", "Limits", "Turns", "add_clock", "add_options", "bind",
    "epoch_of", "limits_of", "loaded", "main", "openapi", "probes", "request_metrics", "run",
]  # fmt: skip
