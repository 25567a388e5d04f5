"""What does a search for better texts find?"""
