"""Tools that make the documentation site: what mkdocstrings needs, checks of the build, pictures."""
