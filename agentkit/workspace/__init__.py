"""What may be changed, and changed back?"""
