"""The namespace of a workspace, its objects, and the platform that owns the cluster."""
