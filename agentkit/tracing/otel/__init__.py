"""OpenTelemetry spans and metrics of runs.

These are the only modules that know OpenTelemetry, and they know its API alone: in a program without an SDK nothing is
kept, and next to nothing is spent.
"""
