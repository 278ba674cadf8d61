"""A host project that keeps people and conversations in a database of their own."""
