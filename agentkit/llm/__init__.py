"""How do we talk to a model?"""
