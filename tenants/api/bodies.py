"""Bodies of requests: declared fields only."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers


class StrictSerializer(serializers.Serializer[Any]):
    """A body whose unknown fields are mistakes, not silence."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(self.initial_data) - set(self.fields))
        if unknown:
            message = _("There is no such field; there are: %(known)s") % {"known": ", ".join(self.fields)}
            raise serializers.ValidationError(dict.fromkeys(unknown, message), code="unknown")
        return attrs
