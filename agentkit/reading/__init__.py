"""What does a text say, and what does a file that is none? Its words; one module a format."""
