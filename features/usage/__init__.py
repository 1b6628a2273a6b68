"""Usage series: from the readers that have them to one grid, folded profiles and quantiles per request.

`read_usage` opens a stream of samples, `store_usage` writes it to a folder, `UsageStore` reads grids and profiles from
there.

May import: `readers` and what lies below it, and `serving.usage`.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sojourn.features.usage.published_usage import (
    AWS_NAB,
    AZURE_2019,
    BITBRAINS,
    BITBRAINS_SMALL,
    GCD_VMS,
    GOOGLE_2019,
    PLANETLAB,
    SURF,
    planetlab_days,
)
from sojourn.features.usage.table_usage import ALIBABA_2018, AZURE_VM, GOOGLE_2011, TABLE
from sojourn.features.usage.trace_usage import PARQUET, SYNTHETIC, grid_of
from sojourn.features.usage.usage_grid import UsageGrid, UsageProfiles, profiles_of, streamed_profiles
from sojourn.features.usage.usage_store import SharedReading, UsageSource, UsageStore, store_usage
from sojourn.features.usage.usage_stream import UsageBlock, UsageReader, UsageReport, UsageRequests, UsageStream

__all__ = [
    "USAGE_READERS", "SharedReading", "UsageBlock", "UsageGrid", "UsageProfiles", "UsageReader", "UsageReport",
    "UsageRequests", "UsageSource", "UsageStore", "UsageStream", "grid_of", "planetlab_days", "profiles_of",
    "read_usage", "store_usage", "streamed_profiles",
]  # fmt: skip

USAGE_READERS: Mapping[str, UsageReader] = MappingProxyType({
    "alibaba-2018": ALIBABA_2018,
    "aws-nab": AWS_NAB,
    "azure-2019": AZURE_2019,
    "azure-vm": AZURE_VM,
    "bitbrains": BITBRAINS,
    "bitbrains-small": BITBRAINS_SMALL,
    "gcd-vms": GCD_VMS,
    "google-2011": GOOGLE_2011,
    "google-2019": GOOGLE_2019,
    "parquet": PARQUET,
    "planetlab": PLANETLAB,
    "surf": SURF,
    "synthetic": SYNTHETIC,
    "table": TABLE,
})
"""Name in commands and docs -> reader of usage series."""


def read_usage(name: str, path: str | Path, **options: Any) -> UsageStream:
    """The usage at `path` as a stream, by the reader `name` with its keyword options; nothing is read yet but sizes.

    Every reader takes `timezone` (an IANA name; decides local slots of the day) and `max_cpu` (the cap).

    >>> read_usage("csv", "usage.csv")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: reader must be one of alibaba-2018, ...; got 'csv'
    """
    if name not in USAGE_READERS:
        raise ValueError(f"reader must be one of {', '.join(sorted(USAGE_READERS))}; got {name!r}")
    reader = USAGE_READERS[name]
    allowed = (*reader.options, "timezone", "max_cpu")
    unknown = [key for key in options if key not in allowed]
    if unknown:
        raise ValueError(f"option of {name} must be one of {', '.join(allowed)}; got {unknown[0]!r}")
    return reader.stream(path, **options)
