"""Runs the code blocks of README.md and docs/: those of a page in order, in a folder of the page, on small data.

Python blocks of a page share their names. Shell blocks run as one script each. JSON and TOML must parse. What stands in
a comment directly above a block says how it is run otherwise; each reason is printed:

    <!-- before                                    Python that runs first: names and files that the page takes as given;
    CODE                                           `take(NAME, PATH)` copies one of the small files (see `make_files`)
    -->
    <!-- skip: REASON -->                          the block is not run
    <!-- skip "PART": REASON -->                   nor is a command with this part
    <!-- run "PART" until "TEXT": REASON -->       a command that serves: ended when it has printed the text
    <!-- run by tests/FILE.py -->                  a test runs the block
    <!-- output -->                                the block is what the one before it prints; `...` is any lines

Pages run beside each other. Exit code 1 where a block fails, differs, or is of no known language.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import json
import linecache
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHELL = ("bash", "console", "sh")
LIMIT_S = 1_200
"""A page that takes longer has failed; on two idle cores all pages together take minutes."""
_FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```\s*?$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->\s*", re.DOTALL)
_RULE = re.compile(r'(?:(?P<how>skip|run) "(?P<part>[^"]+)"(?: until "(?P<text>[^"]+)")?|(?P<skip>skip)): '
                   r"(?P<reason>.+)", re.DOTALL)
_SERVE = """
# exit code 3: the version of a small made trace may be a challenger
sojourn() { command sojourn "$@" || [ $? = 3 ]; }
serve_until() {
    local text=$1 file; shift; file=$(mktemp)
    set -m; "$@" >"$file" 2>&1 & local pid=$!; set +m
    for _ in $(seq 900); do
        if grep -qF -- "$text" "$file"; then kill -TERM -- "-$pid"; wait "$pid" || true; cat "$file"; return 0; fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.2
    done
    kill -KILL -- "-$pid" 2>/dev/null || true
    cat "$file"; echo "the command must print '$text', it did not" >&2; return 1
}
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. rules: (how, part of a command, text, reason). is_output: of the block before it."""

    line: int
    language: str
    code: str
    before: str = ""
    skipped: str = ""
    tested_by: str = ""
    is_output: bool = False
    span: tuple[int, int] = (0, 0)
    rules: tuple[tuple[str, str, str, str], ...] = field(default_factory=tuple)


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page, each with what the comments directly above it say; ValueError for an unknown comment."""
    end = 0
    for found in _FENCE.finditer(text):
        above, end = text[end:found.start()], found.end()
        marks: dict[str, Any] = {"rules": ()}
        for comment in _above(above):
            if comment.startswith("before\n"):
                marks["before"] = comment.removeprefix("before\n")
            elif comment == "output":
                marks["is_output"] = True
            elif comment.startswith("run by "):
                marks["tested_by"] = comment.removeprefix("run by ")
            elif (rule := _RULE.fullmatch(comment)) is not None:
                reason = " ".join(rule["reason"].split())
                if rule["skip"]:
                    marks["skipped"] = reason
                else:
                    marks["rules"] += ((rule["how"], rule["part"], rule["text"] or "", reason),)
            elif comment.startswith(("skip", "run")):
                raise ValueError(f"a comment above a block must be one of those that this file names, got {comment!r}")
        indent = len(found[1])
        code = "".join(line[indent:] if line.strip() else "\n" for line in found[3].splitlines(keepends=True))
        yield Block(text.count("\n", 0, found.start()) + 1, found[2], code, span=found.span(3), **marks)


def _above(text: str) -> list[str]:
    """The comments that a text ends with."""
    found, end = [], len(text.rstrip(" "))
    for comment in reversed(list(_COMMENT.finditer(text))):
        if text[comment.end():end].strip():
            break
        found.append(comment[1])
        end = comment.start()
    return found[::-1]


def script(block: Block) -> str:
    """A shell block with its rules applied; ValueError for a rule that fits no command."""
    lines = re.sub(r"\\\n", " ", block.code).splitlines()
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    made = "\n".join(lines)
    for how, part, text, _ in block.rules:
        if not any(part in line for line in made.splitlines()):
            raise ValueError(f"a comment must name a part of a command of its block, got {part!r}")
        made = "\n".join(line if part not in line else ":" if how == "skip" else f"serve_until {text!r} {line}"
                         for line in made.splitlines())
    return f"set -euo pipefail\n{_SERVE}\n{made}\n"


def differences(wanted: str, printed: str) -> str:
    """A diff where what was printed is not what the page shows; a line `...` of the page is any lines."""
    plain = ["\n".join(line.rstrip() for line in text.strip("\n").splitlines()) for text in (wanted, printed)]
    pattern = r"\n?".join("(?:.*)" if line.strip() == "..." else re.escape(line) for line in plain[0].split("\n"))
    if re.fullmatch(pattern, plain[1], re.DOTALL):
        return ""
    return "\n".join(difflib.unified_diff(plain[0].splitlines(), plain[1].splitlines(), "page", "printed", lineterm=""))


def run_page(page: Path, made: Path, is_writing: bool) -> int:
    """Run the blocks of a page here; prints a line a block, and what is wrong. is_writing: store what is printed."""
    written: list[tuple[tuple[int, int], str]] = []
    def take(name: str, path: str) -> None:
        source, target = made / name, Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target, dirs_exist_ok=True) if source.is_dir() else shutil.copy(source, target)

    names: dict[str, Any] = {"__name__": "__main__", "take": take}
    printed, is_well = "", True
    for block in blocks(page.read_text()):
        place, started, cpu_s = f"{page.relative_to(ROOT)}:{block.line}", time.monotonic(), _cpu_s()
        said, problem = "run", ""
        try:
            if block.before:
                exec(compile(block.before, f"{place} (before)", "exec"), names)
            if block.skipped:
                said = f"not run: {block.skipped}"
            elif block.tested_by:
                said = f"run by {block.tested_by}"
                if not (ROOT / block.tested_by).is_file():
                    problem = f"the test must exist, got {block.tested_by}"
            elif block.is_output:
                said, problem = "as printed", differences(block.code, printed)
                if problem and is_writing:
                    said, problem = "written", ""
                    written.append((block.span, printed.strip("\n") + "\n"))
            elif block.language == "python":
                printed = _run_python(block.code, place, names)
            elif block.language in SHELL:
                done = subprocess.run(["bash", "-c", script(block)], capture_output=True, text=True, check=False,
                                      stdin=subprocess.DEVNULL)
                printed = done.stdout
                if done.returncode:
                    problem = f"exit code {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-3000:]}"
                said = "; ".join([said, *(f"{part!r} {'not run' if how == 'skip' else 'ended'}: {reason}"
                                          for how, part, _, reason in block.rules)])
            elif block.language in ("json", "toml"):
                said = "parsed"
                (json if block.language == "json" else tomllib).loads(block.code)
            elif block.language in ("text", "") or block.language.startswith("{"):
                if re.search(r"^(?:\$ |sojourn |>>> |import )", block.code, re.MULTILINE):
                    problem = "code must be marked as sh or python"
                said = ""
            else:
                problem = f"a block must be of a known language or say why it is not run, got {block.language!r}"
        except (Exception, SystemExit):
            problem = traceback.format_exc(limit=-4)
        took = f"{time.monotonic() - started:.1f} s, {_cpu_s() - cpu_s:.1f} s of CPU"
        if said or problem:
            print(f"{place}: {'FAILED' if problem else said} ({took})\n{problem}".rstrip())
        is_well &= not problem
    text = page.read_text()
    for (start, stop), printed in reversed(written):
        text = text[:start] + printed + text[stop:]
    if written:
        page.write_text(text)
    return 0 if is_well else 1


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _run_python(code: str, place: str, names: dict[str, Any]) -> str:
    linecache.cache[place] = (len(code), None, code.splitlines(keepends=True), place)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, place, "exec"), names)
    return out.getvalue()


def train(folder: Path) -> Path:
    """A bundle of a small model on a small synthetic trace, without names of features: pages print its answers."""
    from sojourn.features.creation import backoff_keys, build_rows, default_encoder
    from sojourn.features.split import split_by_time
    from sojourn.features.synthetic import synthesize
    from sojourn.models import LIFETIME_MODELS, FitSettings, write_bundle
    from sojourn.serving.inputs import HistoryState

    trace = synthesize(2_000, seed=1)
    encoder = default_encoder(trace)
    history = HistoryState(encoder.history)
    split = split_by_time(build_rows(trace, encoder, history))
    settings = FitSettings(backoff_keys(encoder), n_threads=1, params={"num_leaves": 15, "learning_rate": 0.3})
    exported = LIFETIME_MODELS["hazard"]().fit(split.train, split.valid, split.past, settings).export()
    assert exported is not None
    training = {"to_s": split.test_from_s, "n_requests": len(split.past), "history_to_s": trace.horizon_s,
                "start_unix_s": trace.meta["start_unix_s"]}
    return write_bundle(folder, "hazard", exported, encoder, history, {"training": training})


def make_files(made: Path) -> None:
    """What pages take as given, small: `bundle`, `jobs.swf.gz`, `VMS` (usage series), `usage` (a usage section),
    `store` (two versions of sojourn-lifetime). Each page's store has MLflow's database without a run, `empty.db`."""
    import gzip

    sys.path.insert(0, str(ROOT / "tests"))

    from made_bundles import make
    from made_files import bitbrains_folder
    from made_jobs import swf_log
    from made_store import made_store
    from made_usage import made_section
    from sojourn.flows.tracking.databases import ready_database

    train(made / "bundle")
    log = swf_log(made / "jobs.swf", 1_200, days=14)
    (made / "jobs.swf.gz").write_bytes(gzip.compress(log.read_bytes(), mtime=0))
    bitbrains_folder(made / "VMS")
    made_section(made / "usage")
    store = made / "store"
    store.mkdir()
    ready_database(store / "mlflow.db", store / "artifacts")
    shutil.copy(store / "mlflow.db", made / "empty.db")
    made_store(make(made / "bundles", is_dated=True), store, "sojourn-lifetime")


def check(pages: Sequence[Path], options: Sequence[str]) -> int:
    """Each page in a process and a folder of its own."""
    from sojourn.flows.workers.prefect import prefect_server

    started = time.monotonic()
    with tempfile.TemporaryDirectory() as root, prefect_server(Path(root) / "prefect"):
        made = Path(root) / "made"
        made.mkdir()
        make_files(made)
        print(f"small files made ({time.monotonic() - started:.1f} s)", flush=True)

        def run(page: Path) -> subprocess.CompletedProcess[str]:
            folder = Path(tempfile.mkdtemp(dir=root))
            (folder / ".venv").symlink_to(sys.prefix)
            (folder / ".sojourn").mkdir()
            shutil.copy(made / "empty.db", folder / ".sojourn" / "mlflow.db")  # making one takes 8 s
            environment = {**os.environ, "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}", "COLUMNS": "120",
                           "SOJOURN_N_REQUESTS": "2000", "SOJOURN_N_THREADS": "1", "SOJOURN_N_REPLICAS": "2",
                           "SOJOURN_MAX_REPLICAS": "2", "OMP_NUM_THREADS": "1"}
            command = [sys.executable, __file__, "--page", str(page), "--made", str(made), *options]
            try:
                return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False,
                                      timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                return subprocess.CompletedProcess(command, 1, "", f"{page} FAILED: it took more than {LIMIT_S} s")

        is_well = True
        with ThreadPoolExecutor(os.cpu_count()) as workers:
            for done in workers.map(run, pages):
                print((done.stdout + (done.stderr if done.returncode else "")).rstrip() or "", flush=True)
                is_well &= done.returncode == 0
    took = f"{time.monotonic() - started:.0f} s, {_cpu_s():.0f} s of CPU"
    print(f"{'all blocks run' if is_well else 'some blocks FAILED'} ({took})")
    return 0 if is_well else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path, help="Pages to check; without one, all.")
    parser.add_argument("--write", action="store_true", help="Write what is printed into output blocks that differ.")
    parser.add_argument("--page", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--made", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.page is not None:
        return run_page(given.page, given.made, given.write)
    pages = [page.resolve() for page in given.pages] or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    with_blocks = [page for page in pages if any(True for _ in blocks(page.read_text()))]
    return check(with_blocks, ["--write"] if given.write else [])


if __name__ == "__main__":
    sys.exit(main())
