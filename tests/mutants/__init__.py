"""Mutants of the pure code and of what moves or deletes things: do the fast tests notice? ``python -m tests.mutants``.

A seeded sample of small changes of the code is tried, each in a copy of the tree, with the tests that execute the
changed line. One that no test notices survives: a test is missing there, or the code does nothing.
"""
