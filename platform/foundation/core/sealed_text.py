"""Secrets of other systems, encrypted before they are stored (Fernet: AES-128-CBC with HMAC-SHA-256).

The key is derived from `SECRET_KEY`. Texts sealed with a key in `SECRET_KEY_FALLBACKS` can still be
opened, so the key can be changed without entering every secret again.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

_PURPOSE: Final = b"allotment sealed text 1"


class CannotOpen(ValueError):
    """The text was changed, or sealed with a key that this installation no longer has."""


@lru_cache(maxsize=8)
def _make_cipher(keys: tuple[str, ...]) -> MultiFernet:
    derived = (
        HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(key.encode()) for key in keys
    )
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])


def _get_cipher() -> MultiFernet:
    return _make_cipher((settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


def seal_text(text: str) -> str:
    """Encrypt a secret; an empty text stays empty."""
    return _get_cipher().encrypt(text.encode()).decode("ascii") if text else ""


def open_text(sealed: str) -> str:
    """Decrypt what `seal_text` returned. Raises: CannotOpen."""
    if not sealed:
        return ""
    try:
        return _get_cipher().decrypt(sealed.encode()).decode()
    except (InvalidToken, UnicodeDecodeError) as error:
        raise CannotOpen("the secret can't be decrypted with the present SECRET_KEY") from error
