"""Filters in XPath 1.0 over the XML-RPC form of an event: text, trees, and what functions do."""
