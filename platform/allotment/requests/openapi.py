"""The address of the OpenAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.utils import translation
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request


class SchemaView(SpectacularAPIView):
    """The OpenAPI document of the REST API, as YAML or JSON.

    It is the same for every caller and takes seconds to generate, so each process generates it once for each
    format.
    """

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """Return the document."""
        renderer = request.accepted_renderer
        name = f"{settings.SPECTACULAR_SETTINGS['TITLE']}.{renderer.format}"
        return HttpResponse(
            _render_schema(renderer.media_type),
            content_type=renderer.media_type,
            headers={"Content-Disposition": f'inline; filename="{name}"'},
        )


@cache
def _render_schema(media_type: str) -> bytes | str:
    renderer = next(each for each in SchemaView.renderer_classes if each.media_type == media_type)
    generator: Any = SchemaView.generator_class
    with translation.override(settings.LANGUAGE_CODE):
        return renderer().render(generator().get_schema(request=None, public=True), renderer_context={})
