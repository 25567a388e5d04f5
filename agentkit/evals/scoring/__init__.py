"""How good is an answer? One module for each way to tell."""
