"""What is a word of another toolkit called here?"""
