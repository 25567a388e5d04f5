"""How well are passages found?"""
