"""`agentkit knowledge`: documents in, passages out."""
