"""What would it cost without a library? The openai package, its low-level call, and clients below it."""
