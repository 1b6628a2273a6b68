"""Settings of a store and a trace, which every command shares; from flags, the environment or a TOML file."""

from __future__ import annotations

from collections.abc import Collection
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from sojourn.flows.dask_address import possible_dask
from sojourn.flows.mapped_reader import maps_columns, takes_timezone
from sojourn.flows.own_recipe import own_recipe
from sojourn.flows.stage_settings import RetentionSettings
from sojourn.flows.trace_source import ColumnOptions
from sojourn.flows.tracking_uri import TrackingUri, possible_uri
from sojourn.inflated import toml_of

MOST_SEED, MOST_WORKERS = 2**31 - 1, 1_024
"""LightGBM takes seeds of 32 bits."""


class _TomlFile(TomlConfigSettingsSource):
    """A TOML file, read under the bound of all files."""

    def _read_file(self, file_path: Path | Traversable) -> dict[str, Any]:
        return toml_of(Path(str(file_path)))


class TraceSettings(BaseSettings):
    """A store and a trace. Unknown keys are refused; flags win over the environment, that over the TOML file."""

    model_config = SettingsConfigDict(env_prefix="SOJOURN_", extra="forbid", frozen=True, hide_input_in_errors=True)

    store: Path = Path(".sojourn")
    """Folder of all stores: traces, features, bundles, MLflow's database and artifacts."""
    tracking_uri: TrackingUri | None = None
    """MLflow's store: a server (http, https) or a database; default: an SQLite file in `store`."""
    tracking_wait_s: float = Field(300.0, ge=0.0, le=86_400.0)
    """How long a run waits for a tracking server or database that goes away while it runs, s."""
    artifacts: str | None = None
    """Folder or URL for what runs and versions keep, with a database; default: `artifacts` in `store`. A tracking
    server keeps them itself."""
    keep_runs: int = Field(10, ge=1)
    """Cleaning: of each model and kind of run so many of the newest keep their artifacts."""
    keep_days: float = Field(0.0, ge=0.0)
    """Cleaning: so do runs that ended within so many days."""
    keep_caches: int = Field(1, ge=0)
    """Cleaning: of each kind of cache so many of the newest entries stay."""
    keep_parts_days: float = Field(90.0, ge=0.0)
    """Cleaning: what was read of a growing source stays if it was last read within so many days."""
    trace: Path | None = None
    """The trace's file or folder; default: the synthetic trace."""
    reader: str = "synthetic"
    """A reader's name, or `synthetic`."""
    horizon_s: int | None = Field(None, ge=1)
    """When observation ended: seconds after the trace's begin, or a Unix second if it has dates; default: found in the
    file."""
    column_map: tuple[str, ...] = ()
    """Of a reader that maps columns: what they are, `OURS=THEIRS` each; replaces what `map_file` says."""
    map_file: Path | None = None
    """Of a reader that maps columns: TOML file that says what they are; default: the one beside the table."""
    trace_timezone: str | None = None
    """Of the readers csv and slurm: IANA name, of times without a zone; default: UTC."""

    @field_validator("reader")
    @classmethod
    def _known_reader(cls, value: str, info: ValidationInfo) -> str:
        if value != "synthetic":  # the default must not load what reads traces: `pull` needs none of it
            known = cls._readers()
            if value not in known:
                raise ValueError(f"reader must be one of {', '.join(('synthetic', *known))}, got {value!r}")
        trace = info.data.get("trace")
        if value == "synthetic" and trace is not None:
            raise ValueError(f"reader must be given with a trace file: give --reader NAME, got trace {str(trace)!r} "
                             "without one")
        if value != "synthetic" and trace is None:
            raise ValueError(f"trace must be given with a reader: give --trace PATH, got reader {value!r} without one")
        return value

    @classmethod
    def _readers(cls) -> Collection[str]:
        """Names of the readers of files."""
        from sojourn.features.readers import READERS

        return READERS

    @field_validator("horizon_s")
    @classmethod
    def _horizon_of_a_file(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("trace") is None:
            raise ValueError(f"horizon_s must be given with a trace file, got {value!r} for the synthetic trace")
        return value

    @field_validator("column_map", "map_file", "trace_timezone")
    @classmethod
    def _columns_of_a_table(cls, value: Any, info: ValidationInfo) -> Any:
        if not value:
            return value
        reader = info.data.get("reader", "synthetic")
        is_zone = info.field_name == "trace_timezone"
        if is_zone and not takes_timezone(reader):
            raise ValueError(f"{info.field_name} must be given with a reader of times without a zone, such as csv or "
                             f"slurm, got reader {reader!r}")
        if not is_zone and not maps_columns(reader):
            raise ValueError(f"{info.field_name} must be given with a reader that maps columns, such as csv, got "
                             f"reader {reader!r}")
        if info.field_name == "column_map":
            from sojourn.features.readers import check_pairs

            check_pairs(value)
        elif info.field_name == "map_file" and not value.is_file():
            raise ValueError(f"map_file must be a TOML file, got {str(value)!r}")
        elif is_zone:
            from sojourn.features.readers import checked_timezone

            checked_timezone(value)
        return value

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
    def own_recipe(self) -> str:
        """The simulator's recipe that suits the reader's traces."""
        return own_recipe(self.reader)

    @property
    def columns(self) -> ColumnOptions:
        """How a table's columns are read."""
        return ColumnOptions(self.column_map, self.map_file, self.trace_timezone)

    @property
    def reading(self) -> dict[str, Any]:
        """The keywords of the reader."""
        return {"horizon_s": self.horizon_s, **self.columns.keywords()}

    @property
    def retention(self) -> RetentionSettings:
        """Of a cleaning."""
        return RetentionSettings(self.keep_runs, self.keep_days, self.keep_caches, self.keep_parts_days)

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


class SharedSettings(TraceSettings):
    """Of work that can be shared out to a cluster."""

    dask: str | None = None
    """A Dask cluster for the work that can be shared out: `local`, `local:N` processes here, or a scheduler's address
    (`tcp://HOST:PORT`) whose workers see the store under the same path."""

    @field_validator("dask")
    @classmethod
    def _possible_dask(cls, value: str | None) -> str | None:
        return possible_dask(value) if value else None


def possible_store(folder: Path) -> Path:
    """The folder; ValueError where the URI of a database in it would end at a question mark.

    >>> possible_store(Path("/data/a#b 100%"))
    PosixPath('/data/a#b 100%')
    """
    if "?" in str(folder.absolute()):
        raise ValueError(f"store must be a path without a question mark, got {str(folder.absolute())!r}")
    return folder
