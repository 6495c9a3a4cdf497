"""Clusters whose present state is unknown, for the banner on every page of a workspace or operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from clusters.models import Cluster, ClusterHealth
from frontend.shell import navigation
from quotas.selectors.pools.outages import stale_clusters_of
from tenants.models import Tenant, User


@dataclass(frozen=True, slots=True)
class Outages:
    """The clusters of a page that do not respond; read only when a whole page is rendered.

    `url` is the address at which the banner is fetched again.
    """

    url: str
    clusters: Callable[[], Sequence[Cluster]]


def find_stale_clusters(clusters: Iterable[Cluster]) -> list[Cluster]:
    """Return the clusters whose present state is unknown."""
    return [c for c in clusters if c.health in (ClusterHealth.UNREACHABLE, ClusterHealth.DISOWNED)]


def outages_of(who: User, workspace: Tenant | None, shown: Cluster | None) -> Outages:
    """Return the outage of the cluster `shown`; by default those of the clusters that the workspace uses, and
    on the operators' side of all clusters of concern to the reader.
    """
    address = navigation.find_address("frontend:outages")
    if shown is not None:
        query = urlencode({"cluster": shown.name})
        return Outages(f"{address}?{query}", lambda: find_stale_clusters([shown]))
    if workspace is not None:
        address = f"{address}?{urlencode({'workspace': workspace.slug})}"
    return Outages(address, lambda: stale_clusters_of(who, workspace=workspace))
