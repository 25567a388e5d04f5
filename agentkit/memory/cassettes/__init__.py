"""What was asked of the world, and what did it answer? Runs recorded in a file, and given again from it."""
