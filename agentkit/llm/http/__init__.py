"""What does HTTP need beside the library? Bounds for what comes, and lanes for many requests at once."""
