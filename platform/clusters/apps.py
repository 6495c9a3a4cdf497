from django.apps import AppConfig


class ClustersConfig(AppConfig):
    """Clusters, flavors, nodes and devices, and the backends that reach them."""

    name = "clusters"
    verbose_name = "Clusters"
