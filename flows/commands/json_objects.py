"""JSON objects that a command is given, one a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def json_objects(lines: Iterable[str], what: str) -> list[dict[str, Any]]:
    """The objects of lines that are not blank. what: stands before the line's number in an error.

    >>> json_objects(['{"a": 1}', "", "7"], "request")
    Traceback (most recent call last):
    ValueError: request 3 must be a JSON object, got '7'
    """
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{what} {number} must be a JSON object, got {line[:80]!r} ({error})") from error
        if not isinstance(document, dict):
            raise ValueError(f"{what} {number} must be a JSON object, got {line[:80]!r}")
        found.append(document)
    return found
