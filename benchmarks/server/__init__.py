"""What answers the requests? A deterministic server, in a process of its own, that costs next to nothing."""
