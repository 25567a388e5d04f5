"""What if somebody else has described the parameters? Their schema in today's JSON schema, and arguments against it."""
