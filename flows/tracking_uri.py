"""Where MLflow keeps runs and models: a URI whose user name, password and tokens show nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote

from pydantic import Secret

_SQLITE = "sqlite:///"
_POSTGRES = re.compile(r"postgres(?:ql)?(?:\+psycopg)?(?=://)", re.IGNORECASE)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_USER_INFO = re.compile(r"(?<=://)(?P<user>[^:/?#@\s]*)(?::(?P<password>\S*))?@")
"""A password is all up to the last @, also where it should have been percent-encoded."""
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
        return without_secrets(self.get_secret_value())

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
        return self.plain.startswith(("http://", "https://"))

    @property
    def is_postgres(self) -> bool:
        """Whether PostgreSQL is meant, through psycopg 3."""
        return _POSTGRES.match(self.plain) is not None

    @property
    def with_driver(self) -> str:
        """The plain URI as SQLAlchemy reads it: of PostgreSQL with its driver, so that nobody has to name that.

        >>> TrackingUri("postgres://db.example/mlflow").with_driver
        'postgresql+psycopg://db.example/mlflow'
        """
        return _POSTGRES.sub("postgresql+psycopg", self.plain, count=1) if self.is_postgres else self.plain

    def public(self, text: str) -> str:
        """The text without this URI's secrets, as they stand in the URI or decoded, and without those of any other.

        >>> TrackingUri("http://me:s%40cret@host").public("401 for 's@cret' at http://me:s%40cret@host/api")
        "401 for '***' at http://host/api"
        """
        text = without_secrets(text.replace(self.plain, str(self)).replace(self.with_driver, str(self)))
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _secrets(self) -> set[str]:
        found = _USER_INFO.search(self.plain)
        written = [] if found is None else [found["password"] or found["user"]]
        written += [value for _, value in _VALUE.findall(self.plain)]
        forms = {form for each in written for form in (each, unquote(each), quote(unquote(each), safe=""))}
        return {form for form in forms if len(form) >= _SHORTEST and self.database is None}


def without_secrets(text: str) -> str:
    """The text with user names, passwords and the values of queries left out of its URIs.

    >>> without_secrets("no answer at http://me:secret@host/path, see sqlite:////data/mlflow.db")
    'no answer at http://host/path, see sqlite:////data/mlflow.db'
    """
    return _URI.sub(lambda found: _VALUE.sub(r"\1***", _USER_INFO.sub("", found[0])), text)
