"""`GET admin/quota-requests/{quota_request}/lacks`: the quota that is missing to approve a request."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.models import RequestState
from quotas.selectors.changes.quota_request import quota_request_get
from quotas.selectors.changes.request_lack import find_request_lacks, read_asked_quota
from quotas.selectors.tables.quota_sources import QuotaLack
from quotas.services.quota import require_decider
from quotas.services.requests.request_amounts import names_lending_limits
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.schema import problem_responses


class _NodeSerializer(serializers.Serializer[Any]):
    tenant = serializers.CharField(source="node.tenant.slug")
    queue = serializers.SerializerMethodField(help_text="Name of the queue; empty: the tenant itself.")

    def get_queue(self, of: Any) -> str:
        """Return the name of the queue of a node."""
        node = of["node"] if isinstance(of, dict) else of.node
        return str(node.queue.name) if node.is_queue else ""


class RaiseSerializer(_NodeSerializer):
    increases = serializers.DictField(child=serializers.IntegerField(), help_text="Amounts by resource.")


class QuotaSourceSerializer(_NodeSerializer):
    """A tenant or queue with quota left, in percent points of a GPU."""

    kind = serializers.SerializerMethodField(help_text="`unassigned` of a parent, or `unused` of a sibling.")
    amount = serializers.IntegerField(allow_null=True, help_text="null: unlimited.")
    nominal = serializers.IntegerField(source="of", allow_null=True, help_text="Of a sibling.")

    def get_kind(self, source: Any) -> str:
        """Return whether the quota is unassigned or unused."""
        return "unassigned" if source.is_above else "unused"


class QuotaLackSerializer(serializers.Serializer[Any]):
    """The shortage of one tenant in one pool, in the units of the resources."""

    tenant = serializers.CharField(source="node.tenant.slug")
    flavor = serializers.CharField(source="flavor.name")
    cluster = serializers.CharField(source="flavor.cluster.name")
    short = serializers.DictField(child=serializers.IntegerField(), help_text="Amounts by resource.")
    available = serializers.DictField(
        child=serializers.IntegerField(allow_null=True),
        help_text="Amounts that could be given by raises that you can make; null: unlimited.",
    )
    raises = RaiseSerializer(
        many=True, help_text="Raises that would cover it, from the tenant upwards; empty if not possible."
    )
    sources = QuotaSourceSerializer(many=True)


class QuotaLacksSerializer(serializers.Serializer[Any]):
    items = QuotaLackSerializer(many=True)


class QuotaRequestLacksView(PlatformView):
    """The quota that is missing to approve a request, for the admin who decides."""

    points: ClassVar = {"GET": Permission.QUOTA_EDIT}

    @extend_schema(
        operation_id="admin_quota_request_lacks",
        summary="Quota missing to approve a request, and where it is available",
        responses={200: QuotaLacksSerializer, **problem_responses(400, 404)},
        tags=["quota-requests"],
    )
    def get(self, request: Request, quota_request: uuid.UUID) -> Response:
        """Return one item for each pool in which the parent lacks unassigned quota; none if it suffices, or
        the request is not pending.
        """
        read_query(request, NoQuery)
        found = quota_request_get(self.viewer, quota_request)
        require_decider(self.viewer, found.node, limits=names_lending_limits(found.asked))
        lacks = (
            find_request_lacks(self.viewer, read_asked_quota(found))
            if found.state == RequestState.PENDING
            else []
        )
        items = [_write_names(lack) for lack in lacks]
        return Response(QuotaLacksSerializer({"items": items}).data)


def _write_names(lack: QuotaLack) -> dict[str, Any]:
    """Return a shortage with resources by their names."""
    return {
        "node": lack.node,
        "flavor": lack.flavor,
        "short": {resource.value: amount for resource, amount in lack.short.items()},
        "available": {resource.value: amount for resource, amount in lack.available.items()},
        "raises": [
            {"node": one.node, "increases": {resource.value: n for resource, n in one.increases.items()}}
            for one in lack.raises
        ],
        "sources": lack.sources,
    }
