"""Traces that SimKube exports, versions 2 and 3, as msgpack and as JSON; made after its docs and its test data."""

import json
from pathlib import Path
from typing import Any

import msgpack
import pandas as pd
import pytest
from hypothesis import given, settings

from made_pods import SIX_S
from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features.readers import read_trace

KIND, NAME = "apps/v1.Deployment", "default/web"


def owner(cores: str, name: str = "web") -> dict[str, Any]:
    """A Deployment of pods with so many cores, as the tracer writes it."""
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"}, "spec": {
        "replicas": 2, "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [
            {"name": "main", "image": "nginx:1.14.2", "resources": {"requests": {"cpu": cores, "memory": "1Gi"}}}]}}}}


def exported(version: int = 3) -> dict[str, Any]:
    """Two pods of a first template, one of a second, one that still runs and one that never ran."""
    trace: dict[str, Any] = {
        "version": version,
        "config": {"trackedObjects": {KIND: {"podSpecTemplatePaths": ["/spec/template"], "trackLifecycle": True}}},
        "events": [{"ts": SIX_S, "applied_objs": [owner("1")], "deleted_objs": []},
                   {"ts": SIX_S + 600, "applied_objs": [owner("2")], "deleted_objs": []},
                   {"ts": SIX_S + 3_600, "applied_objs": [], "deleted_objs": [owner("2")]}],
    }  # fmt: skip
    first = [{"Finished": [SIX_S + 5, SIX_S + 605]}, {"Finished": [SIX_S + 5, SIX_S + 700]}]
    second = [{"Finished": [SIX_S + 610, SIX_S + 3_000]}, {"Running": SIX_S + 700}, "Empty"]
    if version == 2:
        return trace | {"index": {KIND: {NAME: 7}}, "pod_lifecycles": {(KIND, NAME): {11: first, 12: second}}}
    return trace | {"index": {KIND: {NAME: {SIX_S: [{"lifecycle": each} for each in first],
                                            SIX_S + 600: [{"lifecycle": each} for each in second]}}}}


def rows(path: Path) -> list[list[Any]]:
    """Arrival and departure after 06:00 and cores of each pod."""
    dated, report = read_trace("kubernetes", path)
    trace = dated.since_begin()
    assert report.n_read == 5 and dict(report.refused) == {"never ran (Empty)": 1}
    assert (dated.begin_s, dated.horizon_s) == (SIX_S, SIX_S + 3_600)
    assert set(trace.requests["controller"]) == {"default/Deployment/web"}
    return [[None if pd.isna(each) else each for each in row]
            for row in trace.requests[["arrival_s", "departure_s", "cpu_cores"]].values.tolist()]


def test_version_3_gives_each_pod_the_size_of_its_owner_then(tmp_path: Path) -> None:
    packed, plain = tmp_path / "trace", tmp_path / "trace.json"
    packed.write_bytes(msgpack.packb(exported()))
    plain.write_text(json.dumps(exported()))
    assert rows(packed) == rows(plain) == [[5, 605, 1.0], [5, 700, 1.0], [610, 3_000, 2.0], [700, None, 2.0]]


def test_version_2_gives_all_pods_the_owners_first_size(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(msgpack.packb(exported(2)))
    assert rows(path) == [[5, 605, 1.0], [5, 700, 1.0], [610, 3_000, 1.0], [700, None, 1.0]]


@pytest.mark.parametrize(("content", "message"), [
    (msgpack.packb(exported())[:-40], "must be whole msgpack"),
    (msgpack.packb([{"trackedObjects": {}}, []]), "must be a map with a version, got a list .traces before SimKube 2"),
    (msgpack.packb({"version": 1}), "version must be 2 or 3, got 1"),
    (msgpack.packb(exported() | {"index": {}}), "must hold at least one pod that ran"),
    (json.dumps(exported(2) | {"pod_lifecycles": {"a": {}}}).encode(), "keys of pod_lifecycles must be pairs"),
    (json.dumps(exported())[:-9].encode(), "must hold whole JSON documents, got one cut short"),
    (b'{"version": 3, "events": 7, "index": []}', "must hold at least one pod that ran"),
])
def test_what_is_no_such_trace_raises(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"trace: {message}"):
        read_trace("kubernetes", path)


@pytest.mark.parametrize(("lifecycle", "rule"), [
    ({"Finished": [SIX_S]}, "lifecycle must be Finished with start and end, or Running with a start"),
    ({"Finished": [SIX_S + 9, SIX_S]}, "end before start"),
    ({"Running": "soon"}, "lifecycle must be Finished with start and end, or Running with a start"),
    (7, "lifecycle must be Finished with start and end, or Running with a start"),
])
def test_a_wrong_lifecycle_is_refused_and_the_others_are_read(tmp_path: Path, lifecycle: Any, rule: str) -> None:
    trace = exported()
    trace["index"][KIND][NAME][SIX_S].append({"lifecycle": lifecycle})
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    read, report = read_trace("kubernetes", path)
    assert len(read) == 4 and report.refused[rule] == 1


def test_a_pod_of_an_owner_without_a_template_is_refused(tmp_path: Path) -> None:
    trace = exported()
    trace["index"][KIND]["default/other"] = {SIX_S: [{"lifecycle": {"Running": SIX_S}}]}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    assert read_trace("kubernetes", path)[1].refused["owner must be in the trace with a template"] == 1


@settings(max_examples=200, deadline=None)
@given(edits=EDITS)
@pytest.mark.parametrize("whole", [msgpack.packb(exported(2)), json.dumps(exported()).encode()], ids=["2", "3"])
def test_mutated_exports_are_read_or_refused_never_worse(tmp_path: Path, whole: bytes, edits: Edits) -> None:
    path = tmp_path / "trace"
    path.write_bytes(mutated(whole, edits))
    check_read_or_refused("kubernetes", path)
