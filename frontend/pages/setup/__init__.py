"""The pages from an empty installation to a first job: clusters, pools, and a checklist."""
