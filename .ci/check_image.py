"""Runs the steps of deploy/Containerfile without a registry, and serves from their result in a chroot.

The RUN steps of the first stage write into an empty folder, whose size with the base's must be below
250 MB. Then a root folder is made of that folder and this Python, with nothing else of this machine: its files
belong to root, and the server runs in it with the image's ENTRYPOINT and ENV as its user, who may
write in one folder only (a cluster's volume), as under `readOnlyRootFilesystem`. Without root's
rights there is no chroot: then only steps and size are checked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASE_MB = 53
"""gcr.io/distroless/python3-debian12, unpacked; that of its Debian packages (docs/extender/deploy.md)."""
LIMIT_MB = 250
EXTENSION = "sojourn/serving/native/compiled.abi3.so"
PORT = 18_899
URL = f"http://127.0.0.1:{PORT}"
POD_LIST = ROOT / "tests/serving/extender/extender_examples/pod_list.json"
SERVE = ("sojourn.serving.extender", "/app/sojourn/serving/example", "--host", "127.0.0.1", "--port", str(PORT),
         "--log-to", "/var/lib/sojourn/log", "--dry-run")


def instructions(stage: str) -> list[tuple[str, str]]:
    """Instructions of a stage, by its name: their first word and the rest."""
    text = (ROOT / "deploy" / "Containerfile").read_text().replace("\\\n", " ")
    found: list[tuple[str, str]] = []
    is_wanted = False
    for line in filter(None, (line.strip() for line in text.splitlines() if not line.startswith("#"))):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            is_wanted = rest.endswith(f" AS {stage}")
        elif is_wanted:
            found.append((word, rest.strip()))
    return found


def built(app: Path) -> None:
    """Run the RUN steps of the build stage; they write into `app`."""
    steps = [rest for word, rest in instructions("build") if word == "RUN"]
    programs = Path(sys.executable).parent
    values = {**os.environ, "SRC": str(ROOT), "APP": str(app), "PATH": f"{programs}:{os.environ['PATH']}",
              "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_QUIET": "2"}
    for step in steps:
        subprocess.run(["sh", "-ec", step.replace("pip ", f"{shlex.quote(sys.executable)} -m pip ", 1)
                        if step.startswith("pip ") else step], check=True, env=values)
    if not (app / EXTENSION).is_file():
        sys.exit(f"the image must hold {EXTENSION}, got none")


def size_mb(folder: Path) -> float:
    """Sizes of all files, in MB of 10^6 bytes; links are not followed."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()) / 1e6


def put_python(root: Path, app: Path) -> None:
    """This Python as /usr/bin/python3 of a root folder, with its own and the application's shared libraries."""
    program = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, root / library.relative_to("/"), symlinks=True, ignore=shutil.ignore_patterns(
        "site-packages", "dist-packages", "test", "tests", "__pycache__", "idlelib", "ensurepip", "config-*"))
    (root / "usr/bin").mkdir(parents=True)
    copied = root / program.relative_to("/")
    copied.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(program, copied)
    if copied != root / "usr/bin/python3":
        (root / "usr/bin/python3").symlink_to(program)
    objects = [program, *library.rglob("*.so"), *app.rglob("*.so*")]
    listed = subprocess.run(["ldd", *map(str, objects)], capture_output=True, text=True, check=False).stdout
    for name in sorted(set(re.findall(r"(/\S+) \(0x", listed))):
        target = root / name.lstrip("/")
        if not target.exists() and not name.startswith(str(app)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(name).resolve(), target)


def serve(root: Path) -> str:
    """What the image answers when it runs in the chroot as its user; the log must be written."""
    words = dict(instructions("serving"))
    user, variables = words["USER"], words["ENV"].split()
    state = root / "var/lib/sojourn"
    state.mkdir(parents=True)
    os.chown(state, *map(int, user.split(":")))
    chroot = shutil.which("chroot", path=os.defpath + ":/usr/sbin:/sbin") or "chroot"
    command = ["env", "-i", *variables, chroot, f"--userspec={user}", str(root), *json.loads(words["ENTRYPOINT"])]
    ran(*command, *json.loads(words["CMD"]))
    writable = ran(*command[:-1], "-c", "import os; print(*(d for d, _, _ in os.walk('/') if os.access(d, os.W_OK)))")
    if writable.split() != ["/var/lib/sojourn"]:
        sys.exit(f"user {user} may write in /var/lib/sojourn only, got {writable}")
    started_s = time.monotonic()
    # without /proc, the libraries warn that they do not know the processor
    with subprocess.Popen([*command, *SERVE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        server.stdout.readline()
        waited_s = time.monotonic() - started_s
        request = urllib.request.Request(f"{URL}/running", POD_LIST.read_bytes(), {"Content-Type": "application/json"})
        try:
            for each in (f"{URL}/healthz", request, f"{URL}/readyz"):  # another status than 200 raises
                urllib.request.urlopen(each, timeout=10).close()
        finally:
            server.terminate()
    if server.returncode or not list(state.glob("log/decisions-*.log")):
        sys.exit(f"the image must log and end with 0, got {server.returncode} and {list(state.rglob('*'))}")
    return f"serves after {waited_s:.1f} s as {user}, who may write in {writable.strip()} only"


def ran(*command: str) -> str:
    """What a command prints; its errors are shown if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} must end with 0, got {done.returncode} and {done.stderr}")
    return done.stdout


def main() -> None:
    """Build, measure and serve; another exit code than 0 if one of them fails."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        app = root / "app"
        app.mkdir(parents=True)
        root.chmod(0o755)
        Path(folder).chmod(0o755)
        built(app)
        own_mb = size_mb(app)
        print(f"image: {own_mb:.0f} MB of packages and {BASE_MB} MB of base, of at most {LIMIT_MB}", flush=True)
        if own_mb + BASE_MB > LIMIT_MB:
            sys.exit(f"the image must be at most {LIMIT_MB} MB, got {own_mb + BASE_MB:.0f}")
        if os.geteuid() == 0:
            put_python(root, app)
            print(f"image: {serve(root)}")
        else:
            print("image: not served, for a chroot needs root's rights")


if __name__ == "__main__":
    main()
