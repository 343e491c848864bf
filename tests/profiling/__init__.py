"""Tests of what profiles say."""
