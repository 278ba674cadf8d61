"""A small site for the browser tests: real server, real database file, a model that follows a script."""
