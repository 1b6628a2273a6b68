"""`sojourn model pull`: the right version, whole, and only if it can be served; trouble is told and survived."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from made_bundles import Made, make
from made_program import OF_PIPELINE, run_without
from sojourn.flows.cli import app
from sojourn.flows.settings.store import TrackingUri
from sojourn.flows.tracking.logged_model import log_bundle
from sojourn.flows.tracking.pull import ModelUri, find_version, follow, pull
from sojourn.flows.tracking.tracker import CHAMPION, Tracker
from sojourn.serving import BundleError, Predictor, WatchEvent, load_bundle
from sojourn.serving.bundle import FILES, MANIFEST

NAME = "made"
KINDS = ("hazard", "uptime", "once")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made"))


class MemoryRegistry:
    """Versions 1, 2 and 3 are the bundles of the three kinds; `trouble` is raised by the next calls."""

    def __init__(self, made: Made) -> None:
        self.folders = {number: made.folders[kind] for number, kind in enumerate(KINDS, 1)}
        self.pointed = {CHAMPION: 1}
        self.trouble: list[Exception] = []
        self.n_fetched = 0

    def aliases(self, name: str) -> dict[str, int] | None:
        if self.trouble:
            raise self.trouble.pop(0)
        return self.pointed if name == NAME else None

    def models(self) -> list[str]:
        return [NAME, "other"]

    def versions(self, name: str) -> list[int]:
        return list(self.folders)

    def fetch(self, name: str, version: int, folder: Path) -> Path:
        self.n_fetched += 1
        fetched = Path(shutil.copytree(self.folders[version], folder / "bundle"))
        (fetched / "MLmodel").write_text("not ours")
        return fetched


def _siblings(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.iterdir())


@pytest.mark.parametrize(("text", "uri"), [
    ("models:/a@champion", ModelUri("a", "champion", None)),
    ("models:/a b.c@d@champion", ModelUri("a b.c@d", "champion", None)),
    ("models:/a/12", ModelUri("a", None, 12)),
])  # fmt: skip
def test_both_forms_are_read(text: str, uri: ModelUri) -> None:
    assert ModelUri.parse(text) == uri


@pytest.mark.parametrize("text", [
    "", "a", "models:/", "models:/a", "models:/a/", "models:/a@", "models:/a/0", "models:/@b", "models:/a/Production",
    "models:/a/1/2", "models://a@b", "runs:/a@b", "models:/a/-1",
])  # fmt: skip
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="uri must be models:/NAME@ALIAS or models:/NAME/VERSION, got"):
        ModelUri.parse(text)


def test_unknown_names_list_the_known_ones(made: Made) -> None:
    registry = MemoryRegistry(made)
    for text, message in (
        ("models:/mad@champion", "the registered model must be one of made, other, got 'mad'"),
        ("models:/made@champ", "the alias of made must be one of champion, got 'champ'"),
        ("models:/made/7", "the version of made must be one of 1, 2, 3, got 7"),
    ):
        with pytest.raises(ValueError, match=message):
            find_version(registry, ModelUri.parse(text))
    registry.pointed = {}
    with pytest.raises(ValueError, match="must be one of none yet, got 'champion'"):
        find_version(registry, ModelUri.parse("models:/made@champion"))


def test_what_is_pulled_is_the_version_and_nothing_else(made: Made, tmp_path: Path) -> None:
    registry, folder = MemoryRegistry(made), tmp_path / "new" / "served"
    pulled = pull(registry, NAME, 2, folder)
    assert pulled.is_new
    assert sorted(path.name for path in folder.iterdir()) == sorted((*FILES, MANIFEST))
    assert load_bundle(folder).version == load_bundle(made.folders["uptime"]).version == pulled.bundle_version
    inode = (folder / MANIFEST).stat().st_ino
    assert not pull(registry, NAME, 2, folder).is_new
    assert (folder / MANIFEST).stat().st_ino == inode  # nobody needs to load it again
    (folder / "history.npz").unlink()
    assert pull(registry, NAME, 2, folder).is_new  # it was there, but broken
    assert pull(registry, NAME, 3, folder).bundle_version == load_bundle(folder).version
    assert _siblings(folder) == ["served"]


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_what_cannot_be_served_leaves_the_folder_as_it_was(made: Made, tmp_path: Path, name: str) -> None:
    registry, folder = MemoryRegistry(made), tmp_path / "served"
    pull(registry, NAME, 1, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    broken = Path(shutil.copytree(made.folders["uptime"], tmp_path / "broken"))
    (broken / name).write_bytes(b"{}")
    registry.folders[2] = broken
    with pytest.raises(BundleError):
        pull(registry, NAME, 2, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert _siblings(folder) == ["broken", "served"]


def test_a_folder_of_other_things_is_left_alone(made: Made, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"home must be new, empty or a folder with MANIFEST\.json"):
        pull(MemoryRegistry(made), NAME, 1, tmp_path / "home")
    assert (tmp_path / "home" / "thesis.txt").read_text() == "years of work"


def test_a_file_of_the_users_beside_a_bundle_is_not_removed_by_the_next_version(made: Made, tmp_path: Path) -> None:
    folder = tmp_path / "served"
    pull(MemoryRegistry(made), NAME, 1, folder)
    (folder / "notes.txt").write_text("mine")
    before = (folder / MANIFEST).read_bytes()
    with pytest.raises(ValueError, match=r"served must .*, got 'notes\.txt'"):
        pull(MemoryRegistry(made), NAME, 2, folder)
    assert (folder / "notes.txt").read_text() == "mine" and (folder / MANIFEST).read_bytes() == before
    assert _siblings(folder) == ["served"]


def test_what_a_pull_left_that_was_killed_while_it_published_goes_with_the_next(
        made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry, folder = MemoryRegistry(made), tmp_path / "served"
    with monkeypatch.context() as patched:  # as after a kill: nothing is cleaned
        patched.setattr("sojourn.publishing.shutil.rmtree", lambda *_, **__: None)
        patched.setattr("sojourn.publishing.sync_tree", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            pull(registry, NAME, 1, folder)
    assert _siblings(folder) != []
    pull(registry, NAME, 1, folder)
    assert _siblings(folder) == ["served"]


def test_what_a_killed_pull_left_goes_with_the_next_and_what_another_uses_stays(made: Made, tmp_path: Path) -> None:
    registry, folder = MemoryRegistry(made), tmp_path / "served"
    left = [tmp_path / name for name in (".served.pull.abcd1234", ".served.zz_9zz_9", ".served.old.abcd1234")]
    other = [tmp_path / name for name in (".served2.abcd1234", ".serves", ".served.cfg")]
    for path in (*left, *other):
        path.mkdir()
    fetch = registry.fetch

    def beside(name: str, version: int, folder: Path) -> Path:
        registry.fetch = fetch  # type: ignore[method-assign]
        assert [path for path in left if path.exists()] == []
        pull(registry, NAME, 2, tmp_path / "served")  # of another process, at the same time
        return fetch(name, version, folder)

    registry.fetch = beside  # type: ignore[method-assign]
    assert pull(registry, NAME, 1, folder).is_new
    assert load_bundle(folder).version == load_bundle(made.folders["hazard"]).version
    assert _siblings(folder) == sorted(["served", *(path.name for path in other)])


def _followed(registry: MemoryRegistry, folder: Path, steps: list[Callable[[], object]]) -> list[str]:
    """What `follow` reports while, at each wait, the next step happens; it ends after the last one."""
    lines: list[str] = []
    left = list(steps)

    def wait(interval_s: float) -> bool:
        assert interval_s == 7.0
        if not left:
            return True
        left.pop(0)()
        return False

    follow(registry, ModelUri.parse(f"models:/{NAME}@{CHAMPION}"), folder, 7.0, lines.append, wait)
    return lines


def test_following_republishes_when_the_alias_moves_and_a_watcher_serves_it(made: Made, tmp_path: Path) -> None:
    registry, folder = MemoryRegistry(made), tmp_path / "served"
    pull(registry, NAME, 1, folder)
    predictor = Predictor.load(folder)
    events: list[WatchEvent] = []
    with predictor.watch(interval_s=3_600.0, on_event=events.append) as watch:
        lines = _followed(registry, folder, [
            watch.poll,
            lambda: registry.pointed.update(champion=3),
            watch.poll,
            watch.poll,
        ])
    assert registry.n_fetched == 3  # once by hand, once at the start, once as it moved
    versions = [load_bundle(made.folders[kind]).version for kind in ("hazard", "once")]
    assert lines == [f"pulled   made version 1, bundle {versions[0]} (there already)",
                     f"pulled   made version 3, bundle {versions[1]}"]  # fmt: skip
    assert events == [WatchEvent(versions[1], True)]
    assert predictor.info()["kind"] == "once"


def test_following_tells_of_trouble_once_and_goes_on(made: Made, tmp_path: Path) -> None:
    registry, folder = MemoryRegistry(made), tmp_path / "served"
    away = OSError("the tracking store must answer at http://x, got nothing")

    def be_away() -> None:
        registry.trouble = [away, away]

    def nothing() -> None:
        """A look without news."""

    broken = Path(shutil.copytree(made.folders["uptime"], tmp_path / "broken"))
    (broken / "schema.json").write_bytes(b"{}")
    registry.folders[2] = broken
    be_away()  # when it starts, too
    lines = _followed(registry, folder, [
        nothing,
        nothing,
        be_away,
        nothing,
        lambda: registry.pointed.clear(),
        lambda: registry.pointed.update(champion=2),
        nothing,
        lambda: registry.pointed.update(champion=3),
    ])
    assert [line.split()[0] for line in lines] == ["waiting", "pulled", "waiting", "waiting", "refused", "pulled"]
    assert lines[0] == lines[2] == f"waiting  {away}"
    assert lines[3] == "waiting  the alias of made must be one of none yet, got 'champion'"
    assert lines[4].startswith("refused  made version 2: schema.json: sha256 must be")
    assert registry.n_fetched == 3  # the refused version once
    assert load_bundle(folder).version == load_bundle(made.folders["once"]).version


def test_following_what_never_was_ends_at_once(made: Made, tmp_path: Path) -> None:
    registry = MemoryRegistry(made)
    registry.pointed = {"challenger": 2}
    with pytest.raises(ValueError, match="the alias of made must be one of challenger, got 'champion'"):
        _followed(registry, tmp_path / "served", [])


@pytest.fixture(scope="module")
def store(made: Made, new_store: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two registered versions, as `retrain` leaves them."""
    folder = new_store(tmp_path_factory.mktemp("store"))
    tracker = Tracker(TrackingUri.of_file(folder / "mlflow.db"), folder / "artifacts")
    for kind in ("hazard", "once"):
        run = tracker.start(kind, {})
        source = log_bundle(tracker, run, made.folders[kind], made.encoder, made.request(0))
        tracker.set_alias(NAME, CHAMPION, tracker.register(NAME, source, run, "", {}))
    return folder


def _run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["model", "pull", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_the_command_pulls_an_alias_and_a_version(made: Made, store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "served"
    for uri, kind, number in ((f"models:/{NAME}@champion", "once", 2), (f"models:/{NAME}/1", "hazard", 1)):
        code, out, _ = _run(uri, folder, "--store", store)
        version = load_bundle(made.folders[kind]).version
        assert (code, out) == (0, f"pulled   {NAME} version {number}, bundle {version}\nfolder   {folder}\n")
        assert Predictor.load(folder).version == version


@pytest.mark.slow
def test_the_small_extra_pulls_predicts_and_exports(made: Made, store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "served"
    code, out, err = run_without(OF_PIPELINE, "model", "pull", f"models:/{NAME}@champion", str(folder), "--store",
                                 str(store))
    assert (code, err, out.startswith("pulled   made version 2")) == (0, "", True)
    assert load_bundle(folder).version == load_bundle(made.folders["once"]).version
    assert run_without(OF_PIPELINE, "model", "predict", str(folder), '{"cpu_cores": 2}')[0] == 0
    assert run_without(OF_PIPELINE, "model", "export-c", str(folder), "--output", str(tmp_path))[0] == 0


@pytest.mark.parametrize(("arguments", "message"), [
    (("models:/made",), "uri must be models:/NAME@ALIAS or models:/NAME/VERSION, got 'models:/made'"),
    (("models:/none@champion",), "the registered model must be one of made, got 'none'"),
    (("models:/made@challenger",), "the alias of made must be one of champion, got 'challenger'"),
    (("models:/made/3",), "the version of made must be one of 1, 2, got 3"),
    (("models:/made/1", "--follow"), "--follow must be given an alias"),
    (("models:/made@champion", "--follow", "--interval-s", "nan"), "interval_s must be above 0 and below 1e6, got nan"),
    (("models:/made@challenger", "--follow"), "the alias of made must be one of champion, got 'challenger'"),
])  # fmt: skip
def test_the_command_names_what_is_wrong(store: Path, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    uri, *options = arguments
    before = signal.getsignal(signal.SIGTERM)
    code, _, err = _run(uri, tmp_path / "served", "--store", store, *options)
    signal.signal(signal.SIGTERM, before)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(f"error: {message}")
    assert not (tmp_path / "served").exists()


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    code, _, err = _run("models:/made@champion", tmp_path / "served", "--store", tmp_path / "none")
    assert (code, "no store at" in err) == (2, True)
    assert not (tmp_path / "none").exists()


def test_a_server_that_is_away_is_one_line_without_its_password(tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("SOJOURN_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    code, _, err = _run("models:/made@champion", tmp_path / "served")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: the tracking store must answer at http://127.0.0.1:9, got ")
    assert "secret" not in err


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's job in the background inherits that they are ignored


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_ends_cleanly(made: Made, store: Path, tmp_path: Path, number: int) -> None:
    folder = tmp_path / "served"
    arguments = [sys.executable, "-c", "from sojourn.flows.cli import app; app()", "model", "pull",
                 f"models:/{NAME}@champion",
                 str(folder), "--follow", "--interval-s", "0.05", "--store", str(store)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONUNBUFFERED": "1"},
                          preexec_fn=_heed_interrupts) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        watchdog = threading.Timer(120.0, command.kill)
        watchdog.start()
        assert command.stdout.readline().startswith("pulled   made version 2, bundle ")
        command.send_signal(number)
        assert (command.stdout.read(), command.stderr.read()) == ("stopped\n", "")
        watchdog.cancel()
    assert command.returncode == 0
    assert load_bundle(folder).version == load_bundle(made.folders["once"]).version
    assert _siblings(folder) == ["served"]
