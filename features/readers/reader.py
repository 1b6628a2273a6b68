"""The entry of a reader in the registry: the function that reads a format, and its texts for help and docs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from sojourn.features.read_report import ReadReport
from sojourn.features.trace import Trace


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader and its texts in Markdown, "" = none.

    read: from a path to the trace and the report, with `horizon_s` and the reader's options as keywords. path: its
    files. arrival, departure: the sources of the two times. owners, categories, numbers: the columns with these roles;
    no_role: columns without a role. recipe: the simulator's default for its traces. is_growing: it takes `kept` and
    `is_shrunk_allowed`, and reads only new data again. is_queried: its file holds a query, and the data are known only
    after reading. is_stamped: file names have the time of writing. file_ids: columns of owners, or `request_id`, whose
    values are valid within one file only.

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
