"""How does a server shape its answers? One module for each protocol (pure)."""
