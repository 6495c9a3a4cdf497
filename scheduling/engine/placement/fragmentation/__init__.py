"""This package holds the packing policies: how much capacity a placement makes useless, for a workload
mix."""
