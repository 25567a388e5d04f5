"""Where does code that nobody trusts run?"""
