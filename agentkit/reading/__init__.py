"""What does a file say that is no text? One module a format."""
