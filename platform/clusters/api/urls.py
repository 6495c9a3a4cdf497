"""Routes below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from clusters.api import views

urlpatterns = [
    path("admin/cells", views.CellsView.as_view(), name="admin-cells"),
    path("admin/cells/<str:cell>", views.CellView.as_view(), name="admin-cell"),
    path("admin/clusters", views.ClustersView.as_view(), name="admin-clusters"),
    path("admin/clusters/<str:cluster>", views.ClusterView.as_view(), name="admin-cluster"),
    path("admin/flavors", views.FlavorsView.as_view(), name="admin-flavors"),
    path("admin/flavors/<str:cluster>/<str:flavor_name>", views.FlavorView.as_view(), name="admin-flavor"),
    path("admin/nodes", views.NodesView.as_view(), name="admin-nodes"),
    path("admin/nodes/<str:name>", views.NodeView.as_view(), name="admin-node"),
    path("admin/nodes/<str:name>/cordon", views.NodeCordonView.as_view(), name="admin-node-cordon"),
    path("admin/nodes/<str:name>/uncordon", views.NodeUncordonView.as_view(), name="admin-node-uncordon"),
    path("admin/devices", views.DevicesView.as_view(), name="admin-devices"),
    path("admin/devices/<str:uuid>", views.DeviceView.as_view(), name="admin-device"),
]
