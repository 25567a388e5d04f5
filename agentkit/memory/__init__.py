"""What is remembered?"""
