"""Tests of `pasta doctor`."""
