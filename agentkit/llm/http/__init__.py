"""HTTP transport: connections, retries, limits and error mapping."""
