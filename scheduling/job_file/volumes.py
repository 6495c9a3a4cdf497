"""Reading what is mounted into a job's containers. A folder of the node is none of it."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from clusters.gpu.reserved import is_reserved_mount, plain_path
from foundation.core.quantities import Mebibytes
from scheduling.job_file.memory import read_memory
from scheduling.job_file.names import read_name, read_source
from scheduling.job_file.section import Section

SOURCES: Final = ("claim", "empty", "config", "secret")
_KEYS: Final = (*SOURCES, "mount", "read_only", "sub_path", "in_memory", "optional")
# What a key has to do with: elsewhere it would be stored and mean nothing.
_ONLY: Final = {"read_only": ("claim",), "in_memory": ("empty",), "optional": ("config", "secret"),
                "sub_path": ("claim", "config", "secret")}  # fmt: skip
_SIZE_MAX: Final = 1 << 30


def read_volumes(job: Section) -> tuple[dict[str, Any], ...]:
    """A job's volumes, each with one source; sizes as Kubernetes writes them."""
    raw = enumerate(job.items("volumes", limit=32))
    found = [_volume(Section.read(item, f"volumes.{index}", _KEYS, job.problems)) for index, item in raw]
    mounts = [plain_path(volume["mount"]) for volume in found]
    if len(set(mounts)) < len(mounts):
        job.add("volumes", "DUPLICATE", _("two volumes have the same mount"))
    return tuple(found)


def _volume(volume: Section) -> dict[str, Any]:
    source = read_source(volume, SOURCES)
    for key, sources in _ONLY.items():
        if volume.has(key) and source not in sources:
            message = _("only for: %(choices)s") % {"choices": ", ".join(sources)}
            volume.add(key, "CONTRADICTION", message)
    found: dict[str, Any] = {source: _size(volume) if source == "empty" else read_name(volume, source)}
    found["mount"] = _mount(volume)
    if source == "claim":
        found["read_only"] = volume.flag("read_only", default=False)
    for key in ("in_memory", "optional"):
        if volume.flag(key, default=False):
            found[key] = True
    if volume.has("sub_path"):
        found["sub_path"] = _sub_path(volume)
    return found


def _size(volume: Section) -> str:
    size = volume.quantity("empty", read_memory, Mebibytes(1))
    if not 1 <= size <= _SIZE_MAX:
        volume.add("empty", "RANGE", _("name its largest size, as in 10Gi"))
    return f"{size}Mi"


def _mount(volume: Section) -> str:
    mount = volume.text("mount", limit=1024)
    if not mount.startswith("/") or ":" in mount:
        volume.add("mount", "FORMAT", _("must be an absolute path, as in /data"))
    elif is_reserved_mount(mount):
        message = _("choose another path: this one is the platform's, or decides which cards are seen")
        volume.add("mount", "RESERVED", message)
    return mount


def _sub_path(volume: Section) -> str:
    path = volume.text("sub_path", limit=1024)
    if not path or path.startswith("/") or ".." in path.split("/"):
        volume.add("sub_path", "FORMAT", _("must be a path below the volume's root, as in run-1/data"))
    return path
