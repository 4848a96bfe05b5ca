"""Scores of clips that a zoetrope program made from captions of the world: see __main__.py."""
