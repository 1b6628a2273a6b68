"""Readers: each turns the files of one public format into a Trace and a ReadReport."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sojourn.features.readers.alibaba_2018 import read_alibaba_2018
from sojourn.features.readers.alibaba_2018_containers import read_alibaba_2018_containers
from sojourn.features.readers.azure_flavors import read_azure_flavors
from sojourn.features.readers.azure_packing import read_azure_packing
from sojourn.features.readers.azure_vm import read_azure_vm
from sojourn.features.readers.bitbrains import read_bitbrains
from sojourn.features.readers.dlrm import read_dlrm
from sojourn.features.readers.google_2011 import read_google_2011
from sojourn.features.readers.openb import read_openb
from sojourn.features.readers.parquet import read_parquet
from sojourn.features.readers.planetlab import read_planetlab
from sojourn.features.readers.surf import read_surf
from sojourn.features.readers.swf import read_swf
from sojourn.features.report import ReadReport
from sojourn.features.trace import Trace

__all__ = [
    "READERS",
    "read_alibaba_2018",
    "read_alibaba_2018_containers",
    "read_azure_flavors",
    "read_azure_packing",
    "read_azure_vm",
    "read_bitbrains",
    "read_dlrm",
    "read_google_2011",
    "read_openb",
    "read_parquet",
    "read_planetlab",
    "read_surf",
    "read_swf",
    "read_trace",
]

READERS: Mapping[str, Callable[..., tuple[Trace, ReadReport]]] = MappingProxyType({
    "alibaba-2018": read_alibaba_2018,
    "alibaba-2018-containers": read_alibaba_2018_containers,
    "azure-flavors": read_azure_flavors,
    "azure-packing": read_azure_packing,
    "azure-vm": read_azure_vm,
    "bitbrains": read_bitbrains,
    "dlrm": read_dlrm,
    "google-2011": read_google_2011,
    "openb": read_openb,
    "parquet": read_parquet,
    "planetlab": read_planetlab,
    "surf": read_surf,
    "swf": read_swf,
})
"""Name in configs and plots -> reader."""


def read_trace(name: str, path: str | Path, **options: Any) -> tuple[Trace, ReadReport]:
    """The trace at `path` read by the reader `name`, with that reader's keyword options.

    >>> read_trace("csv", "pods.csv")
    Traceback (most recent call last):
    ValueError: reader must be one of alibaba-2018, alibaba-2018-containers, azure-flavors, azure-packing, azure-vm,
    bitbrains, dlrm, google-2011, openb, parquet, planetlab, surf, swf; got 'csv'
    """
    if name not in READERS:
        raise ValueError(f"reader must be one of {', '.join(sorted(READERS))}; got {name!r}")
    return READERS[name](path, **options)
