"""Settings of a store, which every command has; and how settings are read from flags, the environment (SOJOURN_*) and
a TOML file. Errors name the setting, the rule and the value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from sojourn.flows.settings.tracking_uri import TrackingUri, possible_uri
from sojourn.inflated import toml_of

MOST_SEED, MOST_WORKERS = 2**31 - 1, 1_024
"""LightGBM takes seeds of 32 bits."""
_N_SIGNS_MAX = 200
"""Of a value in an error."""


G = TypeVar("G", bound="Group")


class _TomlFile(TomlConfigSettingsSource):
    """A TOML file, read under the bound of all files."""

    def _read_file(self, file_path: Path | Traversable) -> dict[str, Any]:
        return toml_of(Path(str(file_path)))


class Group(BaseModel):
    """Settings that belong together: a job's settings inherit them, and a stage is given the job's as its group."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)

    def group(self, kind: type[G]) -> G:
        """The fields of one group alone, for what is sent to another process or kept under a key."""
        return kind(**{name: getattr(self, name) for name in kind.model_fields})


class StoreSettings(Group, BaseSettings):
    """A store. Unknown keys are refused; flags win over the environment, that over the TOML file."""

    model_config = SettingsConfigDict(env_prefix="SOJOURN_")

    store: Path = Path(".sojourn")
    """Folder of all stores: traces, features, bundles, MLflow's database and artifacts."""
    tracking_uri: TrackingUri | None = None
    """MLflow's store: a server (http, https) or an SQLite file; default: an SQLite file in `store`."""
    artifacts: str | None = None
    """Folder or URL for what runs and versions keep, with an SQLite file; default: `artifacts` in `store`. A tracking
    server keeps them itself."""

    @field_validator("store")
    @classmethod
    def _possible_store(cls, value: Path) -> Path:
        return possible_store(value)

    @field_validator("tracking_uri")
    @classmethod
    def _possible_uri(cls, value: TrackingUri | None) -> TrackingUri | None:
        if value is None or not value.plain:
            return None
        return possible_uri(value)

    @field_validator("artifacts")
    @classmethod
    def _possible_artifacts(cls, value: str | None, info: ValidationInfo) -> str | None:
        if not value:
            return None
        tracking = info.data.get("tracking_uri")
        if tracking is not None and tracking.is_server:
            raise ValueError("artifacts must not be given with a tracking server, which keeps them itself, got "
                             f"{tracking}")
        if "://" not in value:
            return Path(value).absolute().as_uri()
        place = urlsplit(value)
        if "@" in place.netloc or place.query or place.fragment or "::" in value:
            # not shown: it may hold a password, and MLflow keeps the URL in its database
            raise ValueError("artifacts must be a folder or a URL without user, password, query or chain (credentials "
                             f"are given in the environment), got one of {place.scheme} with more")
        return value.rstrip("/") if place.path.strip("/") else value

    @property
    def mlflow_uri(self) -> TrackingUri:
        """MLflow's tracking and registry store."""
        return self.tracking_uri or TrackingUri.of_file(self.store / "mlflow.db")

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource, dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:  # fmt: skip
        return (init_settings, env_settings, _TomlFile(settings_cls))


class RetentionSettings(StoreSettings):
    """A store, and what a cleaning of it keeps."""

    keep_runs: int = Field(10, ge=1)
    """Of each model and kind of run so many of the newest keep their artifacts."""
    keep_days: float = Field(0.0, ge=0.0)
    """So do runs that ended within so many days."""
    keep_caches: int = Field(1, ge=0)
    """Of each kind of cache so many of the newest entries stay."""
    keep_parts_days: float = Field(90.0, ge=0.0)
    """What was read of a growing source stays if it was last read within so many days."""


def possible_store(folder: Path) -> Path:
    """The folder; ValueError where the URI of a database in it would end at a question mark.

    >>> possible_store(Path("/data/a#b 100%"))
    PosixPath('/data/a#b 100%')
    """
    if "?" in str(folder.absolute()):
        raise ValueError(f"store must be a path without a question mark, got {str(folder.absolute())!r}")
    return folder


def load_settings(kind: type[G], file: Path | None = None, **flags: Any) -> G:
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


def _is_of_file(error: ValidationError, kind: type[Group], flags: Mapping[str, Any]) -> bool:
    """Whether the first fault is one setting's, and neither a flag nor a variable gives it."""
    place = error.errors()[0]["loc"]
    name = str(place[0]) if place else ""
    variables = {each.upper() for each in os.environ}
    return name in kind.model_fields and flags.get(name) is None and f"SOJOURN_{name.upper()}" not in variables


def _loaded(kind: type[G], file: Path | None, flags: Mapping[str, Any]) -> G:
    given = {name: value for name, value in flags.items() if value is not None}
    if file is None:
        return kind(**given)
    if not file.is_file():
        raise ValueError(f"the configuration must be a TOML file, got {str(file)!r}")
    from_file = type(kind.__name__, (kind,), {
        "__module__": kind.__module__, "model_config": SettingsConfigDict(toml_file=file)})
    return cast("type[G]", from_file)(**given)
