"""How is a run that is over shown to a person, or run again?"""
