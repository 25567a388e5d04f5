"""How does an agent meet those who use it?"""
