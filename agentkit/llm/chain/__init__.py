"""Who answers when a model does not?"""
