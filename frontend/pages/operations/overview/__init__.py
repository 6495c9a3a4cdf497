"""The overview of clusters: figures, tiles, tenants, utilization, and causes of lost GPUs."""
