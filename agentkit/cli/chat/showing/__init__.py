"""How does an answer look at a terminal while it is written?"""
