"""`allotment simulate`: faults and pace of a simulated cluster."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from clusters.backends.base import BackendUnavailable
from clusters.backends.simulated import faults
from clusters.models import BackendKind, Cluster
from foundation.core.errors import AllotmentError
from foundation.core.numbers import read_whole

_FORMS: Final = (
    "node fail|cordon|silence|recover NAME",
    "device fail|throttle|stray|overuse|recover UUID",
    "device xid UUID CODE",
    "api fail|recover",
    "speed X",
)
_USAGE: Final = 2
_NAMED: Final[dict[tuple[str, str], tuple[Callable[[uuid.UUID, str], None], str]]] = {
    ("node", "fail"): (faults.node_fail, "Node {} failed"),
    ("node", "cordon"): (faults.node_cordon, "Node {} cordoned"),
    ("node", "silence"): (faults.node_silence, "Node {} delivers no measurements for an hour"),
    ("node", "recover"): (faults.node_recover, "Node {} ready"),
    ("device", "fail"): (faults.device_fail, "GPU {} failed"),
    ("device", "throttle"): (faults.device_throttle, "GPU {} throttled"),
    ("device", "stray"): (faults.device_stray, "Process without a pod started on GPU {}"),
    ("device", "overuse"): (faults.device_overuse, "A pod on GPU {} ignores its limits"),
    ("device", "recover"): (faults.device_recover, "GPU {} healthy"),
}


class Command(BaseCommand):
    help = "Inject faults into a simulated cluster or change its speed: " + "; ".join(_FORMS)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("words", nargs="+", metavar="WHAT", help=" | ".join(_FORMS))
        parser.add_argument("--cluster", metavar="NAME", help="required with more than one simulated cluster")
        parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = _cluster(options["cluster"])
        try:
            message = _carry_out(cluster.pk, options["words"])
        except AllotmentError as error:
            raise CommandError(f"cluster {cluster.name}: {error.detail}", returncode=_USAGE) from error
        except BackendUnavailable as error:
            raise CommandError(f"cluster {cluster.name}: {error}") from error
        result = {"cluster": cluster.name, "command": " ".join(options["words"]), "message": message}
        self._report(result, options["json"])

    def _report(self, result: dict[str, str], file: str | None) -> None:
        text = json.dumps(result, ensure_ascii=False)
        if file == "-":
            self.stdout.write(text)
            return
        self.stdout.write(f"cluster {result['cluster']}: {result['message']}")
        if file is not None:
            try:
                Path(file).write_text(text + "\n", encoding="utf-8")
            except OSError as error:
                raise CommandError(f"--json {file}: {error.strerror}", returncode=_USAGE) from error


def _cluster(name: str | None) -> Cluster:
    clusters = Cluster.unscoped.filter(backend=BackendKind.SIMULATED).order_by("name")
    if name is not None:
        clusters = clusters.filter(name=name)
    found = list(clusters[:2])
    if len(found) == 1:
        return found[0]
    if found:
        raise CommandError(
            "there are several simulated clusters; choose one with --cluster", returncode=_USAGE
        )
    which = f"Simulated cluster {name!r} not found" if name else "No simulated cluster"
    raise CommandError(which, returncode=_USAGE)


def _carry_out(cluster_id: uuid.UUID, words: list[str]) -> str:
    match words:
        case ["node" | "device" as kind, verb, name] if (kind, verb) in _NAMED:
            act, message = _NAMED[kind, verb]
            act(cluster_id, name)
            return message.format(name)
        case ["device", "xid", name, code]:
            faults.device_xid(cluster_id, name, _read_code(code))
            return f"XID {code} reported for GPU {name}"
        case ["api", "fail" | "recover" as verb]:
            faults.set_reachable(cluster_id, verb == "recover")
            return "API server restored" if verb == "recover" else "API server stopped"
        case ["speed", number]:
            speed = _speed(number)
            faults.set_speed(cluster_id, speed)
            return f"speed set to {speed:g}x"
    raise CommandError(f"{' '.join(words)!r} is none of: {'; '.join(_FORMS)}", returncode=_USAGE)


def _read_code(text: str) -> int:
    code = read_whole(text)
    if code is None:
        raise CommandError(f"XID code {text!r} is not a number", returncode=_USAGE)
    return code


def _speed(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise CommandError(f"speed {text!r} is not a number", returncode=_USAGE) from error
