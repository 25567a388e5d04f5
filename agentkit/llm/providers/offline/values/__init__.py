"""What do a question's figures, dates and names come to as the value of one parameter?"""
