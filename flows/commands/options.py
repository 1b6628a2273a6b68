"""What the commands share: options, and one line for bad input."""

from __future__ import annotations

import os
import pwd
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

from sojourn.flows.commands.exit_codes import REFUSED
from sojourn.flows.commands.variables import DEBUG, check_variables
from sojourn.flows.terminal import end_quietly, is_output_closed
from sojourn.inflated import toml_of
from sojourn.publishing import NO_ROOM

P = ParamSpec("P")

_REPR = re.compile(r"\b(?:Pure)?(?:Posix|Windows)Path\(('[^']*'|\"[^\"]*\")\)|"
                   r"\bnp\.\w+\(([^()]*)\)|<\w+\.\w+: ([^<>]*)>")
"""How Python shows a path, a number of NumPy or a member of an enum; the user gave what stands within."""
_OUTSIDE = frozenset({"alembic", "httpx", "mlflow", "optuna", "prefect", "requests", "sqlalchemy"})
"""Packages whose own exceptions report an outside system, not a mistake in this program."""

_N_SIGNS_MAX = 3_000
"""Of an error: a longer one shows a whole table or cell, of which the middle is left out."""
_DENIED = re.compile(r"permi(?:ssion|tted)|read-?only|unable to open|must start", re.IGNORECASE)
"""An error that another user's files in the store may explain."""
_WRITTEN = ("store", "out", "output", "folder", "file", "page", "picture")
"""Parameters of commands that name what is written."""

READER_HELP = "How to read the trace: {readers}."


def is_there(path: Path | None) -> Path | None:
    """The path of what is read; one that is not there ends the command before it loads any library."""
    if path is not None and not _is_data(path):
        typer.echo(f"error: trace must be a file or folder, got {str(path)!r}", err=True)
        raise typer.Exit(REFUSED)
    return path


def _is_data(path: Path) -> bool:
    """False for a pipe, too: a reader goes through a file more than once."""
    try:
        return path.is_file() or path.is_dir()
    except OSError:  # a name that is too long, a folder that may not be entered
        return False


TracePath = Annotated[Path | None, typer.Option(
    "--trace", callback=is_there, help="Trace file or folder. [default: none: a synthetic trace]")]
TraceArgument = Annotated[Path, typer.Argument(callback=is_there, help="Trace file or folder.")]
ReaderName = Annotated[str | None, typer.Option(
    "--reader", help=f"{READER_HELP} [default: none: give one with --trace]")]
Since = Annotated[str | None, typer.Option(
    "--since", help="Train on requests from then on: 90d or 12h before the trace's end, or an ISO date. "
                    "[default: on all]")]
TestPath = Annotated[Path | None, typer.Option(
    "--test", help="Later file that judges, all of --trace being for training. [default: none: the trace's own last "
                   "30 % judge]")]
TestReader = Annotated[str | None, typer.Option(
    "--test-reader", help="Reader of the later file. [default: the trace's, with its column map]")]
TestOffset = Annotated[int | None, typer.Option(
    "--test-offset", help="When the later file begins on the trace's clock, seconds. [default: by the dates of "
                          "both files]")]
Overlap = Annotated[bool | None, typer.Option(
    "--allow-overlap", help="Take a later file of which more than 5 % of the requests began before the trace's end.")]
StoreFolder = Annotated[Path | None, typer.Option("--store", help="Folder of all stores. [default: .sojourn]")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file with settings. [default: none]")]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of all random numbers. [default: 0]")]
Threads = Annotated[int | None, typer.Option("--n-threads", help="Threads for training. [default: 2]")]
Confirmed = Annotated[list[str] | None, typer.Option(
    "--confirm", help="Column that is known at creation, even if the model relies on it heavily; repeat. "
                      "[default: none]")]
Reader = Annotated[str, typer.Option(help=READER_HELP)]
Horizon = Annotated[int | None, typer.Option(
    "--horizon", help="When the trace's observation ended: seconds after its begin, or a Unix second if it has dates. "
                      "[default: found in the file]")]
MapPairs = Annotated[list[str] | None, typer.Option(
    "--map", help="Of a table (reader csv): what a column is, as OURS=THEIRS: id, arrival, departure, duration, "
                  "submit, status, cpu_cores, mem_gib, gpu, requested_s, owner, category, number, resource, "
                  "known_at_end; repeat. [default: guessed by plain names]")]
MapFile = Annotated[Path | None, typer.Option(
    help="Of a table: TOML file that says what its columns are. [default: TABLE.toml beside it, if there is one]")]
Timezone = Annotated[str | None, typer.Option(
    help="Of a table, or of Slurm's accounting: IANA name, for times without a zone. [default: UTC]")]

HostCores = Annotated[float | None, typer.Option(
    "--host-cpu-cores", help="Cores of a simulated host, with --host-mem-gib. [default: chosen from the trace]")]

HostMemory = Annotated[float | None, typer.Option(
    "--host-mem-gib", help="Memory of a simulated host, GiB, with --host-cpu-cores. [default: chosen from the trace]")]

Dask = Annotated[str | None, typer.Option(
    help="Dask cluster: `local` or `local:N` for N processes here, or tcp://HOST:PORT, whose workers see the store "
         "under the same path. [default: none]")]
FitWorkers = Annotated[int | None, typer.Option(
    "--n-fit-workers", min=1,
    help="Workers of the Dask cluster that grow each of LightGBM's forests together. [default: 1: in this process]")]


def plain_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Bad input, and what an outside system reports, end with one line on standard error and exit code 2.

    A full disk names the file, or else what the command writes to. With SOJOURN_DEBUG=1 the traceback stands before it.
    Programming errors (KeyError, TypeError, ...) pass as they are.
    """

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            check_variables(os.environ)
            command(*args, **kwargs)
            sys.stdout.flush()
        except Exception as error:
            if isinstance(error, BrokenPipeError) and is_output_closed():
                end_quietly()
            if not _is_reported(error):
                raise
            from sojourn.flows.settings.tracking_uri import without_secrets

            if os.environ.get(DEBUG, "0") not in ("", "0"):
                typer.echo(without_secrets(traceback.format_exc()), err=True)
            problem = _first_problem(error)
            if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
                problem = ": ".join(filter(None, [problem, _written(kwargs)]))
            if _DENIED.search(problem):
                problem += _whose(kwargs)
            typer.echo(f"error: {without_secrets(_plain(problem))}", err=True)
            raise typer.Exit(REFUSED) from error

    return wrapped


def _plain(text: str) -> str:
    """The text with values as they were given, control characters escaped.

    >>> _plain("trace must be a file, got PosixPath('a b.swf') of <Kind.SWF: 'swf'>, at np.int64(5)")
    "trace must be a file, got 'a b.swf' of 'swf', at 5"
    """
    plain = _REPR.sub(lambda found: found[found.lastindex or 0], text)
    plain = "".join(sign if sign.isprintable() or sign in "\n\t" else repr(sign)[1:-1] for sign in plain)
    return plain if len(plain) <= _N_SIGNS_MAX else f"{plain[:_N_SIGNS_MAX - 500]} ... {plain[-500:]}"


def _written(given: Mapping[str, Any]) -> str:
    """What a command with these arguments writes to.

    >>> _written({"store": Path("made"), "page": Path("a.html"), "trace": Path("a.swf")})
    "store 'made' or page 'a.html'"
    """
    paths = {name: given[name] for name in _WRITTEN if isinstance(given.get(name), Path)}
    if "store" in given and "store" not in paths:
        paths = {"store": _configured_store(given.get("config")), **paths}
    return " or ".join(f"{name} {str(path)!r}" for name, path in paths.items())


def _whose(given: Mapping[str, Any]) -> str:
    """Which other user's files the store of a command holds, for an error that they may explain; "" for none."""
    if "store" not in given:
        return ""
    store, own = Path(given["store"] or _configured_store(given.get("config"))), os.geteuid()
    places = [store, *sorted(store.glob("*")), *sorted(store.glob("*/*"))] if own else []
    for place in places:
        try:
            uid = place.lstat().st_uid
        except OSError:
            continue
        if uid != own:
            return (f"; {str(place)!r} belongs to {_user(uid)}, and this runs as {_user(own)}: "
                    "run it as one user alone, and give the files back to that one (chown -R)")
    return ""


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _configured_store(config: Path | None) -> str:
    """The store of the settings, where no option names it."""
    found = os.environ.get("SOJOURN_STORE")
    if found is None and config is not None:
        try:
            found = toml_of(config).get("store")
        except (OSError, ValueError):
            found = None
    return ".sojourn" if found is None else str(found)


def _is_reported(error: Exception) -> bool:
    """Whether an error says what the user can do, rather than what a programmer did wrong."""
    if isinstance(error, typer.Exit):  # a RuntimeError
        return False
    if isinstance(error, NotImplementedError | RecursionError):
        return False
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, ValueError | OSError | RuntimeError | MemoryError) or not packages.isdisjoint(_OUTSIDE)


def _first_problem(error: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):  # name the setting, the rule and the value
        from sojourn.flows.settings.store import validation_words

        return validation_words(error)
    if isinstance(error, MemoryError):
        return f"memory must suffice for what was given, got: {error or 'none left'}"
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
