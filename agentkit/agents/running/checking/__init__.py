"""What may a model read of what its tools gave? What the agent's checks of results say."""
