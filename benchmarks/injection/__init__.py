"""Benchmark of prompt injections: AgentDojo's tasks and attacks, with a model that follows every instruction."""
