"""This package holds the packing policies: how much capacity a placement wastes for a workload mix."""
