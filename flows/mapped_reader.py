"""Which readers map columns or take a zone, and what such a reader is told of them.

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
    return _takes(reader, "columns")


def takes_timezone(reader: str) -> bool:
    """Whether a reader takes the zone of times that have none.

    >>> takes_timezone("csv"), takes_timezone("slurm"), takes_timezone("swf")
    (True, True, False)
    """
    return _takes(reader, "timezone")


def column_keywords(options: ColumnOptions, reader: str) -> dict[str, Any]:
    """The options as keywords of the reader; ValueError where something is given and the reader takes none.

    >>> from sojourn.flows.trace_source import ColumnOptions
    >>> column_keywords(ColumnOptions(("arrival=start",)), "csv")
    {'columns': ('arrival=start',)}
    """
    if (options.pairs or options.file) and not maps_columns(reader):
        raise ValueError("--map and --map-file must be given with a reader that maps columns, such as csv, got reader "
                         f"{reader!r}")
    if options.timezone and not takes_timezone(reader):
        raise ValueError("--timezone must be given with a reader of times without a zone, such as csv or slurm, got "
                         f"reader {reader!r}")
    return options.keywords()


def _takes(reader: str, option: str) -> bool:
    from sojourn.features.readers import READERS

    return reader in READERS and option in READERS[reader].options
