"""How is an agent put on the network from the command line?"""
