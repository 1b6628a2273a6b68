"""The settings as the docs and the example files show them, made from the classes that read them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from sojourn.flows.commands.options import with_default, with_names
from sojourn.flows.settings.store import StoreSettings

WIDTH = 110
CORES = "as many as there are cores"
_OF_THE_MACHINE = ("n_workers",)
EXAMPLES: Mapping[str, Any] = {
    "trace": "jobs.swf.gz", "reader": "swf", "tracking_uri": "http://127.0.0.1:5000", "artifacts": "s3://bucket/runs",
    "horizon_s": 2_419_200, "column_map": ["arrival=start", "departure=end"], "map_file": "jobs.csv.toml",
    "timezone": "Europe/Berlin", "dask": "local:2", "since": "90d", "long_lived_s": 43_200, "recipe": "trace",
    "host_cpu_cores": 32.0, "host_mem_gib": 128.0, "model_name": "batch-jobs", "confirmed_columns": ["queue"],
    "preset": "load-sweep", "batch_trace": "batch_task.csv", "n_seeds": 10, "starts": ["warm"],
    "rectifiers": ["pdre:5"],
    "test": "jobs-later.swf.gz", "test_reader": "swf", "test_offset_s": 2_419_200,
    "price_per_host_hour": 1.2, "page": "gain.html", "picture": "gain.png", "n_workers": 2, "processors": 1_152,
    "queues": ["high:2", "debug:3:64"],
}  # fmt: skip
"""Values for settings that have none."""


def described(kind: type[StoreSettings], besides: type[StoreSettings] | None = None) -> dict[str, str]:
    """What each setting says of itself, in the order in which they stand; without those of another class."""
    known = set() if besides is None else set(besides.model_fields)
    return {name: with_names(" ".join((field.description or "").split())) for name, field in kind.model_fields.items()
            if name not in known}


def default_of(kind: type[StoreSettings], name: str) -> Any:
    """The default as a value of TOML; None where there is none."""
    if name in _OF_THE_MACHINE:
        return None
    value = kind.model_fields[name].get_default(call_default_factory=True)
    if value in (None, PydanticUndefined, (), {}):
        return None
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


def rows(kind: type[StoreSettings], besides: type[StoreSettings] | None = None) -> Iterator[tuple[str, str, str]]:
    """Of the settings that another class has not: name, default, meaning, as cells of a Markdown table."""
    for name, text in described(kind, besides).items():
        value = default_of(kind, name)
        default = "" if value is None else f"`{_toml(value)}`"
        if name in _OF_THE_MACHINE:
            default = CORES
        elif kind.model_fields[name].is_required():
            default = "required"
        text, words = with_default(text)
        yield f"`{name}`", default or words or "", text.replace("|", "\\|")


def example(kind: type[StoreSettings], command: str) -> str:
    """A TOML file that says all settings and sets none of them: each stands in a comment, with its default."""
    lines = [f"# Settings of `sojourn {command} --config FILE`: take the # off a line to set it. Every line holds the",
             "# default, but for those marked `not set`, which hold an example. Made by `make tables`."]
    for name, text in described(kind).items():
        value = default_of(kind, name)
        lines += ["", *textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")]
        if name == "reader" or value is None:
            lines.append(f"#{name} = {_toml(EXAMPLES[name])}  # not set")
        else:
            lines.append(f"#{name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A value as TOML writes it, which for these is as JSON does.

    >>> _toml(["a", 0.5]), _toml(True), _toml(100_000)
    ('["a", 0.5]', 'true', '100_000')
    """
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else json.dumps(value)
