"""Settings read from a TOML file, the environment (SOJOURN_*) and flags; errors name the setting, rule and value."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from sojourn.flows.trace_settings import TraceSettings

S = TypeVar("S", bound=TraceSettings)


def load_settings(kind: type[S], file: Path | None = None, **flags: Any) -> S:
    """Settings from a TOML file, the environment and flags (None = not given).

    Raises ValueError naming the setting, the rule and the value; of a file that is no TOML, the file and the line; of a
    key that is no setting, those that are spelt like it.
    """
    try:
        return _loaded(kind, file, flags)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"the configuration must be a TOML file, got {str(file)!r}: {error}") from error
    except ValidationError as error:
        unknown = next((each for each in error.errors() if each["type"] == "extra_forbidden"), None)
        if unknown is None:
            raise
        name = ".".join(map(str, unknown["loc"]))
        near = get_close_matches(name, kind.model_fields)
        hint = f" (such as {', '.join(near)})" if near else ""
        raise ValueError(f"{name} must be the name of a setting{hint}, got {unknown['input']!r}") from None


def _loaded(kind: type[S], file: Path | None, flags: Mapping[str, Any]) -> S:
    given = {name: value for name, value in flags.items() if value is not None}
    if file is None:
        return kind(**given)
    if not file.is_file():
        raise ValueError(f"the configuration must be a TOML file, got {str(file)!r}")
    from_file = type(kind.__name__, (kind,), {
        "__module__": kind.__module__, "model_config": SettingsConfigDict(toml_file=file)})
    return cast("type[S]", from_file)(**given)
