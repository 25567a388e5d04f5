"""Is a program given on the command line, in Python, awk, sed or another language, harmless?"""
