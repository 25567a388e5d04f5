"""How is a function read: its annotations, its docstring, and the ways in which it takes arguments?"""
