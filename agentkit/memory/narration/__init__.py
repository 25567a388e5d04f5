"""What is a run's story, and how is it told? One story of its milestones, whoever shows it and wherever."""
