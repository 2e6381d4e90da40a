"""XPath 1.0 over the XML-RPC form of an event: parsing, costs, evaluation, terms of trees."""
