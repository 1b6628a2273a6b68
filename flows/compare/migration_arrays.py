"""A replay's table of migrations as arrays of a kept cell, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

_BEFORE = "migration_"
_TEXTS = ("planner", "request_id", "from_host", "to_host")


def migration_arrays(migrations: pd.DataFrame | None) -> dict[str, np.ndarray]:
    """Columns of `Result.migrations` by name, ids and planners as text; {} where there is none."""
    if migrations is None:
        return {}
    return {f"{_BEFORE}{name}": np.array(migrations[name].astype(str).tolist(), np.str_) if name in _TEXTS
            else migrations[name].to_numpy() for name in map(str, migrations)}


def migration_table(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame | None:
    """What `migration_arrays` made arrays of; None where there was none."""
    own = {name.removeprefix(_BEFORE): values for name, values in arrays.items() if name.startswith(_BEFORE)}
    return pd.DataFrame(own) if own else None
