"""What does a document say, and how is it built? One reader a format."""
