"""The spectrum of B = −½CDC and the closed forms selected from it."""
