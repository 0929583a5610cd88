"""Code for consumers: options, checks of handlers, worker processes."""
