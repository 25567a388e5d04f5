"""What the command line takes from a Python file of the user's: agents, suites, and tools of their own."""
