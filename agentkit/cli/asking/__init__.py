"""How is a question asked, answered, kept and paid for on the command line?"""
