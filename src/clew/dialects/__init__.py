"""Message formats: messages as providers and frameworks write them, and conversations rendered in each other's formats.

Pure, and without an import of any provider's package: objects are dumped by their own methods.
"""
