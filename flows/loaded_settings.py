"""Settings read from a TOML file, the environment (SOJOURN_*) and flags; errors name the setting, rule and value."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from sojourn.flows.trace_settings import TraceSettings

_N_SIGNS_MAX = 200
"""Of a value in an error."""
S = TypeVar("S", bound=TraceSettings)


def load_settings(kind: type[S], file: Path | None = None, **flags: Any) -> S:
    """Settings from a TOML file, the environment and flags (None = not given).

    Raises ValueError naming the setting, the rule and the value, and the file if it stands there; of a file that is no
    TOML, the file and the line; of a key that is no setting, those that are spelt like it.
    """
    try:
        return _loaded(kind, file, flags)
    except ValidationError as error:
        unknown = next((each for each in error.errors() if each["type"] == "extra_forbidden"), None)
        if unknown is None:
            if file is None or not _is_of_file(error, kind, flags):
                raise
            raise ValueError(f"{file}: {validation_words(error)}") from None
        name = ".".join(map(str, unknown["loc"]))
        near = get_close_matches(name, kind.model_fields)
        hint = f" (such as {', '.join(near)})" if near else ""
        place = "" if file is None or unknown["loc"][0] in flags else f"{file}: "
        raise ValueError(f"{place}{name[:80]} must be the name of a setting{hint}, got {_shown(unknown['input'])}") \
            from None


def validation_words(error: ValidationError) -> str:
    """The setting, the rule and the value of the first fault; of a value only its begin."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "value_error":  # our own, which names all three
        return str(first["msg"]).removeprefix("Value error, ")
    found = "" if place in ("", "tracking_uri") else f", got {_shown(first.get('input'))}"  # a whole input has secrets
    return f"{place or 'settings'} must be valid: {first['msg']}{found}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _N_SIGNS_MAX else f"{text[:_N_SIGNS_MAX]} ..."


def _is_of_file(error: ValidationError, kind: type[TraceSettings], flags: Mapping[str, Any]) -> bool:
    """Whether the first fault is one setting's, and neither a flag nor a variable gives it."""
    place = error.errors()[0]["loc"]
    name = str(place[0]) if place else ""
    variables = {each.upper() for each in os.environ}
    return name in kind.model_fields and flags.get(name) is None and f"SOJOURN_{name.upper()}" not in variables


def _loaded(kind: type[S], file: Path | None, flags: Mapping[str, Any]) -> S:
    given = {name: value for name, value in flags.items() if value is not None}
    if file is None:
        return kind(**given)
    if not file.is_file():
        raise ValueError(f"the configuration must be a TOML file, got {str(file)!r}")
    from_file = type(kind.__name__, (kind,), {
        "__module__": kind.__module__, "model_config": SettingsConfigDict(toml_file=file)})
    return cast("type[S]", from_file)(**given)
