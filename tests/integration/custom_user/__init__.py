"""A host project whose people have UUID keys, log in by e-mail and have no username."""
