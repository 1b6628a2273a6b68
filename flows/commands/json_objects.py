"""JSON objects that a command is given, one a line."""

from __future__ import annotations

import json
from typing import Any


def json_objects(text: str, what: str) -> dict[str, dict[str, Any]]:
    """The objects of the lines of a text that are not blank, each by its place: `what` and the line's number.

    >>> json_objects('{"a": 1}\\n\\n7', "request")
    Traceback (most recent call last):
    ValueError: request 3 must be a JSON object, got '7'
    """
    found = {}
    for number, line in enumerate(text.split("\n"), 1):  # JSON's texts may hold other signs that end lines
        if not line.strip():
            continue
        try:
            document = json.loads(line, object_pairs_hook=_named_once)
        except RecursionError:
            raise ValueError(f"{what} {number} must be nested less deeply, got {line[:80]!r}") from None
        except ValueError as error:  # a number of many digits, too
            raise ValueError(f"{what} {number} must be a JSON object, got {line[:80]!r} ({error})") from error
        if not isinstance(document, dict):
            raise ValueError(f"{what} {number} must be a JSON object, got {line[:80]!r}")
        found[f"{what} {number}"] = document
    return found


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return found
