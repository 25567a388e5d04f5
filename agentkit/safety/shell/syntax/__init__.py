"""What does a text say as bash reads it?"""
