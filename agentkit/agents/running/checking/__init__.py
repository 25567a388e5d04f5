"""What is looked at beside the calls themselves? Their results, and what the provider does by itself."""
