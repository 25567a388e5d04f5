"""What is known about each command?"""
