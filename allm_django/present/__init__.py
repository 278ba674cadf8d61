"""How a session, a message, a card looks to one viewer: one shape for API, page and admin."""
