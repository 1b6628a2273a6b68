"""What a reader is: the function that reads a format, and what help and docs say of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from sojourn.features.read_report import ReadReport
from sojourn.features.trace import Trace


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader as the registry knows it; its texts are Markdown, "" = none.

    read: from a path to the trace and the report, with `horizon_s` and the reader's own options as keywords.
    path: what it reads. arrival, departure: where the two times come from. owners, categories, numbers: the columns
    with these roles; no_role: columns that are kept without one. recipe: of the simulator, the one that suits its
    traces where no other is asked for. is_growing: it takes `kept` and `is_shrunk_allowed`, and reads again only
    what is new. is_queried: what it reads is known only once it is read: its file says where to ask. is_stamped: names
    of files say when they were written. file_ids: columns of owners whose values, or `request_id` where the ids, hold
    within one file alone: they begin anew in another.

    >>> Reader(lambda path, *, usage=None, horizon_s=None: None, "a file").options
    ('usage',)
    """

    read: Callable[..., tuple[Trace, ReadReport]]
    path: str
    arrival: str = ""
    departure: str = ""
    owners: str = ""
    categories: str = ""
    numbers: str = ""
    no_role: str = ""
    recipe: str = "trace"
    is_growing: bool = False
    is_queried: bool = False
    is_stamped: bool = False
    file_ids: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The keywords of `read` besides `horizon_s`, which every reader has."""
        return tuple(name for name, parameter in inspect.signature(self.read).parameters.items()
                     if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name != "horizon_s")
