"""What consumers of both kinds share: options, checks of handlers, worker processes."""
