"""The resources that a job holds and uses: facts, charts, idle time, memory."""
