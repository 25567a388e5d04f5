"""Where can sessions be kept?"""
