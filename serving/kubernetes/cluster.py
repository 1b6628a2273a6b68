"""A connection to a cluster's API server, by the official client: where it is, credentials, time limits, user agent.

    parser = argparse.ArgumentParser(...)
    add_cluster_options(parser)                                  # --kubeconfig FILE, --context NAME
    options = parser.parse_args()
    client = open_cluster(options.kubeconfig, options.context)   # an ApiClient, for CoreV1Api(client) and for `ask`
    response = ask(client, "GET", "/api/v1/pods", {"limit": 500})
    document = json.loads(response.data)

`ask` gives raw answers, of any status: the client's model classes are too slow for whole clusters.
An `ApiClient` is shared by threads. Nothing is asked twice: the caller knows what may be repeated.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, incluster_config, load_incluster_config, load_kube_config
from yaml import YAMLError

TIMEOUTS_S = (10.0, 60.0)
"""To connect; and between two pieces of an answer."""
CONNECTION_ERRORS = (urllib3.exceptions.HTTPError, ApiException, ConfigException, OSError)
"""What `ask`, and reading its answer, raise if the server is away, TLS fails or credentials cannot be read anew."""
_USER_AGENT = "sojourn"
_N_CONNECTIONS = 4


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add --kubeconfig and --context."""
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE",
                        help="how to reach the cluster (default: the service account of the pod that this runs in, "
                             "else $KUBECONFIG, else ~/.kube/config)")
    parser.add_argument("--context", metavar="NAME", help="context of that file (default: its current one)")


def open_cluster(kubeconfig: Path | None = None, context: str | None = None) -> ApiClient:
    """A client of the cluster; nothing is sent yet. ValueError if the configuration cannot be used.

    Without a file and a context, the pod's service account is used if it has one; its token is read
    again as it changes. Kubeconfig files are never written to.
    """
    configuration = Configuration()
    try:
        if kubeconfig is None and context is None and Path(incluster_config.SERVICE_TOKEN_FILENAME).is_file():
            load_incluster_config(configuration)
        else:
            load_kube_config(None if kubeconfig is None else str(kubeconfig), context, configuration,
                             persist_config=False)
    except (ConfigException, OSError, YAMLError, ValueError, TypeError, KeyError, AttributeError) as error:
        where = "the cluster's configuration" if kubeconfig is None else f"kubeconfig {str(kubeconfig)!r}"
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{where} must lead to a cluster, got: {reason}") from error
    configuration.retries = False  # of urllib3: a second try must be counted, and wait
    configuration.connection_pool_maxsize = _N_CONNECTIONS
    client = ApiClient(configuration)
    client.user_agent = _USER_AGENT
    return client


def ask(client: ApiClient, method: str, path: str, query: Mapping[str, str | int] | None = None, *, body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeouts_s: tuple[float, float] = TIMEOUTS_S) -> urllib3.HTTPResponse:
    """The server's answer, its body unread (`.data` reads it all, `.stream()` as it comes), whatever its status.

    headers: `Accept`, and with a body `Content-Type`; JSON by default. Call `release_conn` or
    `close` on an answer that is not read to its end. Raises CONNECTION_ERRORS.
    """
    all_headers = {"Accept": "application/json", **(headers or {})}
    if body is not None:
        all_headers.setdefault("Content-Type", "application/json")
    request = client.param_serialize(method, path, query_params=list((query or {}).items()),
                                     header_params=all_headers, body=body, auth_settings=["BearerToken"])
    response: urllib3.HTTPResponse = client.call_api(*request, _request_timeout=timeouts_s).response
    return response
