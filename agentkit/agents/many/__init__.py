"""How does an agent answer many prompts, here or in the processes of an executor?"""
