"""Icons of the lucide package as inline SVG."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import resources
from io import BytesIO
from typing import Final
from xml.etree import ElementTree
from zipfile import ZipFile

from django.utils.safestring import SafeString

_NAMESPACE: Final = "{http://www.w3.org/2000/svg}"


@lru_cache(maxsize=256)
def draw_icon(name: str, size: int) -> SafeString:
    """Return a decorative icon; `size` is in pixels. Raises: KeyError when the package has no such icon."""
    svg = ElementTree.fromstring(_open_archive().read(f"{name}.svg"))  # noqa: S314 (a file of the package)
    for node in svg.iter():
        node.tag = node.tag.removeprefix(_NAMESPACE)
    svg.attrib |= {"width": str(size), "height": str(size), "aria-hidden": "true", "focusable": "false"}
    return SafeString(ElementTree.tostring(svg, encoding="unicode"))


@cache
def _open_archive() -> ZipFile:
    """Open the archive of the package once; the package opens it anew for each icon."""
    return ZipFile(BytesIO((resources.files("lucide") / "lucide.zip").read_bytes()))
