"""Kernel isolation: namespaces, Landlock and seccomp."""
