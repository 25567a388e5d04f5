"""How does code in the sandbox use functions of the host? It asks by frames; the host answers, and judges each."""
