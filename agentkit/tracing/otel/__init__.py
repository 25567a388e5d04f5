"""OpenTelemetry spans and metrics of runs.

Only these modules import OpenTelemetry, and only its API: without an SDK nothing is recorded, at negligible cost.
"""
