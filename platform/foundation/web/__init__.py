"""HTTP: problem+json, lists, idempotency, rate limits, request ids."""
