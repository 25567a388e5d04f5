"""How is it said what an agent may do?"""
