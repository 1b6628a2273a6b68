"""Whether scorers can tell empty hosts of one shape apart: if they can't, a ranked scan may end at the first of them.

All that the engine keeps of such hosts is equal (`exit_s` too: it is reset when a host empties). So they score alike
where a host's index does nothing but index the cluster's arrays. A scorer that does more with it, such as reading an
array of its own, may score each host as it likes; then every empty host is looked at. What can't be proven is taken
to do more.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from typing import Any

from sojourn.simulator.engine.reached import named_values, plain_function
from sojourn.simulator.policies import PerResource, Policy


def are_empty_hosts_alike(policy: Policy) -> bool:
    """Whether all scorers of the policy provably score empty hosts of one shape alike."""
    scorers = [entry.scorer if isinstance(entry, PerResource) else entry for entry in policy.scorers]
    return all(_only_indexes(plain_function(scorer), 0, frozenset({1})) for scorer in scorers)


@functools.cache
def _only_indexes(plain: Any, cluster_at: int, hosts_at: frozenset[int]) -> bool:
    """Whether the arguments at `hosts_at` only index arrays of the one at `cluster_at`, here and in what is called."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(plain))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return False
    if not isinstance(tree, ast.FunctionDef) or tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs:
        return False
    arguments = [argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args)]
    if max(cluster_at, *hosts_at) >= len(arguments):
        return False
    hosts = {arguments[k] for k in hosts_at}
    clusters = _names_of_cluster(tree, arguments[cluster_at])
    allowed: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_of_cluster(node.value, clusters):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            allowed |= {id(part) for part in parts if isinstance(part, ast.Name)}
        elif isinstance(node, ast.Call) and _passes_on(node, plain, hosts, arguments[cluster_at]):
            allowed |= {id(part) for part in node.args if isinstance(part, ast.Name)}
    return all(isinstance(node.ctx, ast.Load) and id(node) in allowed
               for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in hosts)


def _passes_on(call: ast.Call, plain: Any, hosts: set[str], cluster: str) -> bool:
    """Whether a call gives the host, with the cluster, to a function that does no more with it."""
    names = [part.id if isinstance(part, ast.Name) else "" for part in call.args]
    hosts_at = frozenset(k for k, name in enumerate(names) if name in hosts)
    if not hosts_at or not isinstance(call.func, ast.Name) or names.count(cluster) != 1 or call.keywords:
        return False
    called = plain_function(named_values(plain).get(call.func.id))
    return inspect.isfunction(called) and called is not plain and _only_indexes(called, names.index(cluster), hosts_at)


def _names_of_cluster(tree: ast.FunctionDef, cluster: str) -> set[str]:
    """The cluster's name, and local names that are only ever bound to parts of it: `state = cluster.state`."""
    bound: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            bound.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.setdefault(node.id, []).append(None)
    if cluster in bound:
        return set()
    found = {cluster}
    while True:
        more = {name for name, values in bound.items()
                if all(_is_of_cluster(value, found) for value in values if value is not None)
                and len(values) == 2 * sum(value is not None for value in values)}
        if more <= found:
            return found
        found |= more


def _is_of_cluster(node: ast.expr | None, names: set[str]) -> bool:
    """`cluster`, or `cluster.free`, `cluster.state.mode`, ..."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in names
