"""How does a person, or a program, log in to a server? What was asked for, where it is kept, whom it may be sent to."""
