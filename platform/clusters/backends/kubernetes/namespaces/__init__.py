"""The namespace of a workspace, what is in it, and the platform that owns the cluster."""
