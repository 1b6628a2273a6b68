"""JSON over HTTP, bounded in body, connections and time; both doors to a predictor are built on it.

uvicorn and Starlette answer (`sojourn[serve]`). May import: all rooms of `serving` but `extender`.
"""

from sojourn.serving.http.json_server import JSON_TYPE, JsonServer, Limits, Turns

__all__ = [
    "JSON_TYPE", "JsonServer", "Limits", "Turns",
]  # fmt: skip
