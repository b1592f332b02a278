"""Tools, states, patches and tests."""
