"""Manifests of deploy/: what they name exists, metrics too, and nothing in them may change a cluster in shadow mode."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import ApiClient

from made_bundles import Made
from made_extender import Clock, connect, serving
from made_prometheus import parsed
from sojourn.serving import Predictor
from sojourn.serving.extender.extender import Settings, bind
from sojourn.serving.kubernetes.watcher import Watcher

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kustomize"
NAME = re.compile(r"\bsojourn_[a-z0-9_]+")


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def deployment() -> dict[str, Any]:
    (found,) = [each for each in documents(FOLDER / "base/watcher.yaml") if each["kind"] == "Deployment"]
    return found


def test_every_metric_of_the_board_and_the_alerts_is_exported(made: Made, tmp_path: Path) -> None:
    board = json.loads((FOLDER / "monitoring/board.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    (rules,) = [each for each in documents(FOLDER / "monitoring/prometheus.yaml") if each["kind"] == "PrometheusRule"]
    expressions += [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    client = ApiClient()
    settings = Settings(epoch_s=0, choices_to=tmp_path)
    with serving(bind(Predictor.load(made.folders["hazard"]), "127.0.0.1", 0, settings, Clock(made.trace.horizon_s),
                      feed=Watcher(client))) as server:
        connection = connect(server)
        connection.request("GET", "/metrics")
        _, types, _ = parsed(connection.getresponse().read().decode())
        connection.close()
    client.close()
    exported = {name + part for name, kind in types.items()
                for part in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))}
    named = {name for expression in expressions for name in NAME.findall(expression)}
    assert len(named) > 15
    assert named <= exported


def test_the_board_is_whole() -> None:
    board = json.loads((FOLDER / "monitoring/board.json").read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    taken = [(x, y) for panel in panels for at in [panel["gridPos"]] for x in range(at["x"], at["x"] + at["w"])
             for y in range(at["y"], at["y"] + at["h"])]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24
    assert {target["datasource"]["uid"] for panel in panels for target in panel["targets"]} == {"${datasource}"}


def test_every_file_of_a_kustomization_exists() -> None:
    for path in FOLDER.glob("*/kustomization.yaml"):
        (settings,) = documents(path)
        generated = [name for each in settings.get("configMapGenerator", ()) for name in each["files"]]
        patches = [each["path"] for each in settings.get("patches", ()) if "path" in each]
        for name in (*settings["resources"], *generated, *patches):
            assert (path.parent / name).exists(), (path, name)


def test_the_watcher_may_only_read_pods_and_nodes() -> None:
    (role,) = [each for each in documents(FOLDER / "base/rbac.yaml") if each["kind"] == "ClusterRole"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]}]
    (shadow,) = documents(FOLDER / "shadow/kustomization.yaml")
    assert shadow["resources"] == ["../base"]
    assert "--dry-run" in shadow["patches"][0]["patch"]


def test_containers_are_restricted() -> None:
    spec = deployment()["spec"]["template"]["spec"]
    (second,) = documents(FOLDER / "place/deployment.yaml")
    containers = [*spec["containers"], *second["spec"]["template"]["spec"]["containers"][1:]]
    assert (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"]) == (True, 65532)
    for container in containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


def test_the_scheduler_asks_the_port_and_the_paths_that_are_served() -> None:
    (settings,) = documents(FOLDER / "place/config.yaml")
    (extender,) = settings["extenders"]
    container = deployment()["spec"]["template"]["spec"]["containers"][0]
    assert extender["urlPrefix"] == f"http://127.0.0.1:{container['ports'][0]['containerPort']}"
    assert (extender["filterVerb"], extender["prioritizeVerb"], extender["ignorable"]) == ("filter", "prioritize", True)
    assert container["args"][0] == "sojourn.serving.kubernetes"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize(("overlay", "n_documents"), [("shadow", 8), ("place", 14)])
def test_kubectl_builds_the_overlays(overlay: str, n_documents: int) -> None:
    done = subprocess.run(["kubectl", "kustomize", str(FOLDER / overlay)], capture_output=True, text=True, check=True)
    made_of = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert len(made_of) == n_documents
    (found,) = [each for each in made_of if each["kind"] == "Deployment"]
    containers = found["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in containers] == ["sojourn", "kube-scheduler"][:1 + (overlay == "place")]
    assert ("--dry-run" in containers[0]["args"]) == (overlay == "shadow")
