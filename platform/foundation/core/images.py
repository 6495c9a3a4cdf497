"""Images that users upload: the accepted types, recognized by their first bytes and not by their names.

SVG is refused: it is a document that may contain scripts and links.
"""

from __future__ import annotations

from typing import Final

_RIFF, _WEBP, _FOUR_CC = b"RIFF", b"WEBP", slice(8, 12)
_STARTS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
}


def find_image_type(data: bytes) -> str:
    """Return the media type of a PNG, JPEG or WebP image; "" for any other data."""
    if data.startswith(_RIFF) and data[_FOUR_CC] == _WEBP:
        return "image/webp"
    return next((kind for start, kind in _STARTS.items() if data.startswith(start)), "")
