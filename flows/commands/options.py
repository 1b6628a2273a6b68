"""What the commands share: options made from settings, help that lists registries, exit codes, one line for bad
input or Ctrl-C, the environment variables that are read, and JSON objects given one a line.

A registry is loaded for help alone, not when a command runs."""

from __future__ import annotations

import inspect
import json
import os
import pwd
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, Union, get_args, get_origin

import typer
from typer.core import TyperArgument, TyperCommand

from sojourn.flows.process import end_quietly, is_output_closed
from sojourn.inflated import toml_of
from sojourn.publishing import NO_ROOM

if TYPE_CHECKING:
    from pydantic import BaseModel

P = ParamSpec("P")

_REPR = re.compile(r"\b(?:Pure)?(?:Posix|Windows)Path\(('[^']*'|\"[^\"]*\")\)|"
                   r"\bnp\.\w+\(([^()]*)\)|<\w+\.\w+: ([^<>]*)>")
"""How Python shows a path, a number of NumPy or a member of an enum; the user gave what stands within."""
_NAMED = re.compile(r"must be (?:one of|among) (?P<known>[^;\n]+)[;,] got '(?P<got>[^']*)'$")
"""An error that lists names."""
_OUTSIDE = frozenset({"alembic", "httpx", "mlflow", "optuna", "prefect", "requests", "sqlalchemy"})
"""Packages whose own exceptions report an outside system, not a mistake in this program."""

_N_SIGNS_MAX = 3_000
"""Of an error: a longer one shows a whole table or cell, of which the middle is left out."""
_DENIED = re.compile(r"permi(?:ssion|tted)|read-?only|unable to open|must start", re.IGNORECASE)
"""An error that another user's files in the store may explain."""
_WRITTEN = ("store", "out", "output", "folder", "file", "page", "picture")
"""Parameters of commands that name what is written."""
Flags = dict[str, Any]
"""Settings by name as options gave them, None if they did not, and `file`: the TOML file."""
_CONFIG = "config"
_DEFAULT = re.compile(r"[;.]?\s[Dd]efault:\s(?P<value>(?:[^.]|\.\w)+)\.$")
StoreFolder = Annotated[Path | None, typer.Option("--store", help="Folder of all stores. [default: .sojourn]")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file with settings. [default: none]")]
Reader = Annotated[str | None, typer.Option(help="How to read the trace: {readers}. [default: by the file's name]")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program instead: an object a line.")]
RARE = "Rare options"
"""Help lists them last."""
PREFIX = "SOJOURN_"
DEBUG = "SOJOURN_DEBUG"
"""Set to 1, it has tracebacks printed."""
SQL_URL = "SOJOURN_SQL_URL"
"""With what may follow: databases that the reader `sql` reads."""
_OF_A_SERVICE = re.compile(r"SOJOURN_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")
"""What Kubernetes sets in every pod beside a Service whose name begins with `sojourn`."""
CELL_FAILED = 1
"""A cell of `sojourn gain` failed; the others are printed and kept."""
REFUSED = 2
"""Bad input, or what an outside system reports: one line on standard error says which."""
CHALLENGER = 3
"""The run is whole, and its version is not the champion: a gate did not hold."""
ALARM = 4
"""A check of logged decisions found a fresh alarm, and nothing was put in the champion's place since."""
INTERRUPTED = 130
"""Ctrl-C, as a shell shows it."""


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


TraceArgument = Annotated[Path, typer.Argument(callback=is_there, help="Trace file or folder.", metavar="FILE")]


def takes(kind: type[BaseModel], *names: str, rare: Sequence[str] = ()
          ) -> Callable[[Callable[Concatenate[Flags, P], None]], Callable[..., None]]:
    """A decorator: the command has an option for each of these settings, and gets what they gave as its first argument.

    names: fields of the settings `kind`, or `config`: the TOML file. An option has its field's name, type, help and
    default. `trace` is no option: it is the command's argument FILE. rare: further fields, which help lists last.
    """
    named = {name: "FILE" if name == "trace" else _option_name(kind, name) for name in (*names, *rare)}

    def decorated(command: Callable[Concatenate[Flags, P], None]) -> Callable[..., None]:
        @wraps(command)
        def wrapped(*args: Any, **given: Any) -> None:
            flags: Flags = {name: given.pop(name) for name in named}
            flags = {name: tuple(value) or None if isinstance(value, list) else value for name, value in flags.items()}
            if _CONFIG in flags:
                flags["file"] = flags.pop(_CONFIG)
            command(flags, *args, **given)

        _, *own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        parameters += [_parameter(kind, name, named, RARE if name in rare else None) for name in named]
        signature = inspect.Signature(parameters, return_annotation=None)
        wrapped.__signature__ = signature  # type: ignore[attr-defined]
        wrapped.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
        return wrapped

    return decorated


def with_default(text: str) -> tuple[str, str | None]:
    """What a setting says of itself, and the default that it says in words; None if it says none.

    >>> with_default("Train on requests from then on; default: on all.")
    ('Train on requests from then on.', 'on all')
    """
    found = _DEFAULT.search(text)
    return (text, None) if found is None else (f"{text[:found.start()]}.", found["value"])


def _option_name(kind: type[BaseModel], name: str) -> str:
    """The option of a setting; of one that holds several values, the name of one.

    >>> from sojourn.flows.settings.other_jobs import PlanConfig
    >>> _option_name(PlanConfig, "planners"), _option_name(PlanConfig, "n_runs"), _option_name(PlanConfig, "config")
    ('--planner', '--n-runs', '--config')
    """
    is_list = name != _CONFIG and _value_type(kind, name)[1]
    one = re.sub("s$", "", re.sub("ies$", "ys", name)) if is_list else name
    return f"--{one.replace('_', '-')}"


def _value_type(kind: type[BaseModel], name: str) -> tuple[Any, bool]:
    """The type of a setting's value, as typer reads it, and whether it holds several."""
    of: Any = kind.model_fields[name].annotation
    parts = [each for each in get_args(of) if each is not NoneType] if get_origin(of) in (Union, UnionType) else [of]
    if get_origin(parts[0]) is not tuple:
        return parts[0], False
    value = get_args(parts[0])[0]
    return list[value if value in (int, float) else str], True  # type: ignore[misc]


def _parameter(kind: type[BaseModel], name: str, named: Mapping[str, str], panel: str | None) -> inspect.Parameter:
    """A setting as a parameter of a command; one that has no default must be given.

    named: the option of each setting that the command has; help names them in the place of settings. panel: of help.
    """
    if name == _CONFIG:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ConfigFile)
    field, option = kind.model_fields[name], named[name]
    value, is_list = _value_type(kind, name)
    if value is bool and field.default is True:
        option = f"{option}/--no-{option[2:]}"
    text, default = with_default(" ".join((field.description or "").split()))
    if field.is_required() or (value is bool and field.default is False):
        default = None
    elif default is None:
        default = "none" if field.default in (None, ()) else _shown_default(option, field.default)
    text = re.sub(r"`(\w+)`", lambda found: named.get(found[1], found[0]), text + " Repeat for several." * is_list)
    text = text if default is None else f"{text} [default: {default}]"
    given: Any = (typer.Argument(callback=is_there, help=text, metavar="FILE", show_default=False) if name == "trace"
                  else typer.Option(option, help=text, rich_help_panel=panel))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[value | None, given],
                             default=... if field.is_required() else None)


def _shown_default(option: str, value: Any) -> str:
    """
    >>> _shown_default("--refresh/--no-refresh", True), _shown_default("--load", (0.8, 1.0)), _shown_default("--n", 7.0)
    ('refresh', '0.8 1', '7')
    """
    if isinstance(value, tuple):
        return " ".join(_shown_default(option, each) for each in value)
    return option.partition("/")[0][2:] if value is True else f"{value:g}" if isinstance(value, float) else str(value)


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
            from sojourn.flows.settings.store import without_secrets

            if os.environ.get(DEBUG, "0") not in ("", "0"):
                typer.echo(without_secrets(traceback.format_exc()), err=True)
            problem = _first_problem(error)
            if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
                problem = ": ".join(filter(None, [problem, _written(kwargs)]))
            if _DENIED.search(problem):
                problem += _whose(kwargs)
            typer.echo(f"error: {without_secrets(_with_near(_plain(problem)))}", err=True)
            raise typer.Exit(REFUSED) from error

    return wrapped


def _with_near(text: str) -> str:
    """The text; if it lists the names that are known, with the one that is most like the given name.

    >>> _with_near("policy must be one of lava, nilas, got 'nials'")
    "policy must be one of lava, nilas, got 'nials': did you mean nilas?"
    >>> _with_near("policy must be one of lava, nilas, got 'x'")
    "policy must be one of lava, nilas, got 'x'"
    """
    named = _NAMED.search(text)
    near = get_close_matches(named["got"], named["known"].split(", "), n=1) if named else []
    return f"{text}: did you mean {near[0]}?" if near else text


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


def check_variables(environment: Mapping[str, str]) -> None:
    """ValueError for a variable that begins with `SOJOURN_` and that nothing reads; it names those spelt like it.

    The value is not shown: it may be a password.

    >>> check_variables({"SOJOURN_LOAD": "0.7", "SOJOURN_SERVICE_HOST": "10.0.0.1", "HOME": "/root"})
    >>> check_variables({"SOJOURN_N_TREADS": "4"})
    Traceback (most recent call last):
    ValueError: a variable SOJOURN_... must be a setting (such as SOJOURN_N_THREADS), got SOJOURN_N_TREADS
    """
    given = sorted(name for name in environment if name.upper().startswith(PREFIX) and not _is_no_setting(name.upper()))
    if not given:
        return
    known = _variables()
    odd = [name for name in given if name.upper() not in known]
    if odd:
        near = get_close_matches(odd[0].upper()[len(PREFIX):], sorted(name[len(PREFIX):] for name in known), n=1)
        hint = f" (such as {PREFIX}{near[0]})" if near else ""
        raise ValueError(f"a variable {PREFIX}... must be a setting{hint}, got {odd[0]}")


def _is_no_setting(name: str) -> bool:
    return name == DEBUG or name.startswith(SQL_URL) or _OF_A_SERVICE.fullmatch(name) is not None


def _variables() -> set[str]:
    from sojourn.flows.admission.settings import AdmitConfig
    from sojourn.flows.compare.settings import CompareConfig
    from sojourn.flows.settings.other_jobs import MonitorConfig, TrainUsageConfig
    from sojourn.flows.settings.retrain import RetrainConfig

    kinds: tuple[type[BaseModel], ...] = (AdmitConfig, CompareConfig, MonitorConfig, RetrainConfig, TrainUsageConfig)
    return {f"{PREFIX}{name.upper()}" for kind in kinds for name in kind.model_fields}


_REGISTRIES = {
    "readers": "features.readers READERS", "recipes": "simulator WORKLOADS", "policies": "simulator POLICIES",
    "families": "models.lifetime LIFETIME_MODELS", "searched": "models.lifetime SEARCH_SPACES",
    "presets": "flows.compare.settings PRESETS", "usage_readers": "features.usage USAGE_READERS",
    "allocations": "simulator.admission ALLOCATIONS", "planners": "simulator.planning PLANNERS",
    "consumers": "flows.annotation.annotate CONSUMERS", "rectifiers": "simulator.rectification RECTIFIERS"}
"""Module and name of each, as help asks for it."""


def _registry(name: str) -> Iterable[str]:
    """The names in a registry, which is loaded now."""
    module, _, attribute = _REGISTRIES[name].partition(" ")
    found: Iterable[str] = getattr(import_module(f"sojourn.{module}"), attribute)
    return found


class RegistryCommand(TyperCommand):
    """A command with such help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            text = getattr(parameter, "help", None)
            if text:
                parameter.help = with_names(text)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write what most callers need, then the rare options."""
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], RARE: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                of = "Arguments" if isinstance(parameter, TyperArgument) else "Options"
                rows[getattr(parameter, "rich_help_panel", None) or of].append(record)
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def with_names(text: str) -> str:
    """The text with the names of each registry that it asks for.

    >>> with_names("A named comparison: {presets}.")[:49]
    'A named comparison: lava-table, best-of-past, rec'
    """
    return re.sub(r"\{(\w+)\}", lambda found: ", ".join(_registry(found[1])), text)


def keeps(what: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A decorator: Ctrl-C ends the command with exit code 130 and this line. what: is kept, or is as it was."""

    def decorated(command: Callable[P, None]) -> Callable[P, None]:
        @wraps(command)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                command(*args, **kwargs)
            except KeyboardInterrupt:
                typer.echo(f"\ninterrupted: {what}", err=True)
                raise typer.Exit(INTERRUPTED) from None

        return wrapped

    return decorated


def print_json(document: Any) -> None:
    """An object on one line; null is what is no finite number."""
    typer.echo(json.dumps(json.loads(json.dumps(document), parse_constant=lambda _: None)))


def json_objects(text: str, what: str) -> dict[str, dict[str, Any]]:
    """The objects of the lines of a text that are not blank, each by its place: `what` and the line's number.

    >>> json_objects('{"a": 1}\\n\\n7', "request")
    Traceback (most recent call last):
    ValueError: request 3 must be a JSON object, got '7'
    """
    found = {}
    for number, line in enumerate(text.split("\n"), 1):  # JSON's texts may hold other signs that end lines
        if not line.strip():
            continue
        try:
            document = json.loads(line, object_pairs_hook=_named_once)
        except RecursionError:
            raise ValueError(f"{what} {number} must be nested less deeply, got {line[:80]!r}") from None
        except ValueError as error:  # a number of many digits, too
            raise ValueError(f"{what} {number} must be a JSON object, got {line[:80]!r} ({error})") from error
        if not isinstance(document, dict):
            raise ValueError(f"{what} {number} must be a JSON object, got {line[:80]!r}")
        found[f"{what} {number}"] = document
    return found


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return found
