"""What does the command line do when its flags do not say? Environment, project file, user file, default."""
