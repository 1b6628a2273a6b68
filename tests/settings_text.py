"""The settings as the docs and the example files show them, made from the classes that read them."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from sojourn.flows.trace_settings import TraceSettings

WIDTH = 110
CORES = "as many as there are cores"
_OF_THE_MACHINE = ("n_workers",)
EXAMPLES: Mapping[str, Any] = {
    "trace": "jobs.swf.gz", "reader": "swf", "tracking_uri": "http://127.0.0.1:5000", "artifacts": "s3://bucket/runs",
    "horizon_s": 2_419_200, "column_map": ["arrival=start", "departure=end"], "map_file": "jobs.csv.toml",
    "trace_timezone": "Europe/Berlin", "dask": "local:2", "since": "90d", "long_lived_s": 43_200, "recipe": "trace",
    "host_cpu_cores": 32.0, "host_mem_gib": 128.0, "model_name": "batch-jobs", "confirmed_columns": ["queue"],
    "preset": "load-sweep", "batch_trace": "batch_task.csv", "n_seeds": 10, "starts": ["warm"],
    "rectifiers": ["pdre:5"],
    "test": "jobs-later.swf.gz", "test_reader": "swf", "test_offset_s": 2_419_200,
    "price_per_host_hour": 1.2, "page": "compare.html", "n_workers": 2,
}  # fmt: skip
"""Values for settings that have none."""
_TOLD = re.compile(r"[;.]? [Dd]efault: (?P<value>[^.]+)\.$")


def described(kind: type[TraceSettings]) -> dict[str, str]:
    """What the class itself says of each of its own settings, in the order in which they stand."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            is_said = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            found[field.target.id] = " ".join(str(text.value.value).split()) if is_said else ""  # type: ignore[union-attr]
    return found


def all_described(kind: type[TraceSettings]) -> dict[str, str]:
    """The same with what it inherits, which comes first."""
    kinds = [each for each in reversed(kind.__mro__) if issubclass(each, TraceSettings)]
    return {name: text for each in kinds for name, text in described(each).items()}


def default_of(kind: type[TraceSettings], name: str) -> Any:
    """The default as a value of TOML; None where there is none."""
    if name in _OF_THE_MACHINE:
        return None
    value = kind.model_fields[name].get_default(call_default_factory=True)
    if value in (None, PydanticUndefined, (), {}):
        return None
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


def rows(kind: type[TraceSettings]) -> Iterator[tuple[str, str, str]]:
    """Of a class's own settings: name, default, meaning, as cells of a Markdown table."""
    for name, text in described(kind).items():
        value = default_of(kind, name)
        default = "" if value is None else f"`{_toml(value)}`"
        if name in _OF_THE_MACHINE:
            default = CORES
        elif kind.model_fields[name].is_required():
            default = "required"
        told = _TOLD.search(text)
        if default == "" and told is not None:
            default, text = told["value"], f"{text[:told.start()]}."
        yield f"`{name}`", default, text.replace("|", "\\|")


def example(kind: type[TraceSettings], command: str) -> str:
    """A TOML file that says all settings and sets none of them: each stands in a comment, with its default."""
    lines = [f"# Settings of `sojourn {command} --config FILE`: take the # off a line to set it. Every line holds the",
             "# default, but for those marked `not set`, which hold an example. Made by `make tables`."]
    for name, text in all_described(kind).items():
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
