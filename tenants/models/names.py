"""The names that tenants, roles, groups and service accounts may have."""

from __future__ import annotations

import unicodedata
from typing import Final

from django.conf import settings
from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid
from foundation.core.identifiers import dns_label, is_dns_label

_NOT_IN_NAMES: Final = frozenset("/\\<>")
_OF_KUBERNETES: Final = "kube-"
_RESERVED: Final = frozenset({"default", "allotment"})


def clean_name(text: str, *, field: str = "name", longest: int = 120) -> str:
    """Return the name as it is stored: composed characters, single spaces.

    It is printable, has a letter or digit, and none of `/ \\ < >`, which separate names elsewhere. Raises:
    Invalid naming `field`.
    """
    name = " ".join(unicodedata.normalize("NFC", text).split())
    sound = name.isprintable() and any(c.isalnum() for c in name) and not _NOT_IN_NAMES & set(name)
    if not sound or len(name) > longest:
        message = _(
            "Names have at most %(longest)s characters, at least one letter or digit, and none of / \\ < >."
        )
        raise _wrong(field, "name", message % {"longest": longest})
    return name


def clean_slug(text: str, *, field: str = "slug") -> str:
    """Return the short name, from which addresses and Kubernetes namespaces are built.

    Raises: Invalid naming `field`.
    """
    if not is_dns_label(text):
        message = _("Invalid tenant ID %(name)s. Use lowercase letters, digits and hyphens.")
        raise _wrong(field, "slug", message % {"name": text})
    if is_reserved(text):
        message = _("Namespace %(name)s belongs to Kubernetes or the platform.")
        raise _wrong(field, "reserved", message % {"name": text})
    return text


def is_reserved(slug: str) -> bool:
    """Return whether a namespace of that name belongs to Kubernetes or to the platform itself."""
    own = settings.ALLOTMENT_NAMESPACE
    return slug in _RESERVED or slug == own or slug.startswith(_OF_KUBERNETES)


def slug_of(name: str) -> str:
    """Return a slug of a name that has Latin letters or digits.

    Raises: Invalid naming `slug` for a name without any, because slugs of such names would be alike.
    """
    if not any(c.isascii() and c.isalnum() for c in name):
        raise _wrong("slug", "required", _("Enter an ID of lowercase letters, digits and hyphens."))
    return dns_label(name)


def same_name(one: str, other: str) -> bool:
    """Return whether two names differ at most in case or Unicode form of letters."""
    return _folded(one) == _folded(other)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _wrong(field: str, code: str, message: str) -> Invalid:
    return Invalid(message, errors=[FieldError(field, code, message)])
