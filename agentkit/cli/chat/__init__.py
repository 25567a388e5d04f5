"""The interactive chat, at a terminal or through a pipe."""
