"""Where MLflow keeps runs and models: a URI whose user name, password and tokens show nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote

from pydantic import Secret

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
