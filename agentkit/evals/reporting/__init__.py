"""What is said of trials? Figures, and the forms in which they are shown."""
