"""What is written down of a run, so that it can be changed back by another process?"""
