"""Which settings the presets read: what is refused beside one, and what help says of it. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sojourn.flows.compare.presets import PRESETS

_OPTION = MappingProxyType({"policies": "policy", "predictors": "predictor", "loads": "load", "seeds": "seed",
                            "starts": "start", "rectifiers": "rectify"})
"""Of a setting, where it has another name."""
_WITHOUT_OPTION = frozenset({"tracking_uri", "test_share"})


def check_reads(given: Mapping[str, Any]) -> None:
    """ValueError for a preset that is not known, and for a setting that its preset does not read.

    given: settings by name, the preset among them if there is one.

    >>> check_reads({"preset": "period-a", "page": "a.html"})
    Traceback (most recent call last):
    ValueError: page must not be given with preset period-a, which reads only store, tracking_uri, trace, reader, \
seeds, got a.html
    """
    name = given.get("preset")
    if name is None:
        return
    if not isinstance(name, str) or name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    reads = PRESETS[name].reads
    for key in given:
        read = "seeds" if key == "n_seeds" else key
        if reads is not None and read not in ("preset", *reads):
            raise ValueError(f"{key} must not be given with preset {name}, which reads only {', '.join(reads)}, got "
                             f"{given[key]}")


def partial_presets() -> list[str]:
    """The presets that read only some options, those that read the same ones together, and these options.

    >>> partial_presets()[2]
    'period-a period-b period-c period-d (--store --trace --reader --seed)'
    """
    by_reads: dict[tuple[str, ...], list[str]] = {}
    for name, preset in PRESETS.items():
        if preset.reads is not None:
            by_reads.setdefault(preset.reads, []).append(name)
    return [f"{' '.join(names)} ({' '.join(_option(key) for key in reads if key not in _WITHOUT_OPTION)})"
            for reads, names in by_reads.items()]


def _option(setting: str) -> str:
    return "--" + _OPTION.get(setting, setting).replace("_", "-")
