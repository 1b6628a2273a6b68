"""Nodes that kubectl listed as hosts: what each has for pods that the scheduler places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger
from sojourn.features.readers._pod_sights import MAX_SIZE
from sojourn.serving.pods import POD_SIZES, field, gpu_share, mapping, quantity, sequence

_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_STEPS = {"cpu_cores": 0.01, "mem_gib": 0.25, "gpu": 1e-3}
"""Rounded down to these: nodes of one type differ by some KiB, and are one type of host."""


def node_table(nodes: Mapping[str, Any], part_of_node: Iterable[tuple[str, str, tuple[float, ...]]], file: str,
               ledger: ReadLedger) -> pd.DataFrame | None:
    """Hosts with what they have allocatable, less what the pods ask for that belong to them; None without one.

    part_of_node: node, controller and sizes (as POD_SIZES) of such pods; each controller counts once a node. Cordoned
    nodes and those of the control plane are left out. A node that cannot be read is refused.

    >>> node = {"metadata": {"name": "n"}, "spec": {}, "status": {"allocatable": {"cpu": "4", "memory": "16Gi"}}}
    >>> node_table({"n": node}, [("n", "DaemonSet/agent", (0.5, 1.0, 0.0))], "nodes.json", ReadLedger()).values.tolist()
    [['n', 3.5, 15.0, 0.0]]
    """
    taken: dict[str, dict[str, tuple[float, ...]]] = {}
    for name, controller, sizes in part_of_node:
        taken.setdefault(name, {})[controller] = sizes
    rows, n_closed = [], 0
    for name, node in nodes.items():
        try:
            if _is_closed(node):
                n_closed += 1
                continue
            own = np.array(list(taken.get(name, {}).values())).reshape(-1, len(POD_SIZES)).sum(axis=0)
            left = [round(math.floor(max(has - used, 0.0) / step + 1e-9) * step, 6)
                    for has, used, step in zip(_allocatable(node), own, _STEPS.values(), strict=True)]
        except ValueError as error:
            rule, _, shown = str(error).partition(", got ")
            ledger.refuse(f"node: {rule}", file, np.zeros(1, np.int64), [f"{shown} in {name}"])
            continue
        rows.append((name, *left))
    if n_closed:
        ledger.note(f"{n_closed:,} nodes left out: cordoned, or of the control plane")
    return pd.DataFrame(rows, columns=["host_id", *POD_SIZES]) if rows else None


def _is_closed(node: Any) -> bool:
    if field(node, "spec", "unschedulable") is True:
        return True
    return any(field(taint, "key") in _CONTROL_PLANE for taint in sequence(node, "spec", "taints"))


def _allocatable(node: Any) -> tuple[float, float, float]:
    """Cores, GiB and GPUs."""
    has = mapping(node, "status", "allocatable")
    if not {"cpu", "memory"} <= has.keys():
        raise ValueError(f"status.allocatable must name cpu and memory, got {', '.join(map(str, has)) or 'none'}")
    sizes = (quantity(has["cpu"]), quantity(has["memory"]) / 2.0**30,
             sum(quantity(each) * gpu_share(name) for name, each in has.items() if gpu_share(name)))
    for column, size in zip(POD_SIZES, sizes, strict=True):
        if not 0.0 <= size <= MAX_SIZE:
            raise ValueError(f"{column} must be from 0 to 1e9, got {size!r}")
    return sizes
