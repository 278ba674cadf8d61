"""Telling people and machines outside of calls that wait: by e-mail and by signed webhook, after commit (H15)."""
