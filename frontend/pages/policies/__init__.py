"""Pages of the rules for jobs: policies, priorities, queues."""
