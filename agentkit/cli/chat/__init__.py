"""How does a person talk with an agent, at a terminal or through a pipe?"""
