"""Which readers map columns, and what such a reader is told of them.

Apart from `trace_source`: the registry of readers imports all of them, and an edit of one must not make anew what is
kept of traces of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.flows.trace_source import ColumnOptions


def maps_columns(reader: str) -> bool:
    """Whether a reader takes column options.

    >>> maps_columns("csv"), maps_columns("swf"), maps_columns("synthetic")
    (True, False, False)
    """
    from sojourn.features.readers import READERS

    return reader in READERS and "columns" in READERS[reader].options


def column_keywords(options: ColumnOptions, reader: str) -> dict[str, Any]:
    """The options as keywords of the reader; ValueError where something is given and the reader takes none.

    >>> from sojourn.flows.trace_source import ColumnOptions
    >>> column_keywords(ColumnOptions(("arrival=start",)), "csv")
    {'columns': ('arrival=start',)}
    """
    found = options.keywords()
    if found and not maps_columns(reader):
        raise ValueError("--map, --map-file and --timezone must be given with a reader that maps columns, such as "
                         f"csv, got reader {reader!r}")
    return found
