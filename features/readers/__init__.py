"""Readers: each turns the files of one format into a Trace and a ReadReport."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sojourn.features.read_report import ReadReport
from sojourn.features.readers._column_map import check_pairs
from sojourn.features.readers._ending import hole_notes
from sojourn.features.readers._parts import KeptParts, span_s
from sojourn.features.readers._rows import n_parquet_rows, record_batches
from sojourn.features.readers._stamps import checked_timezone
from sojourn.features.readers.alibaba_2018 import ALIBABA_2018, ALIBABA_2018_CONTAINERS, read_alibaba_2018_instances
from sojourn.features.readers.azure_flavors import AZURE_FLAVORS
from sojourn.features.readers.azure_packing import AZURE_PACKING
from sojourn.features.readers.azure_vm import AZURE_VM
from sojourn.features.readers.bitbrains import BITBRAINS
from sojourn.features.readers.csv_table import CSV
from sojourn.features.readers.dlrm import DLRM
from sojourn.features.readers.google_2011 import GOOGLE_2011
from sojourn.features.readers.google_2019 import GOOGLE_2019
from sojourn.features.readers.huawei_east import HUAWEI_EAST
from sojourn.features.readers.kubernetes import KUBERNETES
from sojourn.features.readers.openb import OPENB
from sojourn.features.readers.openstack import OPENSTACK
from sojourn.features.readers.parquet import PARQUET, PARQUET_DAYS
from sojourn.features.readers.planetlab import PLANETLAB
from sojourn.features.readers.read_check import check_facts, check_lines
from sojourn.features.readers.reader import Reader
from sojourn.features.readers.sap import SAP
from sojourn.features.readers.slurm import SLURM, SLURM_RUNNING
from sojourn.features.readers.sql import SQL, SourceUnavailable, check_sql
from sojourn.features.readers.surf import SURF
from sojourn.features.readers.swf import SWF
from sojourn.features.trace import Trace

__all__ = [
    "READERS", "SLURM_RUNNING",
    "KeptParts",
    "Reader",
    "SourceUnavailable",
    "check_facts", "check_lines",
    "check_pairs",
    "check_sql",
    "checked_timezone",
    "n_parquet_rows",
    "read_alibaba_2018_instances",
    "read_trace",
    "record_batches",
    "span_s",
]  # fmt: skip

READERS: Mapping[str, Reader] = MappingProxyType({
    "alibaba-2018": ALIBABA_2018,
    "alibaba-2018-containers": ALIBABA_2018_CONTAINERS,
    "azure-flavors": AZURE_FLAVORS,
    "azure-packing": AZURE_PACKING,
    "azure-vm": AZURE_VM,
    "bitbrains": BITBRAINS,
    "csv": CSV,
    "dlrm": DLRM,
    "google-2011": GOOGLE_2011,
    "google-2019": GOOGLE_2019,
    "huawei-east": HUAWEI_EAST,
    "kubernetes": KUBERNETES,
    "openb": OPENB,
    "openstack": OPENSTACK,
    "parquet": PARQUET,
    "parquet-days": PARQUET_DAYS,
    "planetlab": PLANETLAB,
    "sap": SAP,
    "slurm": SLURM,
    "sql": SQL,
    "surf": SURF,
    "swf": SWF,
})
"""Name in configs and plots -> reader."""


def read_trace(name: str, path: str | Path, **options: Any) -> tuple[Trace, ReadReport]:
    """The trace at `path` by the reader `name`, with that reader's keyword options.

    All readers have horizon_s: the end of observation, seconds after the trace's begin, or a Unix
    second if it has dates.

    >>> read_trace("xlsx", "pods.xlsx")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: reader must be one of alibaba-2018, ...; got 'xlsx'
    """
    if name not in READERS:
        raise ValueError(f"reader must be one of {', '.join(sorted(READERS))}; got {name!r}")
    trace, report = READERS[name].read(path, **options)
    holes = hole_notes(trace)
    return trace, replace(report, notes=(*report.notes, *holes)) if holes else report
