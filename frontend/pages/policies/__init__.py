"""Pages of the rules that jobs are held to: policies, priorities, queues."""
