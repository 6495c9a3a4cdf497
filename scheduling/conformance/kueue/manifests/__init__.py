"""Objects of Kubernetes and Kueue as parts of a snapshot of the engine."""
