"""What a reader of usage series is: the function that opens a stream, and what help and docs say of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from sojourn.features.usage.usage_stream import UsageStream


@dataclass(frozen=True, slots=True)
class UsageReader:
    """A reader of usage series as the registry knows it; its texts are Markdown.

    stream: from a path to a stream, with `timezone`, `max_cpu` and the reader's own options as keywords.
    path: what it reads. cpu: what its share is of. stamp: what a sample's time marks. step_s: its usual interval.

    >>> UsageReader(lambda path, *, day=None, timezone="UTC", max_cpu=10.0: None, "a file", "cores").options
    ('day',)
    """

    stream: Callable[..., UsageStream]
    path: str
    cpu: str
    stamp: str = "start of its interval"
    step_s: int = 300

    @property
    def options(self) -> tuple[str, ...]:
        """The keywords of `stream` besides `timezone` and `max_cpu`, which every reader has."""
        return tuple(name for name, parameter in inspect.signature(self.stream).parameters.items()
                     if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in ("timezone", "max_cpu"))
