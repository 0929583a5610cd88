"""Transports: the registry by URL, environments, the circuit breaker, queues in memory."""
