"""A small task of each track."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bench.tasks import DATA, VERSION, Task, load_task, table_digest
from sojourn.features.synthetic import synthesize

SWF = "".join(f"{job:5} {70 * job} -1 {run_s} {size} -1 -1 {size} {limit_s} -1 1 {user} 1 -1 -1 -1 -1 -1\n"
              for job, (run_s, limit_s, size, user) in enumerate(
                  [(300, 600, 2, 1), (50, 900, 1, 2), (200, 900, 3, 1), (90, 200, 1, 3)] * 30, 1))
HEAD = "; UnixStartTime: 749458803\n; MaxProcs: 4\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small task of each track, in a folder with the log that one of them names."""
    made = tmp_path_factory.mktemp("tasks")
    (made / "tiny.swf").write_text(HEAD + SWF)
    digest = hashlib.sha256((HEAD + SWF).encode()).hexdigest()
    words = f'version = {VERSION}\n[source]\nwhere = "made"\nlicence = "none"\n'
    (made / "predict-tiny-lite.toml").write_text(
        f'track = "predict"\n{words}reader = "synthetic"\nn_requests = 1500\nseed = 3\ndays = 20\n'
        f'sha256 = "{table_digest(synthesize(1500, seed=3, days=20.0))}"\n'
        "[predict]\ntest_shares = [0.6, 0.8]\nn_requests = 60\nlong_s = 3600\nseed = 5\n")
    (made / "place-tiny-lite.toml").write_text(
        f'track = "place"\n{words}reader = "synthetic"\nn_requests = 1500\nseed = 3\ndays = 20\n'
        f'sha256 = "{table_digest(synthesize(1500, seed=3, days=20.0))}"\n[place]\ntest_share = 0.7\n'
        'curves = "oracle"\nloads = [0.7, 0.9]\nn_arrangements = 2\ncpu_cores = 16\nmem_gib = 64\nseed = 5\n')
    (made / "end-tiny-lite.toml").write_text(
        (made / "place-tiny-lite.toml").read_text().replace('"place"', '"end"').replace("[place]", "[end]")
        .replace('curves = "oracle"\n', ""))
    (made / "queue-tiny-lite.toml").write_text(
        f'track = "queue"\n{words}reader = "swf"\nfiles = [{{ path = "tiny.swf", sha256 = "{digest}" }}]\n'
        "[queue]\ntest_share = 0.5\nwarmup_s = 600\nblock_s = 1200\nseed = 5\n")
    return made


@pytest.fixture(scope="module")
def predict(folder: Path) -> Task:
    return load_task("predict-tiny-lite", folder)


@pytest.fixture(scope="module")
def queue(folder: Path) -> Task:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA, str(folder))
        task = load_task("queue-tiny-lite", folder)
        assert len(task.jobs) == 60 and len(task.before) > 50
        return task


@pytest.fixture(scope="module")
def place(folder: Path) -> Task:
    return load_task("place-tiny-lite", folder)


@pytest.fixture(scope="module")
def end(folder: Path) -> Task:
    return load_task("end-tiny-lite", folder)
