"""How does a fake server speak Anthropic's Messages protocol?"""
