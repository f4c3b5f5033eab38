"""Small things that several parts of the library need, each written once."""
