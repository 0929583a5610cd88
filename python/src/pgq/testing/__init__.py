"""For tests: an embedded PostgreSQL server, and fixtures of pytest."""
