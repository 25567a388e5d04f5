"""How is a question answered by the small model on this machine, which chooses tools and fills their arguments?"""
