"""How does a run go?"""
