"""Where in the files does a pattern match?"""
