"""Declarations as values, their requesters and their audit."""
