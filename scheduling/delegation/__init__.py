"""Clusters whose own engine (Kueue) admits jobs: they get the quota tree and jobs, and report decisions."""
