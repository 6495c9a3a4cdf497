"""Reading how a container is asked whether it is well, and what it does before it is stopped."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from scheduling.job_file.names import read_source
from scheduling.job_file.section import Section

PROBES: Final = ("startup", "readiness", "liveness")
_ACTIONS: Final = ("command", "http", "tcp")
_TIMES: Final = {
    "delay_s": (0, 0, 3600), "period_s": (10, 1, 3600), "timeout_s": (1, 1, 300),
    "failures": (3, 1, 1000), "successes": (1, 1, 100),
}  # fmt: skip
_PORT_MAX: Final = 65_535
_SLEEP_MAX_S: Final = 300


def read_probes(role: Section) -> dict[str, Any]:
    """By kind, an action and its times; a time that is not named is Kubernetes' own."""
    part = role.section("probes", PROBES)
    return {kind: _probe(part, kind) for kind in PROBES if part.has(kind)}


def read_pre_stop(role: Section) -> dict[str, Any]:
    """What a container does when it is told to leave, within its grace: a command, a call, or waiting."""
    if not role.has("pre_stop"):
        return {}
    kinds = ("command", "http", "sleep_s")
    part = role.section("pre_stop", kinds)
    kind = read_source(part, kinds)
    if kind == "sleep_s":
        return {"sleep_s": part.integer("sleep_s", default=1, low=1, high=_SLEEP_MAX_S)}
    return {kind: _action(part, kind)}


def _probe(probes: Section, kind: str) -> dict[str, Any]:
    part = probes.section(kind, (*_ACTIONS, *_TIMES))
    action = read_source(part, _ACTIONS)
    found: dict[str, Any] = {action: _action(part, action)}
    for key, (default, low, high) in _TIMES.items():
        if part.has(key):
            found[key] = part.integer(key, default=default, low=low, high=high)
    if kind != "readiness" and found.get("successes", 1) != 1:
        part.add("successes", "CONTRADICTION", _("only readiness may ask for more than one"))
    return found


def _action(part: Section, kind: str) -> Any:
    if kind == "command":
        command = list(part.texts("command", limit=64))
        if not command:
            part.add("command", "REQUIRED", _("name the program to run, as in [cat, /ready]"))
        return command
    if kind == "tcp":
        return part.integer("tcp", default=1, low=1, high=_PORT_MAX)
    http = part.section("http", ("path", "port", "scheme"))
    if not http.has("port"):
        http.add("port", "REQUIRED", _("name the port, as in 8080"))
    path = http.text("path", default="/", limit=1024)
    if not path.startswith("/"):
        http.add("path", "FORMAT", _("must be an absolute path, as in /data"))
    found: dict[str, Any] = {"path": path, "port": http.integer("port", default=1, low=1, high=_PORT_MAX)}
    if http.has("scheme"):
        found["scheme"] = http.choice("scheme", ("HTTP", "HTTPS"), default="HTTP")
    return found
