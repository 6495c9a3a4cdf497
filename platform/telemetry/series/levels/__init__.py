"""The series of each level: cluster, workspace, node, GPU and job."""
