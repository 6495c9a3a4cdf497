"""The few calls that the agent makes to the cluster's API, with the standard library alone.

Each call has a time limit. The token is read again for every call: the kubelet renews it in place.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

Pod = Mapping[str, Any]
CALL_S: Final = 10.0
_LABELS: Final = "app.kubernetes.io/managed-by=allotment"
_MERGE: Final = "application/merge-patch+json"
_EXPIRED, _NOT_FOUND, _CONFLICT = 410, 404, 409


class Changed(Exception):
    """The pod was changed since it was read, and has to be read again."""


class Unavailable(ConnectionError):
    """The API did not answer, or refused; the state is unknown."""


class Forgotten(Exception):
    """The API no longer has the changes since the last read: all pods have to be read again."""


@dataclass(frozen=True, slots=True)
class AgentApi:
    """The API server at `server`, called with the agent's account. `certificate_file`: its authority."""

    server: str
    token_file: Path
    certificate_file: Path

    def list_pods(self, node: str) -> tuple[list[Pod], str]:
        """Return the platform's pods on a node, and the version to watch from. Raises: Unavailable."""
        page = self._call("GET", f"/api/v1/pods?{_query(node)}")
        return page.get("items") or [], str(page["metadata"]["resourceVersion"])

    def follow_pods(self, node: str, version: str, *, seconds: int) -> Iterator[Pod]:
        """Yield the pods that are created or changed within that time. Raises: Unavailable, Forgotten."""
        query = _query(node, watch="1", resourceVersion=version, timeoutSeconds=seconds)
        connection = self._connect(seconds + CALL_S)
        try:
            answer = self._send(connection, "GET", f"/api/v1/pods?{query}")
            while line := answer.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Forgotten(str(event["object"].get("message", "")))
                if event["type"] != "DELETED":
                    yield event["object"]
        except (OSError, HTTPException, ValueError) as error:
            raise Unavailable(f"watching the pods: {error}") from error
        finally:
            connection.close()

    def annotate_pod(self, pod: Pod, annotations: Mapping[str, str]) -> Pod:
        """Write annotations on the pod exactly as it was read. Raises: Changed, Unavailable."""
        known = pod["metadata"]
        metadata = {
            "uid": known["uid"],
            "resourceVersion": known["resourceVersion"],
            "annotations": dict(annotations),
        }
        path = f"/api/v1/namespaces/{known['namespace']}/pods/{known['name']}"
        return self._call("PATCH", path, {"metadata": metadata})

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        connection = self._connect(CALL_S)
        try:
            parsed: dict[str, Any] = json.loads(self._send(connection, method, path, body).read())
            return parsed
        except (OSError, HTTPException, ValueError) as error:
            if isinstance(error, Unavailable):
                raise
            raise Unavailable(f"{method} {path}: {error}") from error
        finally:
            connection.close()

    def _send(
        self, connection: HTTPConnection, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> HTTPResponse:
        token = self.token_file.read_text(encoding="ascii").strip()
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = _MERGE
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status == _EXPIRED:
            raise Forgotten(path)
        if answer.status in (_NOT_FOUND, _CONFLICT):
            raise Changed(f"{method} {path}: {answer.status}")
        if answer.status >= 400:
            raise Unavailable(f"{method} {path}: {answer.status} {answer.read(300).decode(errors='replace')}")
        return answer

    def _connect(self, limit_s: float) -> HTTPConnection:
        address = urlsplit(self.server)
        context = ssl.create_default_context(cafile=str(self.certificate_file))
        return HTTPSConnection(address.hostname or "", address.port, timeout=limit_s, context=context)


def _query(node: str, **more: str | int) -> str:
    return urlencode({"fieldSelector": f"spec.nodeName={node}", "labelSelector": _LABELS, **more})
