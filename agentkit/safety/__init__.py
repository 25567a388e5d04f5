"""May this happen?"""
