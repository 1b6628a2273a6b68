"""An API server in memory, for what lists pods or workloads and patches them: merge patches, versions, pages."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any


class MadeCluster:
    """Takes the place of the official client in `ask`. answers: (method, path) -> status and message, not its own.

    now_s: what its `Date` says, None = nothing. on_patch: called before each patch is looked at.
    """

    def __init__(self, *objects: dict[str, Any], now_s: float | None = None) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.now_s, self.version, self.n_patches = now_s, 100, 0
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.on_patch: Callable[[str], object] = lambda path: None
        self.queries: list[dict[str, Any]] = []
        for each in objects:
            self.add(each)

    def add(self, each: dict[str, Any], group: str = "/api/v1", kind: str = "pods") -> str:
        """Store an object; returns its path."""
        names = each["metadata"]
        path = f"{group}/namespaces/{names.get('namespace')}/{kind}/{names.get('name')}"
        self.objects[path] = copy.deepcopy(each)
        self.touch(path)
        return path

    def touch(self, path: str, **annotations: str | None) -> None:
        """Somebody changes an object: annotations are set, or taken away by None."""
        metadata = self.objects[path]["metadata"]
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        present = {**(metadata.get("annotations") or {}), **annotations}
        metadata["annotations"] = {name: value for name, value in present.items() if value is not None}
        if not metadata["annotations"]:
            del metadata["annotations"]

    def annotations(self, path: str) -> dict[str, str]:
        """Those of an object now."""
        return dict(self.objects[path]["metadata"].get("annotations", {}))

    def state(self) -> dict[str, Any]:
        """All objects, without the versions."""
        found = copy.deepcopy(self.objects)
        for each in found.values():
            each["metadata"].pop("resourceVersion", None)
        return found

    def param_serialize(self, method: str, path: str, *, query_params: Any, body: Any, **_: Any) -> tuple[Any, ...]:
        """As the official client's."""
        return method, path, dict(query_params), body

    def call_api(self, method: str, path: str, query: dict[str, Any], body: Any, **_: Any) -> Any:
        """One request."""
        status, document = self._answer(method, path, query, body)
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        headers = {} if self.now_s is None else {"Date": formatdate(self.now_s, usegmt=True)}
        return SimpleNamespace(response=SimpleNamespace(status=status, data=data, headers=headers))

    def _answer(self, method: str, path: str, query: dict[str, Any], body: Any) -> tuple[int, Any]:
        if method == "PATCH":
            self.n_patches += 1
            self.on_patch(path)
        if (method, path) in self.answers:
            status, answer = self.answers[method, path]
            if isinstance(answer, Exception):
                raise answer
            return status, {"kind": "Status", "message": answer} if isinstance(answer, str) else answer
        if method == "GET":
            return self._list(path, query)
        if path not in self.objects:
            return 404, {"message": f"{path} not found"}
        metadata = self.objects[path]["metadata"]
        if body["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            return 409, {"message": "the object has been modified"}
        self.touch(path, **body["metadata"]["annotations"])
        return 200, self.objects[path]

    def _list(self, path: str, query: dict[str, Any]) -> tuple[int, Any]:
        self.queries.append(query)
        *_, kind = path.split("/")
        space = f"/namespaces/{path.split('/')[-2]}/" if "/namespaces/" in path else "/"
        found = [each for at, each in self.objects.items() if at.split("/")[-2] == kind and space in at]
        if "fieldSelector" in query:
            phase = query["fieldSelector"].removeprefix("status.phase=")
            found = [each for each in found if each.get("status", {}).get("phase") == phase]
        start = int(query.get("continue", 0))
        page = found[start:start + 2]  # small pages
        more = {"continue": str(start + 2)} if start + 2 < len(found) else {}
        return 200, copy.deepcopy({"items": page, "metadata": more})
