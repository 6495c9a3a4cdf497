"""Prices of pools: `admin/prices`."""

from __future__ import annotations

import uuid
from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core import clock
from quotas.selectors.pools.flavor import list_flavors
from quotas.services.quota_amounts import select_flavor
from telemetry.api.usage_serializers import PriceCreateSerializer, PriceSerializer
from telemetry.usage.prices import PRICE_COLUMNS, price_create, price_delete, price_get, price_list
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.bodies import read_body
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import problem_responses


class PricesQuery(ListQuery):
    columns: ClassVar = PRICE_COLUMNS


class AdminPricesView(PlatformView):
    """All prices."""

    points: ClassVar = {"GET": Permission.CLUSTER_VIEW, "POST": Permission.CLUSTER_EDIT}

    @extend_schema(
        operation_id="admin_price_list",
        summary="Prices of pools, latest first",
        parameters=[PricesQuery],
        responses={200: list_of(PriceSerializer), **problem_responses(400)},
        tags=["usage"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of prices."""
        return list_response(request, PricesQuery, price_list(self.viewer), PriceSerializer)

    @extend_schema(
        operation_id="admin_price_create",
        summary="Set the price of a pool from a time on",
        description="Prices in effect never change; a later price replaces them from its time on.",
        request=PriceCreateSerializer,
        responses={201: PriceSerializer, **problem_responses(400, 404, 409)},
        tags=["usage"],
    )
    def post(self, request: Request) -> Response:
        """Create it."""
        read_query(request, NoQuery)
        values = read_body(PriceCreateSerializer, request)
        made = price_create(
            acting_user=self.viewer,
            flavor=select_flavor(list_flavors(), values["flavor"], values["cluster"]),
            gpu_hour=values["gpu_hour"],
            slice_hour=values["slice_hour"],
            effective_at=values["effective_at"],
            now=clock.now(),
        )
        headers = {"Location": f"{request.path}/{made.pk}"}
        return Response(PriceSerializer(price_get(self.viewer, made.pk)).data, status=201, headers=headers)


class AdminPriceView(PlatformView):
    """One price."""

    points: ClassVar = {"GET": Permission.CLUSTER_VIEW, "DELETE": Permission.CLUSTER_EDIT}

    @extend_schema(
        operation_id="admin_price_get",
        summary="Get a price",
        responses={200: PriceSerializer, **problem_responses(400, 404)},
        tags=["usage"],
    )
    def get(self, request: Request, price: uuid.UUID) -> Response:
        """Return the price."""
        read_query(request, NoQuery)
        return Response(PriceSerializer(price_get(self.viewer, price)).data)

    @extend_schema(
        operation_id="admin_price_delete",
        summary="Delete a price that has not taken effect",
        responses={204: None, **problem_responses(400, 404, 409)},
        tags=["usage"],
    )
    def delete(self, request: Request, price: uuid.UUID) -> Response:
        """Delete it."""
        read_query(request, NoQuery)
        price_delete(acting_user=self.viewer, price=price_get(self.viewer, price), now=clock.now())
        return Response(status=204)
