"""What does HTTP need beside the library? Pauses and bounds, lanes for many requests at once, errors in words."""
