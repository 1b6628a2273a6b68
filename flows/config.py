"""Settings of a run, with defaults; from flags, the environment (SOJOURN_*) or a TOML file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from sojourn.flows.dask_address import possible_dask
from sojourn.flows.mapped_reader import maps_columns, takes_timezone
from sojourn.flows.own_recipe import own_recipe
from sojourn.flows.simulated_hosts import check_shape
from sojourn.flows.since import Since
from sojourn.flows.stage_settings import (
    GateSettings,
    IngestSettings,
    JudgeSettings,
    LogSettings,
    PlacementSettings,
    PromoteSettings,
    RetentionSettings,
    TrainSettings,
)
from sojourn.flows.trace_source import ColumnOptions, TraceSource
from sojourn.flows.tracking_uri import TrackingUri

MODEL_NAME = "sojourn-lifetime"


def _trained() -> tuple[str, ...]:
    from sojourn.models.lifetime import TRAINED  # only a run's settings load the families: `pull` needs none of them

    return TRAINED


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
    """When observation ended, seconds on the trace's clock; default: what the reader finds in the file."""
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
        if "://" not in value.plain:  # not shown: it may be a password alone
            raise ValueError("tracking_uri must be a URI such as http://HOST:PORT or postgresql://HOST/DATABASE, "
                             f"got {len(value.plain)} characters without ://")
        if value.is_file and value.database is None:
            raise ValueError("tracking_uri of an SQLite file must be sqlite:///PATH without a user or a query, "
                             f"got {value}")
        if value.is_postgres and value.plain.partition("?")[0].count("@") > 1:
            raise ValueError("tracking_uri of a database must have one @, before the host: write an @ of the password "
                             "as %40, else its driver takes a part of the password for the host and shows it")
        return value

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
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))


class SharedSettings(TraceSettings):
    """Of work that can be shared out to a cluster."""

    dask: str | None = None
    """A Dask cluster for the work that can be shared out: `local`, `local:N` processes here, or a scheduler's address
    (`tcp://HOST:PORT`) whose workers see the store under the same path."""

    @field_validator("dask")
    @classmethod
    def _possible_dask(cls, value: str | None) -> str | None:
        return possible_dask(value) if value else None


class RetrainConfig(SharedSettings):
    """One retraining run."""

    since: str | None = None
    """Train on requests from then on: `90d` or `12h` before the trace's end, or an ISO date; default: on all."""
    is_shrunk_allowed: bool = False
    """A source that grows may hold less than when it was last read."""
    is_again: bool = False
    """Train even if a finished run of the same trace, code and settings stands."""
    n_requests: int = Field(100_000, ge=1_000)
    """Requests of the synthetic trace."""
    seed: int = Field(0, ge=0)
    """Of all random numbers."""
    families: tuple[str, ...] = Field(default_factory=_trained)
    """Lifetime families to train (`sojourn evaluate --help` lists them); those that are always trained are among
    them."""
    max_requests: int = Field(1_000_000, ge=10_000)
    """Of a trace that is kept in parts, at most this many requests are trained and judged on: all requests of some
    owners."""
    test_share: float = Field(0.3, gt=0.0, lt=1.0)
    """Of the requests, by the time of their decision: the last ones judge."""
    valid_share: float = Field(0.15, gt=0.0, lt=1.0)
    """Of the requests: those before them choose the family."""
    long_lived_s: int | None = Field(None, ge=60)
    """What counts as long-lived, seconds; default: chosen from the training window."""
    n_draws: int = Field(200, ge=0)
    """Draws of owners for a study's intervals; 0 = none."""
    n_threads: int = Field(2, ge=1)
    """Threads of LightGBM; the result does not depend on it."""
    n_fit_workers: int = Field(1, ge=1, le=64)
    """Workers of the Dask cluster on which LightGBM grows each forest together; 1 = in this process. The trees differ
    a little with it."""
    recipe: str | None = None
    """Recipe of the simulated workload (`sojourn compare --help` lists them); default: the reader's own where
    that draws requests, else `trace`, the later part."""
    host_cpu_cores: float | None = Field(None, gt=0.0)
    """Of each simulated host, with `host_mem_gib`; default: chosen from the trace."""
    host_mem_gib: float | None = Field(None, gt=0.0)
    """Of each simulated host, with `host_cpu_cores`, GiB; default: chosen from the trace."""
    load: float = Field(0.8, gt=0.0, le=1.0)
    """Whole-trace peak of the binding resource over capacity; fixes the number of hosts."""
    is_cleaned: bool = False
    """Whether a run that ended well cleans the store; see `keep_runs`."""
    is_system_logged: bool = False
    """Whether MLflow logs what the machine does while the run lasts (CPU, memory, disk, network), each 10 s."""
    is_simulated: bool = True
    """Whether placements are replayed; without that, no version becomes champion."""
    n_replicas: int = Field(5, ge=1)
    """Slightly moved copies of the workload that every policy is replayed on."""
    max_replicas: int = Field(20, ge=1)
    """Gate: what is judged is replayed on more copies, up to this many in all, where too few can tell."""
    model_name: str | None = None
    """Registered model; default: `sojourn-lifetime`, and `sojourn-lifetime-FILE` for a trace file."""
    max_bundle_mb: float = Field(5.0, gt=0.0)
    """Gate: the bundle's forest may not be larger, MB."""
    confirmed_columns: tuple[str, ...] = ()
    """Gate: columns that are known when a request is created, however much of the model rests on them."""
    max_curve_ratio: float = Field(1.0, gt=0.0)
    """Gate: the time to build one request's curve, as a share of LightGBM's own `predict` of the same answers."""

    @model_validator(mode="after")
    def _whole_shape(self) -> RetrainConfig:
        check_shape(self.host_cpu_cores, self.host_mem_gib)
        return self

    @field_validator("since")
    @classmethod
    def _possible_since(cls, value: str | None) -> str | None:
        if value is not None:
            Since.parse(value)
        return value

    @field_validator("families")
    @classmethod
    def _known_families(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from sojourn.models.lifetime import ALWAYS_TRAINED, LIFETIME_MODELS

        strangers = [name for name in value if name not in LIFETIME_MODELS]
        if strangers:
            raise ValueError(f"families must be among {', '.join(LIFETIME_MODELS)}, got {strangers[0]!r}")
        return tuple(name for name in LIFETIME_MODELS if name in value or name in ALWAYS_TRAINED)

    @property
    def registered_name(self) -> str:
        """The registered model's name."""
        if self.model_name:
            return self.model_name
        if self.trace is None:
            return MODEL_NAME
        slug = re.sub(r"[^a-z0-9]+", "-", self.trace.name.lower()).strip("-")
        return f"{MODEL_NAME}-{slug}"

    @property
    def source(self) -> TraceSource:
        """Where the trace comes from."""
        return TraceSource(self.trace, self.reader, self.horizon_s, self.n_requests, self.seed, self.is_shrunk_allowed,
                           self.columns)

    @property
    def ingestion(self) -> IngestSettings:
        """Of the stage `ingest`."""
        return IngestSettings(self.store, self.source)

    @property
    def training(self) -> TrainSettings:
        """Of the stage `train`."""
        return TrainSettings(self.families, self.test_share, self.valid_share, self.long_lived_s, self.n_threads,
                             self.seed, self.since)

    @property
    def placement(self) -> PlacementSettings:
        """Of the placement simulation."""
        return PlacementSettings(self.recipe or self.own_recipe, self.host_cpu_cores, self.host_mem_gib, self.load,
                                 self.seed, self.n_replicas, self.max_replicas)

    @property
    def judging(self) -> JudgeSettings:
        """Of the stage `judge`."""
        return JudgeSettings(self.placement if self.is_simulated else None)

    @property
    def gates(self) -> GateSettings:
        """Of the gates of promotion."""
        return GateSettings(self.max_bundle_mb, self.max_curve_ratio, self.confirmed_columns, self.seed)

    @property
    def promotion(self) -> PromoteSettings:
        """Of the stage `promote`."""
        return PromoteSettings(self.store, self.registered_name)

    @property
    def logging(self) -> LogSettings:
        """Of the run's log."""
        return LogSettings(self.store, self.source, self.resolved(), self.test_share, self.seed, self.n_threads)

    def resolved(self) -> dict[str, Any]:
        """All settings as JSON values, for the run's log."""
        return {**self.model_dump(mode="json"), "model_name": self.registered_name}


def possible_store(folder: Path) -> Path:
    """The folder; ValueError where the URI of a database in it would end at a question mark.

    >>> possible_store(Path("/data/a#b 100%"))
    PosixPath('/data/a#b 100%')
    """
    if "?" in str(folder.absolute()):
        raise ValueError(f"store must be a path without a question mark, got {str(folder.absolute())!r}")
    return folder


S = TypeVar("S", bound=TraceSettings)


def load_config(file: Path | None = None, **flags: Any) -> RetrainConfig:
    """The configuration of a run from a TOML file, the environment and flags (None = not given)."""
    return load_settings(RetrainConfig, file, **flags)


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
