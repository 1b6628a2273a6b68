"""Settings of a store, which every command has; and how settings are read from flags, the environment (SOJOURN_*) and
a TOML file. Errors name the setting, the rule and the value; what a tracking URI holds of secrets shows nowhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote, unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, Secret, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from sojourn.inflated import toml_of

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}")
SERVERS = ("http", "https")
_SQLITE = "sqlite:///"
_PLACE = r"(?:[^\s:/?#@\[\],]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_SERVER_FORM = re.compile(rf"(?:[^\s/?#]*@)?{_PLACE}(?:[/?#][^\s@]*)?")
"""What may follow `SCHEME://`: what MLflow and requests split in the same way."""
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>\S+)")
_OF_FILES = re.compile(r"(?:sqlite(?:\+\w+)?|file)", re.IGNORECASE)
_EXAMPLE = re.compile(r"(?:USER:PASSWORD@)?HOST(?::PORT|/DATABASE)?\W*")
"""In a message that says how a URI is written."""
_NO_PORT = re.compile(r"\A(?P<name>(?:[^:/?#\[\]]*|\[[^\]]*\]):)"
                      r"(?!\W*\Z|[0-9]{1,5}(?:[/?#)\]}>'\",;]|\W*\Z)).*", re.DOTALL)
"""`NAME:WORD` where a host and its port should stand, and WORD is no port: a password whose `@HOST` is missing."""
_SHORTEST = 4
"""A secret of fewer characters is left out of URIs, but not looked for in other text, which it would maim."""
_VALUE = re.compile(r"([?&][^=&\s]*=)([^&\s'\"),;\]}>]+)")


class TrackingUri(Secret[str]):
    """MLflow's tracking and registry store. Text and JSON of it leave out what a URI may hold of secrets.

    >>> print(TrackingUri("http://me:secret@host:5000/path?token=abc"))
    http://host:5000/path?token=***
    >>> print(TrackingUri.of_file(Path("/data/mlflow.db")))
    sqlite:////data/mlflow.db
    """

    @classmethod
    def of_file(cls, database: Path) -> TrackingUri:
        """The URI of an SQLite file."""
        return cls(f"{_SQLITE}{database.absolute()}")

    def _display(self) -> str:
        scheme, mark, rest = self.plain.partition("://")
        if not mark or not _SCHEME.fullmatch(scheme):
            return "***"  # it may be a password alone
        return f"{scheme}://{_public_rest(scheme, rest)}"

    @property
    def plain(self) -> str:
        """The URI with its secrets, for MLflow alone."""
        return self.get_secret_value()

    @property
    def is_file(self) -> bool:
        """Whether SQLite is meant, by whichever of its drivers."""
        return re.match(r"sqlite[+:]", self.plain, re.IGNORECASE) is not None

    @property
    def database(self) -> Path | None:
        """The SQLite file; None for another store, and for what more than a path would name.

        A path may not hold a secret: it is shown, and files are named after it.
        """
        path = self.plain.removeprefix(_SQLITE)
        return Path(path) if path and path != self.plain and "?" not in path else None

    @property
    def is_server(self) -> bool:
        """Whether a tracking server answers there, which keeps the artifacts, too."""
        return self.plain.partition("://")[0] in SERVERS

    def public(self, text: str) -> str:
        """The text without this URI's secrets, as they stand in the URI or decoded, and without those of any other.

        >>> TrackingUri("http://me:s%40cret@host").public("401 for 's@cret' at http://me:s%40cret@host/api")
        "401 for '***' at http://host/api"
        """
        text = without_secrets(text.replace(self.plain, str(self)))
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _secrets(self) -> set[str]:
        user, _, password = self.plain.partition("://")[2].rpartition("@")[0].partition(":")
        written = [password or user] if password or user else []
        written += [value for _, value in _VALUE.findall(self.plain)]
        forms = {form for each in written for form in (each, unquote(each), quote(unquote(each), safe=""))}
        return {form for form in forms if len(form) >= _SHORTEST and self.database is None}


def possible_uri(uri: TrackingUri) -> TrackingUri:
    """The URI of a server or an SQLite file; ValueError, which shows nothing of it but its scheme, for any other text.

    What libraries would split differently is refused: they would take a part of the password for the host, and show it.

    >>> possible_uri(TrackingUri("postgresql://me:secret@host/mlflow"))
    Traceback (most recent call last):
    ValueError: tracking_uri must be http://HOST:PORT of an MLflow server or sqlite:///PATH, got postgresql://; put an \
    MLflow server in front of another database
    """
    scheme, mark, rest = uri.plain.partition("://")
    if uri.is_file:
        if uri.database is None:
            raise ValueError("tracking_uri of an SQLite file must be sqlite:///PATH without a user "
                             f"or a query, got {uri}")
        return uri
    if not uri.is_server:
        got = f"{scheme}://" if mark and _SCHEME.fullmatch(scheme) else "another beginning"  # maybe a password alone
        raise ValueError("tracking_uri must be http://HOST:PORT of an MLflow server or sqlite:///PATH, "
                         f"got {got}; put an MLflow server in front of another database")
    if not _SERVER_FORM.fullmatch(rest):
        raise ValueError("tracking_uri must be SCHEME://USER:PASSWORD@HOST:PORT/..., with a number "
                         "as PORT and with each @, /, ? and space of USER and PASSWORD written "
                         f"%40, %2F, %3F and %20, got another form of {scheme} (not shown, since it "
                         "may hold a password; is @HOST missing?)")
    return uri


def without_secrets(text: str) -> str:
    """The text with user names, passwords and the values of queries left out of its URIs.

    All up to the last @ of a URI is left out, and a word in place of its port, as if `@HOST` had been forgotten. A
    password of digits alone cannot be told from a port then.

    >>> without_secrets("no answer at http://me:secret@host/path, see sqlite:////data/mlflow.db")
    'no answer at http://host/path, see sqlite:////data/mlflow.db'
    >>> without_secrets("no answer at postgresql://me:se/cret, nor at tcp://10.0.0.1:8786")
    'no answer at postgresql://me:*** nor at tcp://10.0.0.1:8786'
    """
    return _URI.sub(lambda found: f"{found['scheme']}://{_public_rest(found['scheme'], found['rest'])}", text)


def _public_rest(scheme: str, rest: str) -> str:
    """What follows the `://` of a URI, without its secrets."""
    if not (rest.startswith("/") and _OF_FILES.fullmatch(scheme)) and not _EXAMPLE.fullmatch(rest):
        rest = _NO_PORT.sub(r"\g<name>***", rest.rpartition("@")[2])
    return _VALUE.sub(r"\1***", rest)


MOST_SEED, MOST_WORKERS = 2**31 - 1, 1_024
"""LightGBM takes seeds of 32 bits."""
_N_SIGNS_MAX = 200
"""Of a value in an error."""


G = TypeVar("G", bound="Group")
V = TypeVar("V")


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


def one_of(name: str, value: str, known: Iterable[str]) -> str:
    """The value of a setting; ValueError that lists the known ones if it is none of them."""
    names = list(known)
    if value not in names:
        raise ValueError(f"{name} must be one of {', '.join(names)}, got {value!r}")
    return value


def distinct(name: str, values: tuple[V, ...], is_possible: Callable[[V], bool], rule: str) -> tuple[V, ...]:
    """The values of a setting, each once; ValueError if there are none, or for the first that is not possible."""
    bad = [value for value in values if not is_possible(value)]
    if bad or not values:
        raise ValueError(f"{name} must be {rule}, got {bad[0] if bad else 'none'!r}")
    return tuple(dict.fromkeys(values))


def own_folder(out: Path, command: str, is_own: Callable[[str], bool]) -> Path:
    """The folder; ValueError if it holds something that the command does not write, which replaces its own files.

    is_own: whether the command, or a run of it that was killed, left an entry of that name.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"out must be a folder, got the file {str(out)!r}")
    odd = [path.name for path in sorted(out.iterdir()) if not is_own(path.name)] if out.is_dir() else []
    if odd:
        raise ValueError(f"out must be new, empty or a folder of `{command}`, got something else in {str(out)!r}: "
                         f"{odd[0]!r}")
    return out


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
