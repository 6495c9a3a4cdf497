"""The audit log and the chain of hashes that seals it."""
