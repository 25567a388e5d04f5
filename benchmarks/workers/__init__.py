"""Worker processes of the benchmarks, with one adapter per library. The harness uses only the standard library."""
