"""Which source of ours decides what a module does: its own, and that of all modules of ours that it imports.

Which compiled kernels and replay loops are stale is derived from this, never listed. A file is
read line by line and not parsed: the whole package takes 20 ms, a syntax tree ten times that, and code that stands in a
string, to be compiled later, counts as well. A test compares it with the syntax trees.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = "sojourn"
_STATEMENT = re.compile(r"^([ \t]*)(from|import)[ \t]+(.*)$", re.MULTILINE)
_TYPE_CHECKING = re.compile(r"^([ \t]*)if (?:typing\.)?TYPE_CHECKING:.*\n(?:\1[ \t]+.*\n|[ \t]*\n)*", re.MULTILINE)
_COMPUTED = ("import_module(", "__import__(")
_STRING = re.compile(r"""["'](\.*[A-Za-z_][\w.]*)(?::\w+)?["']""")


class NoSource(LookupError):
    """A module of ours is installed without its source."""


@dataclass(frozen=True, slots=True)
class Import:
    """`from module import name`, or `import module`: name None."""

    module: str
    name: str | None


class SourceTree:
    """The source files of one copy of the package; each is read once, when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        """folder: of the package itself. It may lie within a zip archive that Python imports from."""
        self._folder = folder
        self._files: dict[str, bytes | None] = {}
        self._packages: set[str] = set()
        self._imports: dict[str, tuple[Import, ...]] = {}
        self._origins: dict[Import, str] = {}

    def closure(self, *modules: str) -> dict[str, bytes]:
        """The source of modules and of all modules of ours that they need, by name, in the order of names.

        Imports within functions count, those for type checkers alone don't. Of a name that a package passes on, the
        module counts that it comes from, not all that the package gathers. ValueError for a module that is not ours;
        NoSource where one is installed without its source.
        """
        found: dict[str, bytes] = {}
        waiting = list(modules)
        for name in modules:
            if self._source(name) is None:
                raise ValueError(f"modules must be modules of {PACKAGE}, got {name!r}")
        while waiting:
            name = waiting.pop()
            source = self._source(name)
            if name in found or source is None:
                continue
            found[name] = source
            for one in self._imports_of(name):
                if one not in self._origins:
                    self._origins[one] = self._origin(one)
                waiting.append(self._origins[one])
        return dict(sorted(found.items()))

    def hash(self, *modules: str) -> str:
        """sha256 hex of the closure of modules, names included."""
        digest = hashlib.sha256()
        for name, source in self.closure(*modules).items():
            digest.update(f"{name} {len(source)}\n".encode() + source)
        return digest.hexdigest()

    def _origin(self, one: Import, passed: frozenset[Import] = frozenset()) -> str:
        """The module in which an imported name is made, or the imported module."""
        if one.name is None or one in passed or self._source(one.module) is None or one.module not in self._packages:
            return one.module
        if self._source(f"{one.module}.{one.name}") is not None:
            return f"{one.module}.{one.name}"
        text = self._text(one.module)
        sources = [other for other in self._imports_of(one.module) if other.name == one.name]
        # A name that the package binds itself, or under which it imports another, is its own.
        is_its_own = re.search(rf"^(?:{one.name}\b.*=|(?:def|class) {one.name}\b|def __getattr__)|\bas {one.name}\b",
                               text, re.MULTILINE)
        return one.module if is_its_own or len(sources) != 1 else self._origin(sources[0], passed | {one})

    def _imports_of(self, module: str) -> tuple[Import, ...]:
        if module not in self._imports:
            package = module if module in self._packages else module.rpartition(".")[0]
            self._imports[module] = tuple(dict.fromkeys(imports_in(self._text(module), package)))
        return self._imports[module]

    def _text(self, module: str) -> str:
        return (self._source(module) or b"").decode()

    def _source(self, module: str) -> bytes | None:
        """None for what is no module of ours."""
        if module not in self._files:
            self._files[module] = self._read(module)
        return self._files[module]

    def _read(self, module: str) -> bytes | None:
        first, *parts = module.split(".")
        if first != PACKAGE or not all(part.isidentifier() for part in parts):
            return None
        path = self._folder.joinpath(*parts)
        if parts and (source := _content(path.with_name(f"{path.name}.py"))) is not None:
            return source
        if (source := _content(path / "__init__.py")) is not None:
            self._packages.add(module)
            return source
        for compiled in (path.with_name(f"{path.name}.pyc"), path / "__init__.pyc"):
            if _content(compiled) is not None:
                raise NoSource(f"{module} must be installed with its source, got {compiled.name} alone")
        return None


def imports_in(text: str, package: str) -> Iterator[Import]:
    """The import statements of a source text. package: of the module, for relative imports.

    Where it imports by a name that it computes, every string counts that may be a module's name.
    """
    if "TYPE_CHECKING" in text:
        text = _TYPE_CHECKING.sub("", text)
    for match in _STATEMENT.finditer(text):
        kind, rest = match[2], match[3]
        end = match.end()
        while rest.endswith("\\") or ("(" in rest and ")" not in rest):
            stop = text.find("\n", end + 1)
            stop = len(text) if stop < 0 else stop
            if stop <= end:
                break
            rest, end = f"{_uncommented(rest)} {text[end + 1:stop]}", stop
        rest = _uncommented(rest)
        if kind == "import":
            for part in rest.split(","):
                yield Import(part.split()[0] if part.split() else "", None)
            continue
        module, found, names = rest.partition(" import ")
        if not found:
            module, found, names = rest.partition(" import(")
        if found:
            where = _absolute(module.strip(), package)
            for part in names.strip("() ").split(","):
                if part.split():
                    yield Import(where, None if (name := part.split()[0]) == "*" else name)
    if any(call in text for call in _COMPUTED):
        for name in _STRING.findall(text):
            if name.startswith((f"{PACKAGE}.", ".")):
                yield Import(_absolute(name, package), None)


def installed() -> SourceTree:
    """The source of the package that is imported."""
    return _tree(str(Path(__file__).parent))


@cache
def _tree(folder: str) -> SourceTree:
    return SourceTree(Path(folder))


def _uncommented(line: str) -> str:
    return line.partition("#")[0].rstrip().removesuffix("\\").rstrip()


def _absolute(module: str, package: str) -> str:
    n_dots = len(module) - len(module.lstrip("."))
    if n_dots == 0:
        return module
    parents = package.split(".")[:len(package.split(".")) + 1 - n_dots]
    return ".".join([*parents, *filter(None, [module[n_dots:]])])


def _content(path: Path) -> bytes | None:
    try:
        return bytes(__loader__.get_data(str(path)))  # type: ignore[name-defined]  # of files and of archives alike
    except OSError:
        return None
