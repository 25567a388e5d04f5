"""Cassettes: recordings of model answers, tool results and approvals, for replay."""
