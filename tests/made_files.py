"""Small files made by hand in the formats of public traces, one maker per reader."""

from pathlib import Path

import pandas as pd

FLAVORS = "flavor,vcpu,memory_gb\na,1.0,1.75\nb,4.0,7.0\n"
DURATION_BINS = "bin,dur_lo_s,dur_hi_s\n0,0,0\n1,300,300\n2,600,3600\n3,3900,7200\n"


def flavors_table(**changed: list[object]) -> pd.DataFrame:
    """Six VMs in three batches; observation ends at 10,800, 300 s after the last arrival."""
    columns: dict[str, list[object]] = {
        "arrival_s": [3600, 3600, 3600, 7200, 7200, 10500],
        "batch": [0, 1, 1, 2, 2, 3],
        "flavor": ["a", "b", "b", "a", "b", "a"],
        "censored": [False, False, True, False, False, False],
        "dur_bin": [0, 3, 3, 2, 1, 0],
    }
    return pd.DataFrame(columns | changed)


def flavors_folder(folder: Path, table: pd.DataFrame | None = None) -> Path:
    """A folder of the `azure-flavors` reader, with `table` as its VMs."""
    folder.mkdir(exist_ok=True)
    (folder / "flavors.csv").write_text(FLAVORS)
    (folder / "duration_bins.csv").write_text(DURATION_BINS)
    (flavors_table() if table is None else table).to_parquet(folder / "dev.parquet", index=False)
    return folder
