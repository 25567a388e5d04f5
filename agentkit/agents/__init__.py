"""Agents: run loop, drivers, policy, approvals and budgets."""
