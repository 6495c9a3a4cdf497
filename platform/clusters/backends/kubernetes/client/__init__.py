"""Calls to the API of a cluster: connection, retries, circuit breaker, threads."""
