"""How does OpenTelemetry hear of runs? A span for each run, iteration, request and tool call, and what they took.

These are the only modules that know OpenTelemetry, and they know its API alone: in a program without an SDK nothing is
kept, and next to nothing is spent.
"""
