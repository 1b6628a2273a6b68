"""A made usage section: two classes, one request with a wave, one with two."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from sojourn.publishing import publish_files
from sojourn.serving.usage import DayClock, WorkloadClasses, usage_files

DAY_WORKER, FLAT = 4, 7


def made_classes() -> WorkloadClasses:
    """Class 4 uses 0.8 from 9:00 to 18:00 and 0.1 else; class 7 uses 0.5; surplus 0.6 by day for class 4."""
    slot = np.arange(96)
    day = np.where((slot >= 36) & (slot < 72), 0.8, 0.1)
    surplus = np.zeros((2, 3, 8, 24))
    surplus[0, :, :, 9:18] = 0.6
    return WorkloadClasses(np.array([DAY_WORKER, FLAT]), np.stack([day, np.full(96, 0.5)]),
                           np.stack([day / 2, np.full(96, 0.4)]), surplus.reshape(2, -1), np.array([5, 3]))


def made_contents(about: dict[str, object] | None = None, clock: DayClock | None = None) -> dict[str, bytes]:
    """The files of the section."""
    nan = [np.nan] * 5
    waves = np.array([[0.7, 0.1, 86_400.0, 36_000.0, 0.25, *nan, 0.9, 0.2, 86_400.0, 36_000.0, 0.25, *nan],
                      [0.6, 0.2, 86_400.0, 36_000.0, 0.25, 0.1, -0.1, 604_800.0, 0.0, 0.7] * 2])
    return usage_files(clock or DayClock(), 10_800, {"cpu": made_classes(), "mem": made_classes()}, ["vm-1", "vm-2"],
                       waves, about or {})


def made_section(folder: Path, about: dict[str, object] | None = None, clock: DayClock | None = None) -> Path:
    """The folder, with the section published in it."""
    publish_files(folder, made_contents(about, clock), "MANIFEST.json")
    return folder


def rehash(folder: Path) -> None:
    """Make the manifest vouch for what the files hold now."""
    manifest = {"format_version": 3, "sha256": {name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
                                                for name in ("usage.json", "usage.npz")}}
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
