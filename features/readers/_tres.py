"""Slurm's lists of trackable resources (`cpu=8,mem=32G,gres/gpu=2,node=1`) and its requests of memory as numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sojourn.features.readers._cells import MAX_NUMBER, is_missing, sizes_gib

_COUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?)([KMG]?)")
_FACTORS = {"": 1.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3}


@dataclass(frozen=True, slots=True)
class Tres:
    """Amounts of n lists, float64, shape (n,), NaN where a list does not name it. is_bad: bool, the list is none."""

    cpu: np.ndarray
    mem_gib: np.ndarray
    gpu: np.ndarray
    node: np.ndarray
    is_bad: np.ndarray


def tres(text: Sequence[str] | np.ndarray) -> Tres:
    """The amounts of lists of TRES; GPUs by their total, or the sum over their types where no total is named.

    >>> found = tres(["billing=8,cpu=8,mem=32G,gres/gpu=2,node=1", "cpu=1,gres/gpu:a100=1,gres/gpu:v100=2", "", "x"])
    >>> found.cpu.tolist(), found.mem_gib.tolist(), found.gpu.tolist()
    ([8.0, 1.0, nan, nan], [32.0, nan, nan, nan], [2.0, 3.0, nan, nan])
    >>> found.is_bad.tolist()
    [False, False, False, True]
    """
    codes, kinds = pd.factorize(np.asarray(text, object))
    lists = [_pairs(each) for each in kinds]
    mem = sizes_gib([found.get("mem", "") for found in lists], unit="MiB")
    cpu, gpu, node = (counts([found.get(name, "") for found in lists]) for name in ("cpu", "gres/gpu", "node"))
    is_bad = np.array(["" in found for found in lists], bool) | mem.is_bad
    for values, name in ((cpu, "cpu"), (gpu, "gres/gpu"), (node, "node")):
        is_bad |= np.isnan(values) & np.array([name in found for found in lists], bool)
    return Tres(*(np.asarray(values)[codes] for values in (cpu, mem.values, gpu, node, is_bad)))


def counts(text: Sequence[str] | np.ndarray) -> np.ndarray:
    """Plain counts as float64, NaN where a cell is none; `1K` is 1024, as sacct writes it.

    >>> counts(["8", "1K", "", "-1", "inf"]).tolist()
    [8.0, 1024.0, nan, nan, nan]
    """
    codes, kinds = pd.factorize(np.asarray(text, object))
    values = np.full(len(kinds), np.nan)
    for idx, each in enumerate(kinds):
        found = _COUNT.fullmatch(str(each).strip())
        if found:
            values[idx] = float(found[1]) * _FACTORS[found[2]]
    values[values > MAX_NUMBER] = np.nan
    return values[codes]


def requested_gib(text: Sequence[str] | np.ndarray, cores: np.ndarray,
                  nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ReqMem as GiB of a whole job, NaN where it says none, and where a cell is bad. Shapes (n,).

    `4Gc` is of each core, `16Gn` of each node, `32G` of the job (Slurm 21.08 and later); plain numbers are MiB.

    >>> requested_gib(["4Gc", "16Gn", "32G", "2048", "0n", "?"], np.full(6, 2.0), np.full(6, 3.0))[0].tolist()
    [8.0, 48.0, 32.0, 2.0, nan, nan]
    """
    codes, kinds = pd.factorize(np.asarray(text, object))
    plain = [str(each).strip() for each in kinds]
    is_amount = [bool(re.search(r"[0-9]", each)) for each in plain]
    per = np.array([each[-1] if each[-1:] in ("c", "n") else "" for each in plain], object)
    found = sizes_gib([each.rstrip("cn") if is_there else "" for each, is_there in zip(plain, is_amount, strict=True)],
                      unit="MiB")
    is_none = is_missing(plain) | np.array([each in ("?", "n", "c") for each in plain], bool)
    is_bad = found.is_bad | ~(np.array(is_amount, bool) | is_none)
    values = np.where(found.values > 0, found.values, np.nan)[codes]
    factor = np.where(per[codes] == "c", cores, np.where(per[codes] == "n", np.nan_to_num(nodes, nan=1.0), 1.0))
    return values * factor, is_bad[codes]


def _pairs(text: str) -> dict[str, str]:
    """Amounts by name; the name "" where the text is no list of TRES."""
    found: dict[str, str] = {}
    typed = 0.0
    for pair in text.split(",") if text.strip() else ():
        name, is_pair, amount = pair.strip().partition("=")
        if not is_pair:
            return {"": text}
        found[name] = amount
        if name.startswith("gres/gpu:"):
            typed += float(counts([amount])[0])
    if typed and "gres/gpu" not in found:
        found["gres/gpu"] = str(typed)
    return found
