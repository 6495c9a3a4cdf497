"""The packing policies: what a placement leaves useless, and the workload mix it is judged by."""
