"""Short labels of bundles for printed tables: the last parts of their folders, as many as distinguish them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

import pandas as pd

_BUNDLE = "bundle:"


def short_labels(predictors: Iterable[str]) -> dict[str, str]:
    """Label by predictor, of those that are bundles: `bundle:` and the shortest end of the folder that no other has.

    >>> short_labels(["km", "bundle:/data/a/lifetime", "one-shot:bundle:/data/a/lifetime", "bundle:/data/b/lifetime"])
    {'bundle:/data/a/lifetime': 'bundle:a/lifetime', 'one-shot:bundle:/data/a/lifetime': 'one-shot:bundle:a/lifetime', \
'bundle:/data/b/lifetime': 'bundle:b/lifetime'}
    """
    named = {text: text.partition(_BUNDLE)[::2] for text in predictors if _BUNDLE in text}
    folders = dict.fromkeys(folder for _, folder in named.values())
    ends = {folder: _ends(folder) for folder in folders}
    short = {folder: next((end for end in ends[folder] if sum(end in ends[other] for other in folders) == 1), folder)
             for folder in folders}
    return {text: f"{before}{_BUNDLE}{short[folder]}" for text, (before, folder) in named.items()}


def shortened(summary: pd.DataFrame) -> pd.DataFrame:
    """A comparison's summary with short labels in `predictor` and `label`."""
    short = short_labels(dict.fromkeys(summary["predictor"]))
    labels = [label.replace(predictor, short.get(predictor, predictor)) if predictor else label
              for label, predictor in zip(summary["label"], summary["predictor"], strict=True)]
    return summary.assign(predictor=summary["predictor"].replace(short), label=labels)


def folder_lines(summary: pd.DataFrame) -> list[str]:
    """One line a shortened label: which folder it is."""
    short = short_labels(dict.fromkeys(summary["predictor"]))
    pairs = {label.partition(_BUNDLE)[2]: text.partition(_BUNDLE)[2] for text, label in short.items()}
    return [f"{_BUNDLE}{end} is the folder {folder}" for end, folder in pairs.items() if end != folder]


def _ends(folder: str) -> list[str]:
    """The folder's last part, its last two and so on."""
    parts = PurePath(folder).parts
    return [str(PurePath(*parts[-n:])) for n in range(1, len(parts) + 1)]
