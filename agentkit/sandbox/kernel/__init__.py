"""What does the kernel keep a process from?"""
