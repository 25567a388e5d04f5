"""What does a library do when it is measured? A process of its own, one adapter a library; standard library else."""
