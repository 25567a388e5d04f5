"""Which tools is a model offered? All that are plain, and those that it has searched for."""
