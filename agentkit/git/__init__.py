"""Reading git's own files: settings, index and the layout of a repository. Git itself is never run."""
