"""How does one trial go? Its prompts, the agent or function that answers them, and what is heard of it."""
