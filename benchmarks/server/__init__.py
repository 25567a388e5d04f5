"""The deterministic HTTP server of the benchmarks, which runs in a separate process and needs little CPU time."""
