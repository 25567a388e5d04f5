"""How does one run go, from its prompt to its end?"""
