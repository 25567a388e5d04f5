"""Agents: the run loop, its drivers, and what surrounds it."""
